# A batch job that is launched every minute, one run at a time.
#
#   songline job run examples/periodic.nomad.hcl   and a minute later: songline job status

job "every-minute" {
  datacenters = ["dc1"]
  type        = "batch"

  periodic {
    crons            = ["* * * * *"]
    prohibit_overlap = true
    time_zone        = "UTC"
  }

  group "run" {
    task "date" {
      driver = "raw_exec"

      config {
        command = "/bin/date"
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
