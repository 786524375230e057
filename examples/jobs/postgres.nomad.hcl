# PostgreSQL on a host volume, so that its data outlive the allocation. A task before it makes the database if there is none.
#
# The node needs PostgreSQL 15 of Debian and, in its configuration:
#
#   client { host_volume "postgres" { path = "/var/lib/postgres-data" } }       # a directory that belongs to postgres
#
#   songline job run examples/jobs/postgres.nomad.hcl
#   songline alloc exec -task server ALLOC psql -h 127.0.0.1 -p PORT -U postgres -c 'select version()'

variable "programs" {
  default     = "/usr/lib/postgresql/15/bin"
  description = "Directory of initdb and postgres."
}

job "postgres" {
  datacenters = ["dc1"]

  group "db" {
    volume "data" {
      type   = "host"
      source = "postgres"
    }

    network {
      port "db" {}
    }

    # Two servers on one data directory would destroy it: the old one ends before the new one starts.
    update {
      max_parallel     = 1
      min_healthy_time = "1s"
      healthy_deadline = "2m"
    }

    service {
      name     = "postgres"
      port     = "db"
      provider = "nomad"

      check {
        type     = "tcp"
        interval = "2s"
        timeout  = "1s"
      }
    }

    task "init" {
      driver = "exec"
      user   = "postgres"

      lifecycle {
        hook = "prestart"
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "[ -e /data/main/PG_VERSION ] || exec ${var.programs}/initdb --auth=trust --no-sync -D /data/main"]
      }

      resources {
        cpu    = 100
        memory = 128
      }
    }

    task "server" {
      driver = "exec"
      user   = "postgres"

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      config {
        command = "${var.programs}/postgres"
        args    = ["-D", "/data/main", "-h", "127.0.0.1", "-p", "${NOMAD_PORT_db}", "-k", "/tmp"]
      }

      # SIGINT is PostgreSQL's fast shutdown.
      kill_signal  = "SIGINT"
      kill_timeout = "20s"

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
