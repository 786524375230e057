# Tasks around a main task: a preparation that must succeed first, a sidecar beside it, and a farewell after it.
# They share the directory `alloc/data`.
#
#   songline job run examples/jobs/sidecar.nomad.hcl
#   songline alloc logs -f -task follow ALLOC

job "sidecar" {
  datacenters = ["dc1"]

  group "app" {
    shutdown_delay = "0s"

    update {
      health_check     = "task_states"
      min_healthy_time = "1s"
      healthy_deadline = "1m"
    }

    task "prepare" {
      driver = "exec"

      lifecycle {
        hook = "prestart"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo prepared > $NOMAD_ALLOC_DIR/data/app.log"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }

    task "follow" {
      driver = "exec"

      lifecycle {
        hook    = "prestart"
        sidecar = true
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "exec tail -n +1 -F $NOMAD_ALLOC_DIR/data/app.log"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }

    task "app" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo working >> $NOMAD_ALLOC_DIR/data/app.log; sleep 1; done"]
      }

      kill_timeout = "2s"

      resources {
        cpu    = 20
        memory = 16
      }
    }

    task "farewell" {
      driver = "exec"

      lifecycle {
        hook = "poststop"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "tail -n 1 $NOMAD_ALLOC_DIR/data/app.log"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
