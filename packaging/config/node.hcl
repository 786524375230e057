# A node without a server of its own. Keys: /usr/share/doc/songline/docs/configuration.md
data_dir  = "/var/lib/songline/node"
bind_addr = "127.0.0.1"

# The server of this package uses the usual port.
ports {
  http = 4656
}

client {
  enabled = true
  servers = ["127.0.0.1:4647"]
}
