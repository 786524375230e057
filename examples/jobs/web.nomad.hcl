# A web service in containers behind a bridge network: mapped ports, HTTP checks that gate the roll-out, one canary for each new version.
#
#   songline job run examples/jobs/web.nomad.hcl
#   songline service info web                      # the mapped ports
#   change `greeting` and run it again             # one canary beside the two old containers, promoted when its check passes

variable "image" {
  default     = "busybox:1.36"
  description = "Any image with busybox's httpd."
}

variable "greeting" {
  default = "hello"
}

job "web" {
  datacenters = ["dc1"]

  group "web" {
    count = 2

    network {
      mode = "bridge"

      port "http" {
        to = 8080
      }
    }

    update {
      max_parallel      = 1
      canary            = 1
      auto_promote      = true
      auto_revert       = true
      min_healthy_time  = "1s"
      healthy_deadline  = "1m"
      progress_deadline = "2m"
    }

    service {
      name     = "web"
      port     = "http"
      provider = "nomad"
      tags     = ["urlprefix-/"]

      check {
        name     = "front page"
        type     = "http"
        path     = "/index.html"
        interval = "2s"
        timeout  = "1s"
      }
    }

    task "httpd" {
      driver = "docker"

      config {
        image      = var.image
        force_pull = false
        command    = "httpd"
        args       = ["-f", "-p", "8080", "-h", "/local"]
        ports      = ["http"]
      }

      template {
        destination = "local/index.html"
        data        = <<PAGE
<h1>${var.greeting} from {{ env "NOMAD_ALLOC_NAME" }}</h1>
PAGE
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
