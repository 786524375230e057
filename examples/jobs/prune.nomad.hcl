# Once on every node, and never again: removes old files of a directory. A new node runs it when it joins.
#
#   songline job run examples/jobs/prune.nomad.hcl
#   songline job status prune

variable "days" {
  default = 30
}

job "prune" {
  datacenters = ["*"]
  type        = "sysbatch"

  group "prune" {
    task "prune" {
      driver = "raw_exec"

      config {
        command = "/usr/bin/find"
        args    = ["/var/tmp", "-maxdepth", "1", "-name", "prune-me-*", "-mtime", "+${var.days}", "-print", "-delete"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
