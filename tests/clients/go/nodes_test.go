package clients

// Nodes and node pools.

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

func TestNodesAreReadAndMeasured(t *testing.T) {
	c := dev(t)
	nodes := c.Nodes()
	id := nodeID(t, c)
	list, meta, err := nodes.List(&api.QueryOptions{Params: map[string]string{"resources": "true", "os": "true"}})
	read(t, meta, err)
	stub := list[0]
	check(t, stub.NodeResources != nil && stub.NodeResources.Memory.MemoryMB > 0, "resources %+v", stub.NodeResources)
	equal(t, "eligibility", stub.SchedulingEligibility, "eligible")
	equal(t, "pool", stub.NodePool, "default")
	check(t, stub.Drivers["mock_driver"].Healthy && stub.Drivers["raw_exec"].Detected, "drivers %+v", stub.Drivers)
	list, meta, err = nodes.PrefixList(id[:8])
	read(t, meta, err)
	equal(t, "by prefix", list[0].ID, id)
	list, meta, err = nodes.PrefixListOpts(id[:8], &api.QueryOptions{Filter: `Status == "down"`})
	read(t, meta, err)
	equal(t, "down", len(list), 0)
	node, meta, err := nodes.Info(id, nil)
	read(t, meta, err)
	equal(t, "status", node.Status, "ready")
	equal(t, "meta", node.Meta["rack"], "r1")
	equal(t, "kernel", node.Attributes["kernel.name"], "linux")
	equal(t, "volume", node.HostVolumes["scratch"].Path, "/tmp")
	check(t, node.NodeResources.Cpu.CpuShares > 0 && node.HTTPAddr != "", "node %+v", node)
	check(t, !node.Drain && len(node.Events) > 0 && node.Events[0].Message == "Node registered", "events %+v", node.Events)

	register(t, c, service("go-on-node", 1))
	alloc := running(t, c, "go-on-node", 1)[0]
	placed, meta, err := nodes.Allocations(id, nil)
	read(t, meta, err)
	check(t, has(names(placed, func(a *api.Allocation) string { return a.ID }), alloc.ID), "allocs of the node")
	volumes, err := nodes.CSIVolumes(id, nil)
	must(t, err)
	equal(t, "csi volumes", len(volumes), 0)
	stats, err := nodes.Stats(id, nil)
	must(t, err)
	check(t, stats.Memory.Total > 0 && len(stats.CPU) > 0 && stats.Uptime > 0, "figures %+v", stats)
	eval, wrote, err := nodes.ForceEvaluate(id, nil)
	written(t, wrote, err)
	_ = eval
	done(t, nodes.GC(id, nil))
	err = nodes.GcAlloc(alloc.ID, nil)
	refused(t, err, 500, "No such allocation on client, or allocation not eligible for GC")
	_, _, err = nodes.Info("c0ffee00-0000-4000-8000-000000000000", nil)
	refused(t, err, 404, "node not found")

	direct, err := c.GetNodeClient(id, nil)
	must(t, err)
	check(t, strings.HasPrefix(direct.Address(), "http://"), "address %s", direct.Address())
	_, err = direct.Nodes().Stats("", nil)
	must(t, err)
	direct, err = c.GetNodeClientWithTimeout(id, time.Second, nil)
	must(t, err)
	direct.Close()
}

func TestMetaOfNodesIsChanged(t *testing.T) {
	c := dev(t)
	id := nodeID(t, c)
	answer, err := c.Nodes().Meta().Apply(&api.NodeMetaApplyRequest{NodeID: id, Meta: map[string]*string{"go": ptr("yes")}}, nil)
	must(t, err)
	equal(t, "dynamic", *answer.Dynamic["go"], "yes")
	equal(t, "static", answer.Static["rack"], "r1")
	answer, err = c.Nodes().Meta().Read(id, nil)
	must(t, err)
	equal(t, "merged", answer.Meta["go"], "yes")
	answer, err = c.Nodes().Meta().Apply(&api.NodeMetaApplyRequest{NodeID: id, Meta: map[string]*string{"go": nil}}, nil)
	must(t, err)
	_, still := answer.Meta["go"]
	check(t, !still, "it is gone")
}

func TestNodesAreDrainedAndPurged(t *testing.T) {
	// Draining moves what all other stories run: an agent of its own.
	c := own(t, devConfig, "-dev").client
	nodes := c.Nodes()
	id := nodeID(t, c)
	register(t, c, service("go-drain", 1))
	running(t, c, "go-drain", 1)
	toggled, err := nodes.ToggleEligibility(id, false, nil)
	must(t, err)
	check(t, toggled.LastIndex > 0, "answer %+v", toggled)
	node, _, err := nodes.Info(id, nil)
	must(t, err)
	equal(t, "eligibility", node.SchedulingEligibility, "ineligible")
	_, err = nodes.ToggleEligibility(id, true, nil)
	must(t, err)

	drained, err := nodes.UpdateDrain(id, &api.DrainSpec{Deadline: -1}, false, nil)
	must(t, err)
	check(t, drained.NodeModifyIndex > 0, "answer %+v", drained)
	node, _, err = nodes.Info(id, nil)
	must(t, err)
	check(t, node.Drain || node.LastDrain != nil, "it drains, or did")
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var messages []string
	for message := range nodes.MonitorDrain(ctx, id, drained.NodeModifyIndex, false) {
		check(t, message.Level != api.MonitorMsgLevelError, "%s", message)
		messages = append(messages, message.String())
	}
	check(t, ctx.Err() == nil, "the drain does not end: %v", messages)
	node, _, err = nodes.Info(id, nil)
	must(t, err)
	equal(t, "drained", string(node.LastDrain.Status), "complete")
	back, err := nodes.UpdateDrainOpts(id, &api.DrainOptions{MarkEligible: true, Meta: map[string]string{"why": "done"}}, nil)
	must(t, err)
	check(t, back.NodeModifyIndex > drained.NodeModifyIndex, "answer %+v", back)
	running(t, c, "go-drain", 1)

	purged, meta, err := nodes.Purge(id, nil)
	must(t, err)
	check(t, purged.NodeModifyIndex > 0 && meta != nil, "answer %+v", purged)
}

func TestNodePoolsHoldNodesAndJobs(t *testing.T) {
	c := dev(t)
	pools := c.NodePools()
	meta, err := pools.Register(&api.NodePool{Name: "go-pool", Description: "for tests", Meta: map[string]string{"a": "b"}}, nil)
	written(t, meta, err)
	pool, queried, err := pools.Info("go-pool", nil)
	read(t, queried, err)
	equal(t, "description", pool.Description, "for tests")
	equal(t, "meta", pool.Meta, map[string]string{"a": "b"})
	list, queried, err := pools.List(nil)
	read(t, queried, err)
	ids := names(list, func(p *api.NodePool) string { return p.Name })
	check(t, has(ids, "all") && has(ids, "default") && has(ids, "go-pool"), "pools %v", ids)
	list, queried, err = pools.PrefixList("go-", nil)
	read(t, queried, err)
	equal(t, "by prefix", len(list), 1)
	job := service("go-in-pool", 1)
	job.NodePool = ptr("go-pool")
	register(t, c, job)
	jobs, queried, err := pools.ListJobs("go-pool", nil)
	read(t, queried, err)
	equal(t, "jobs", jobs[0].ID, "go-in-pool")
	nodes, queried, err := pools.ListNodes("default", nil)
	read(t, queried, err)
	equal(t, "nodes", len(nodes), 1)
	_, err = pools.Delete("go-pool", nil)
	check(t, err != nil && strings.Contains(err.Error(), "go-pool"), "a pool with jobs: %v", err)
	_, _, err = c.Jobs().Deregister("go-in-pool", true, nil)
	must(t, err)
	meta, err = pools.Delete("go-pool", nil)
	written(t, meta, err)
	_, err = pools.Delete("default", nil)
	refused(t, err, 500, `node pool "default"`)
}
