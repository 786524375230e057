# A parameterized job: each dispatch encodes one payload. The same request twice with one idempotency token runs once.
#
#   songline job run examples/jobs/encoder.nomad.hcl
#   echo 'a line of text' | songline job dispatch -meta format=base64 encoder -
#   songline job status encoder

job "encoder" {
  datacenters = ["dc1"]
  type        = "batch"

  parameterized {
    payload       = "required"
    meta_required = ["format"]
    meta_optional = ["width"]
  }

  meta {
    width = "76"
  }

  group "encode" {
    task "encode" {
      driver = "exec"

      dispatch_payload {
        file = "input"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "$NOMAD_META_format -w $NOMAD_META_width /local/input"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
