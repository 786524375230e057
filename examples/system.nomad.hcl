# One allocation on every node: it writes the node's load every ten seconds.
#
#   songline job run examples/system.nomad.hcl   and then: songline alloc logs -f ALLOC

job "node-load" {
  datacenters = ["dc1"]
  type        = "system"

  group "load" {
    task "load" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do cat /proc/loadavg; sleep 10; done"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
