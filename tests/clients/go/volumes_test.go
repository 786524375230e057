package clients

// CSI volumes and plugins, as far as an agent without a storage plugin can answer.

import (
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
)

func TestVolumesWithoutAPlugin(t *testing.T) {
	c := dev(t)
	volumes := c.CSIVolumes()
	list, meta, err := volumes.List(nil)
	must(t, err)
	check(t, meta != nil && len(list) == 0, "volumes %v", list)
	list, _, err = volumes.PluginList("nope")
	must(t, err)
	equal(t, "volumes of a plugin", len(list), 0)
	_, _, err = volumes.Info("nope", nil)
	refused(t, err, 404, "volume not found")
	volume := &api.CSIVolume{ID: "go-volume", Name: "go-volume", PluginID: "nope",
		RequestedCapabilities: []*api.CSIVolumeCapability{{AccessMode: api.CSIVolumeAccessModeSingleNodeWriter, AttachmentMode: api.CSIVolumeAttachmentModeFilesystem}}}
	_, err = volumes.Register(volume, nil)
	check(t, err != nil && strings.Contains(err.Error(), "nope"), "register: %v", err)
	_, _, err = volumes.Create(volume, nil)
	check(t, err != nil && strings.Contains(err.Error(), "nope"), "create: %v", err)
	err = volumes.Deregister("nope", true, nil)
	check(t, err != nil && strings.Contains(err.Error(), "volume not found"), "deregister: %v", err)
	err = volumes.Delete("nope", nil)
	check(t, err != nil && strings.Contains(err.Error(), "volume not found"), "delete: %v", err)
	err = volumes.DeleteOpts(&api.CSIVolumeDeleteRequest{ExternalVolumeID: "nope", Secrets: api.CSISecrets{"k": "v"}}, nil)
	check(t, err != nil && strings.Contains(err.Error(), "volume not found"), "delete: %v", err)
	err = volumes.Detach("nope", nodeID(t, c), nil)
	check(t, err != nil && strings.Contains(err.Error(), "no such volume"), "detach: %v", err)
	_, _, err = volumes.ListExternal("nope", &api.QueryOptions{})
	check(t, err != nil, "external volumes of no plugin")
	_, _, err = volumes.CreateSnapshot(&api.CSISnapshot{SourceVolumeID: "nope", PluginID: "nope"}, nil)
	check(t, err != nil, "a snapshot of no volume")
	err = volumes.DeleteSnapshot(&api.CSISnapshot{ID: "s", PluginID: "nope"}, nil)
	check(t, err != nil, "no snapshot to delete")
	_, _, err = volumes.ListSnapshots("nope", "k=v", &api.QueryOptions{})
	check(t, err != nil, "snapshots of no plugin")
	_, _, err = volumes.ListSnapshotsOpts(&api.CSISnapshotListRequest{PluginID: "nope", Secrets: api.CSISecrets{"k": "v"}})
	check(t, err != nil, "snapshots of no plugin")

	plugins, meta, err := c.CSIPlugins().List(nil)
	must(t, err)
	check(t, meta != nil && len(plugins) == 0, "plugins %v", plugins)
	_, _, err = c.CSIPlugins().Info("nope", nil)
	refused(t, err, 404, "plugin not found")
}
