# A CSI plugin on every node that has it, for examples/jobs/csi-database.nomad.hcl. It offers controller and node in one.
#
#   songline job run -var command=/path/of/plugin examples/jobs/csi-plugin.nomad.hcl
#   songline plugin status disks

variable "command" {
  description = "Program of the plugin; it listens on the socket of CSI_ENDPOINT."
}

variable "args" {
  type    = list(string)
  default = []
}

job "csi-plugin" {
  datacenters = ["*"]
  type        = "system"

  group "plugin" {
    task "plugin" {
      driver = "raw_exec"

      csi_plugin {
        id        = "disks"
        type      = "monolith"
        mount_dir = "/csi"
      }

      config {
        command = var.command
        args    = var.args
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
