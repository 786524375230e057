# A service whose new versions start as one canary beside the two allocations of the old version.
#
#   songline job run examples/canary.nomad.hcl
#   change `version` below and run it again, then look: songline job status canary
#   curl -X PUT -d '{"All": true, "DeploymentID": "ID"}' http://127.0.0.1:4646/v1/deployment/promote/ID

job "canary" {
  datacenters = ["dc1"]
  type        = "service"

  group "app" {
    count = 2

    update {
      max_parallel      = 1
      canary            = 1
      auto_revert       = true
      health_check      = "task_states"
      min_healthy_time  = "1s"
      healthy_deadline  = "30s"
      progress_deadline = "1m"
    }

    task "app" {
      driver = "raw_exec"

      env {
        version = "1"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo version $version; sleep 1; done"]
      }

      kill_timeout = "2s"

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
