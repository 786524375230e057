# A backup every night at half past two, local time, never two at once. The newest three archives stay on the host volume.
#
# The node needs a directory that belongs to nobody: client { host_volume "backups" { path = "/var/backups/songline" } }
#
#   songline job run examples/jobs/backup.nomad.hcl
#   songline job periodic force backup                         # now, without waiting for the night

job "backup" {
  datacenters = ["dc1"]
  type        = "batch"

  periodic {
    crons            = ["30 2 * * *"]
    time_zone        = "Europe/Berlin"
    prohibit_overlap = true
  }

  group "backup" {
    volume "backups" {
      type   = "host"
      source = "backups"
    }

    restart {
      attempts = 3
      delay    = "30s"
      mode     = "fail"
    }

    task "archive" {
      driver = "exec"
      user   = "nobody"

      volume_mount {
        volume      = "backups"
        destination = "/backups"
      }

      config {
        command = "/bin/sh"
        args    = ["/local/backup.sh"]
      }

      template {
        destination = "local/backup.sh"
        data        = <<SCRIPT
set -e
tar -czf /backups/new.tmp -C /etc hostname
mv /backups/new.tmp /backups/etc-$(date +%s).tar.gz
ls -t /backups/etc-*.tar.gz | tail -n +4 | xargs -r rm -v
ls /backups
SCRIPT
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
