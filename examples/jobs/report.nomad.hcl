# A batch job: fetches an archive, reads its settings from a template, writes a report, and ends.
#
#   songline job run -var source=http://127.0.0.1:8000/data.tar.gz examples/jobs/report.nomad.hcl
#   songline alloc fs ALLOC alloc/data/report.txt

variable "source" {
  description = "Address of a tar.gz with a file numbers.txt, a number a line."
}

job "report" {
  datacenters = ["dc1"]
  type        = "batch"

  group "report" {
    restart {
      attempts = 2
      delay    = "5s"
      mode     = "fail"
    }

    task "sum" {
      driver = "exec"

      artifact {
        source      = var.source
        destination = "local/input"
      }

      template {
        destination = "local/settings.env"
        env         = true
        data        = <<ENV
TITLE={{ "sum of numbers" | toUpper }}
NODE={{ env "node.unique.name" }}
ENV
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "awk -v title=\"$TITLE\" '{ sum += $1 } END { print title \": \" sum }' /local/input/numbers.txt | tee $NOMAD_ALLOC_DIR/data/report.txt"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
