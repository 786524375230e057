# Server 3 of three on one machine: see "Three servers" in README.md. On three machines all of them keep the usual ports, `advertise`
# says where the others reach each, and the paths are the same everywhere.
name      = "three"
data_dir  = "./data/three"
bind_addr = "127.0.0.1"

ports {
  http = 4666
  rpc  = 4667
  serf = 4668
}

server {
  enabled          = true
  bootstrap_expect = 3

  server_join {
    retry_join = ["127.0.0.1:4647", "127.0.0.1:4657"]
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
