# A service that keeps its disk: the next allocation, on the same node or another, goes on from the data of the one before.
#
#   songline job run examples/jobs/counter.nomad.hcl
#   songline job run -var note=again examples/jobs/counter.nomad.hcl     # the count goes on

variable "note" {
  default = "first"
}

job "counter" {
  datacenters = ["dc1"]

  group "counter" {
    ephemeral_disk {
      size    = 150
      sticky  = true
      migrate = true
    }

    update {
      health_check     = "task_states"
      min_healthy_time = "1s"
      healthy_deadline = "1m"
    }

    task "count" {
      driver = "raw_exec"

      env {
        NOTE = var.note
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "f=$NOMAD_ALLOC_DIR/data/starts; echo $NOTE >> $f; echo start $(wc -l < $f); exec sleep 86400"]
      }

      logs {
        max_files     = 2
        max_file_size = 10
      }

      kill_timeout = "2s"

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
