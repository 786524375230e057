"""A CSI plugin of no real storage: volumes are names, publishing makes an empty directory. For conversations of profile `csi`.

    plugin.py --id PLUGIN_ID [--node-only] [--no-attach]        serves on $CSI_ENDPOINT (set by the agent's CSI hook)

Run by raw_exec, without file system isolation: paths below /local/csi are mapped to the agent's csi/monolith/PLUGIN_ID (or csi/node/PLUGIN_ID).
csi.proto beside it is that of the CSI specification 1.7.0 (Apache-2.0).
Names and external ids choose the outcome: create and snapshot names "fail.." are refused, deleting ".. sticky" is refused, validating the external
id "absent" is refused, "unconfirmed" is not confirmed; staging an id with "nostage" in it fails.
"""
import argparse, os, sys, threading, time
from concurrent import futures
import grpc
import csi_pb2 as pb, csi_pb2_grpc as rpc

ap = argparse.ArgumentParser()
ap.add_argument("--id", required=True); ap.add_argument("--name", default="org.songline.test")
ap.add_argument("--node-only", action="store_true"); ap.add_argument("--no-attach", action="store_true")
a = ap.parse_args()
VOLS, SNAPS, LOCK = {}, {}, threading.Lock()


def host(path):
    """The directory on the host that the agent means with a path below /local/csi."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(path_of_socket)))
    return path.replace("/local/csi", os.path.join(root, "node" if a.node_only else "monolith", a.id), 1)


def log(*x):
    print(time.strftime("%H:%M:%S"), *x, flush=True)


class Identity(rpc.IdentityServicer):
    def GetPluginInfo(self, r, c): return pb.GetPluginInfoResponse(name=a.name, vendor_version="1.2.3")
    def GetPluginCapabilities(self, r, c):
        S = pb.PluginCapability.Service
        types = ([] if a.node_only else [S.CONTROLLER_SERVICE])
        return pb.GetPluginCapabilitiesResponse(capabilities=[pb.PluginCapability(service=S(type=t)) for t in types])
    def Probe(self, r, c): return pb.ProbeResponse()


class Controller(rpc.ControllerServicer):
    def ControllerGetCapabilities(self, r, c):
        R = pb.ControllerServiceCapability.RPC
        ts = [R.CREATE_DELETE_VOLUME, R.LIST_VOLUMES, R.CREATE_DELETE_SNAPSHOT, R.LIST_SNAPSHOTS, R.EXPAND_VOLUME, R.CLONE_VOLUME]
        if not a.no_attach: ts += [R.PUBLISH_UNPUBLISH_VOLUME, R.LIST_VOLUMES_PUBLISHED_NODES]
        return pb.ControllerGetCapabilitiesResponse(capabilities=[pb.ControllerServiceCapability(rpc=R(type=t)) for t in ts])
    def CreateVolume(self, r, c):
        log("CreateVolume", r)
        if r.name.startswith("fail"): c.abort(grpc.StatusCode.INVALID_ARGUMENT, "the name is not liked")
        v = pb.Volume(volume_id="ext-" + r.name, capacity_bytes=r.capacity_range.required_bytes or 1 << 20, volume_context={"made": "here"})
        if r.HasField("volume_content_source"): v.content_source.CopyFrom(r.volume_content_source)
        VOLS[v.volume_id] = v
        return pb.CreateVolumeResponse(volume=v)
    def DeleteVolume(self, r, c):
        log("DeleteVolume", r)
        if r.volume_id.endswith("sticky"): c.abort(grpc.StatusCode.FAILED_PRECONDITION, "still used there")
        VOLS.pop(r.volume_id, None)
        return pb.DeleteVolumeResponse()
    def ControllerPublishVolume(self, r, c):
        log("ControllerPublishVolume", r)
        return pb.ControllerPublishVolumeResponse(publish_context={"dev": "/dev/none"})
    def ControllerUnpublishVolume(self, r, c):
        log("ControllerUnpublishVolume", r)
        return pb.ControllerUnpublishVolumeResponse()
    def ValidateVolumeCapabilities(self, r, c):
        log("Validate", r)
        if r.volume_id == "absent": c.abort(grpc.StatusCode.NOT_FOUND, "no such volume there")
        if r.volume_id == "unconfirmed": return pb.ValidateVolumeCapabilitiesResponse(message="not this one")
        C = pb.ValidateVolumeCapabilitiesResponse.Confirmed
        return pb.ValidateVolumeCapabilitiesResponse(confirmed=C(volume_capabilities=r.volume_capabilities, volume_context=r.volume_context, parameters=r.parameters))
    def ListVolumes(self, r, c):
        log("ListVolumes", r)
        if r.starting_token == "bad": c.abort(grpc.StatusCode.ABORTED, "no such token")
        E = pb.ListVolumesResponse.Entry
        # always the same two and a next token, whatever was created
        es = [E(volume=pb.Volume(volume_id=f"list-{n}", capacity_bytes=n << 20, volume_context={"n": str(n)})) for n in (1, 2)]
        es[1].status.published_node_ids.append("n1"); es[1].status.volume_condition.abnormal = True; es[1].status.volume_condition.message = "worn"
        n = r.max_entries or 2
        return pb.ListVolumesResponse(entries=es[:n], next_token="more" if n < 2 else "")
    def GetCapacity(self, r, c): return pb.GetCapacityResponse(available_capacity=1 << 40)
    def CreateSnapshot(self, r, c):
        log("CreateSnapshot", r)
        if r.name.startswith("fail"): c.abort(grpc.StatusCode.INVALID_ARGUMENT, "the name is not liked")
        s = pb.Snapshot(snapshot_id="snap-" + r.name, source_volume_id=r.source_volume_id, size_bytes=4096, ready_to_use=True)
        s.creation_time.seconds = 1700000000
        SNAPS[s.snapshot_id] = s
        return pb.CreateSnapshotResponse(snapshot=s)
    def DeleteSnapshot(self, r, c):
        log("DeleteSnapshot", r)
        if r.snapshot_id == "busy": c.abort(grpc.StatusCode.FAILED_PRECONDITION, "in use there")
        SNAPS.pop(r.snapshot_id, None)
        return pb.DeleteSnapshotResponse()
    def ListSnapshots(self, r, c):
        log("ListSnapshots", r)
        E = pb.ListSnapshotsResponse.Entry
        s = pb.Snapshot(snapshot_id="snap-1", source_volume_id="list-1", size_bytes=4096, ready_to_use=True)
        s.creation_time.seconds = 1700000000
        return pb.ListSnapshotsResponse(entries=[E(snapshot=s)], next_token="more" if r.max_entries == 1 else "")
    def ControllerExpandVolume(self, r, c):
        log("Expand", r)
        return pb.ControllerExpandVolumeResponse(capacity_bytes=r.capacity_range.required_bytes, node_expansion_required=False)
    def ControllerGetVolume(self, r, c): c.abort(grpc.StatusCode.UNIMPLEMENTED, "no")


class Node(rpc.NodeServicer):
    def NodeGetCapabilities(self, r, c):
        R = pb.NodeServiceCapability.RPC
        return pb.NodeGetCapabilitiesResponse(capabilities=[pb.NodeServiceCapability(rpc=R(type=R.STAGE_UNSTAGE_VOLUME))])
    def NodeGetInfo(self, r, c): return pb.NodeGetInfoResponse(node_id="n1", max_volumes_per_node=10)
    def NodeStageVolume(self, r, c):
        log("NodeStage", r)
        if "nostage" in r.volume_id: c.abort(grpc.StatusCode.INVALID_ARGUMENT, "it can not be staged")
        return pb.NodeStageVolumeResponse()
    def NodeUnstageVolume(self, r, c): log("NodeUnstage", r); return pb.NodeUnstageVolumeResponse()
    def NodePublishVolume(self, r, c):
        log("NodePublish", r)
        os.makedirs(host(r.target_path), exist_ok=True)
        return pb.NodePublishVolumeResponse()
    def NodeUnpublishVolume(self, r, c):
        log("NodeUnpublish", r)
        try: os.rmdir(host(r.target_path))
        except OSError as e: log(e)
        return pb.NodeUnpublishVolumeResponse()
    def NodeExpandVolume(self, r, c): return pb.NodeExpandVolumeResponse(capacity_bytes=r.capacity_range.required_bytes)


ep = os.environ["CSI_ENDPOINT"]
path_of_socket = ep.replace("unix://", "")
if os.path.exists(path_of_socket): os.unlink(path_of_socket)
s = grpc.server(futures.ThreadPoolExecutor(8))
rpc.add_IdentityServicer_to_server(Identity(), s)
if not a.node_only: rpc.add_ControllerServicer_to_server(Controller(), s)
rpc.add_NodeServicer_to_server(Node(), s)
s.add_insecure_port(ep if ep.startswith("unix:") else "unix://" + ep)
s.start(); log("serving", ep)
s.wait_for_termination()
