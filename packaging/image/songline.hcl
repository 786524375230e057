# A server of its own in a container. For a cluster of three: mount another file here, with `bootstrap_expect = 3`, `server_join`, `advertise`,
# and an `encrypt` key or certificates.
data_dir  = "/var/lib/songline"
bind_addr = "0.0.0.0"

server {
  enabled          = true
  bootstrap_expect = 1
}
