# A web server of one page, if there is a python3; otherwise a shell that says hello every second.
#
#   songline dev examples/hello.nomad.hcl        and then: curl http://127.0.0.1:8000/

job "hello" {
  datacenters = ["dc1"]
  type        = "service"

  group "web" {
    count = 1

    # One alloc after another, each healthy for a second before the next: the deployment ends after a few seconds.
    update {
      max_parallel      = 1
      health_check      = "task_states"
      min_healthy_time  = "1s"
      healthy_deadline  = "30s"
      progress_deadline = "1m"
    }

    restart {
      attempts = 2
      interval = "1m"
      delay    = "2s"
      mode     = "fail"
    }

    task "server" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args = [
          "-c",
          "echo '<h1>Hello from Songline</h1>' > local/index.html; echo hello from $NOMAD_ALLOC_ID; if command -v python3 > /dev/null; then exec python3 -m http.server --bind 127.0.0.1 --directory local 8000; fi; while true; do echo hello; sleep 1; done",
        ]
      }

      kill_timeout = "2s"

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
