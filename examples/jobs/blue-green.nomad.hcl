# Blue and green: a new version starts whole beside the old one, and takes over when it is promoted by hand.
#
#   songline job run examples/jobs/blue-green.nomad.hcl
#   songline job run -var version=green examples/jobs/blue-green.nomad.hcl
#   songline deployment list                                   # the deployment waits: "requires manual promotion"
#   songline deployment promote ID                             # green takes over, blue stops

variable "version" {
  default = "blue"
}

job "colours" {
  datacenters = ["dc1"]

  group "app" {
    count = 2

    update {
      max_parallel      = 2
      canary            = 2
      health_check      = "task_states"
      min_healthy_time  = "1s"
      healthy_deadline  = "1m"
      progress_deadline = "2m"
    }

    network {
      port "http" {}
    }

    # Only promoted allocations have the tag that a load balancer looks for.
    service {
      name        = "colours"
      port        = "http"
      provider    = "nomad"
      tags        = ["live"]
      canary_tags = ["next"]
    }

    task "app" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo version $VERSION on port $NOMAD_PORT_http; exec sleep 86400"]
      }

      env {
        VERSION = var.version
      }

      kill_timeout = "2s"

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
