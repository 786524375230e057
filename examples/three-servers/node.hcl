# A node for the three servers beside this file: an agent without a server of its own. It answers HTTP, too, and passes on what it is asked.
name      = "worker"
data_dir  = "/tmp/songline/worker"
bind_addr = "127.0.0.1"

ports {
  http = 4676
}

client {
  enabled = true
  servers = ["127.0.0.1:4647", "127.0.0.1:4657", "127.0.0.1:4667"]
}

plugin "raw_exec" {
  config {
    enabled = true
  }
}
