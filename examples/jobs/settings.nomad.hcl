# Settings from a variable: the file is rendered again when the variable changes, and the program gets a signal to read it anew.
#
#   songline var put nomad/jobs/settings level=info
#   songline job run examples/jobs/settings.nomad.hcl
#   songline var put -force nomad/jobs/settings level=debug   # the log says: level is debug

job "settings" {
  datacenters = ["dc1"]

  group "app" {
    update {
      health_check     = "task_states"
      min_healthy_time = "1s"
      healthy_deadline = "1m"
    }

    task "app" {
      driver = "exec"

      template {
        destination   = "local/app.conf"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        data          = <<CONF
{{ with nomadVar "nomad/jobs/settings" }}{{ .level }}{{ end }}
CONF
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "say() { echo level is $(cat /local/app.conf); }; trap say HUP; say; while true; do sleep 1; done"]
      }

      kill_timeout = "2s"

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
