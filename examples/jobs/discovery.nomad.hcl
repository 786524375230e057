# Two groups that find each other: the front writes the addresses of all backends into its file, and again when one comes or goes.
#
#   songline job run examples/jobs/discovery.nomad.hcl
#   songline job scale discovery backend 3                     # the front's list grows
#   songline alloc fs ALLOC_OF_FRONT front/local/backends

job "discovery" {
  datacenters = ["dc1"]

  update {
    health_check     = "task_states"
    min_healthy_time = "1s"
    healthy_deadline = "1m"
  }

  group "backend" {
    count = 2

    scaling {
      min = 1
      max = 5
    }

    network {
      port "api" {}
    }

    service {
      name     = "backend"
      port     = "api"
      provider = "nomad"
    }

    task "serve" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo serving on $NOMAD_ADDR_api; exec sleep 86400"]
      }

      kill_timeout = "2s"

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }

  group "front" {
    task "front" {
      driver = "raw_exec"

      template {
        destination = "local/backends"
        change_mode = "noop"
        data        = <<LIST
{{ range nomadService "backend" }}server {{ .Address }}:{{ .Port }}
{{ end }}
LIST
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 86400"]
      }

      kill_timeout = "2s"

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
