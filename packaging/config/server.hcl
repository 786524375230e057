# A server of its own, which only this machine reaches. For a cluster of three: set `bind_addr` or `advertise`, `bootstrap_expect = 3`,
# `server_join`, and an `encrypt` key or certificates on all of them. Keys: /usr/share/doc/songline/docs/configuration.md
data_dir  = "/var/lib/songline/server"
bind_addr = "127.0.0.1"

server {
  enabled          = true
  bootstrap_expect = 1
}
