# A database on a volume of a CSI plugin: one writer at a time; the claim moves with the allocation.
#
#   songline job run -var command=.. examples/jobs/csi-plugin.nomad.hcl
#   songline volume create examples/jobs/csi-volume.hcl
#   songline job run examples/jobs/csi-database.nomad.hcl
#   songline volume status database

job "csi-database" {
  datacenters = ["dc1"]

  group "db" {
    volume "data" {
      type            = "csi"
      source          = "database"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    update {
      health_check     = "task_states"
      min_healthy_time = "1s"
      healthy_deadline = "1m"
    }

    task "db" {
      driver = "exec"

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "date > /data/started; echo the data are in /data; exec sleep 86400"]
      }

      kill_timeout = "2s"

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
