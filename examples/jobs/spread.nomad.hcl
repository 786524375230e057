# Allocations where they should be: over all racks, rather on machines of 64 bits, not twice on one node if that can be.
#
#   songline job run examples/jobs/spread.nomad.hcl
#   songline alloc status -verbose ALLOC                       # the scores of the nodes

job "spread" {
  datacenters = ["*"]

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  affinity {
    attribute = "${attr.cpu.arch}"
    operator  = "regexp"
    value     = "^(amd64|arm64)$"
    weight    = 50
  }

  spread {
    attribute = "${meta.rack}"
    weight    = 100

    target "r1" {
      percent = 60
    }

    target "r2" {
      percent = 40
    }
  }

  group "app" {
    count = 3

    update {
      max_parallel     = 3
      health_check     = "task_states"
      min_healthy_time = "1s"
      healthy_deadline = "1m"
    }

    reschedule {
      delay          = "10s"
      delay_function = "exponential"
      max_delay      = "5m"
      unlimited      = true
    }

    task "app" {
      driver = "raw_exec"

      config {
        command = "/bin/sleep"
        args    = ["86400"]
      }

      kill_timeout = "2s"

      resources {
        cpu        = 20
        memory     = 16
        memory_max = 64
      }
    }
  }
}
