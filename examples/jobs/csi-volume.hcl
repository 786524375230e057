# The volume of csi-database.nomad.hcl:  songline volume create examples/jobs/csi-volume.hcl
id           = "database"
name         = "database"
type         = "csi"
plugin_id    = "disks"
capacity_min = "10MiB"
capacity_max = "100MiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
