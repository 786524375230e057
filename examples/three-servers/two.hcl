# Server 2 of three on one machine: see "Three servers" in README.md. On three machines all of them keep the usual ports, `advertise`
# says where the others reach each, and the paths are the same everywhere.
name      = "two"
data_dir  = "./data/two"
bind_addr = "127.0.0.1"

ports {
  http = 4656
  rpc  = 4657
  serf = 4658
}

server {
  enabled          = true
  bootstrap_expect = 3

  server_join {
    retry_join = ["127.0.0.1:4647", "127.0.0.1:4667"]
  }
}

# A node in the same process, so that there is somewhere to run jobs.
client {
  enabled = true
}

plugin "raw_exec" {
  config {
    enabled = true
  }
}
