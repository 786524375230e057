# One shipper on every node: it follows a file of the host, read-only, and sends each line on; here to its own log.
#
# Every node needs, in its configuration:
#
#   client { host_volume "logs" { path = "/var/log"  read_only = true } }
#
#   songline job run examples/jobs/log-shipper.nomad.hcl
#   songline alloc logs -f ALLOC

variable "file" {
  default = "messages"
}

job "log-shipper" {
  datacenters = ["*"]
  type        = "system"
  priority    = 80

  group "shipper" {
    volume "logs" {
      type      = "host"
      source    = "logs"
      read_only = true
    }

    task "ship" {
      driver = "exec"

      volume_mount {
        volume      = "logs"
        destination = "/logs"
        read_only   = true
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "tail -n 1 -F /logs/${var.file} | while read -r line; do echo \"$NODE: $line\"; done"]
      }

      env {
        NODE = "${node.unique.name}"
      }

      logs {
        max_files     = 2
        max_file_size = 5
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
