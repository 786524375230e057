package clients

// What operators ask: raft, scheduler, autopilot, keyring, metrics, snapshots, garbage, status; and what the open version has not.

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

func TestRaftIsShown(t *testing.T) {
	c := dev(t)
	raft, err := c.Operator().RaftGetConfiguration(nil)
	must(t, err)
	equal(t, "servers", len(raft.Servers), 1)
	server := raft.Servers[0]
	check(t, server.Leader && server.Voter && server.Address != "" && server.ID != "", "server %+v", server)
	err = c.Operator().RaftRemovePeerByID("c0ffee00-0000-4000-8000-000000000000", nil)
	refused(t, err, 500, "id \"c0ffee00-0000-4000-8000-000000000000\" was not found in the Raft configuration")
	err = c.Operator().RaftRemovePeerByAddress("127.0.0.1:1", nil)
	refused(t, err, 500, "address \"127.0.0.1:1\" was not found in the Raft configuration")

	leader, err := c.Status().Leader()
	must(t, err)
	equal(t, "leader", leader, server.Address)
	peers, err := c.Status().Peers()
	must(t, err)
	equal(t, "peers", peers, []string{server.Address})
	leader, err = c.Status().RegionLeader("global")
	must(t, err)
	equal(t, "leader of the region", leader, server.Address)
	_, err = c.Status().RegionLeader("mars")
	refused(t, err, 500, "No path to region")
	regions, err := c.Regions().List()
	must(t, err)
	equal(t, "regions", regions, []string{"global"})
}

func TestTheSchedulerIsConfigured(t *testing.T) {
	c := own(t, serverConfig).client
	operator := c.Operator()
	got, meta, err := operator.SchedulerGetConfiguration(nil)
	read(t, meta, err)
	equal(t, "algorithm", got.SchedulerConfig.SchedulerAlgorithm, api.SchedulerAlgorithmBinpack)
	check(t, got.SchedulerConfig.PreemptionConfig.SystemSchedulerEnabled, "system jobs may evict")
	got.SchedulerConfig.SchedulerAlgorithm = api.SchedulerAlgorithmSpread
	set, wrote, err := operator.SchedulerSetConfiguration(got.SchedulerConfig, nil)
	written(t, wrote, err)
	check(t, set.Updated, "it is set")
	got, _, err = operator.SchedulerGetConfiguration(nil)
	must(t, err)
	equal(t, "algorithm", got.SchedulerConfig.SchedulerAlgorithm, api.SchedulerAlgorithmSpread)
	stale := *got.SchedulerConfig
	stale.ModifyIndex = 1
	set, _, err = operator.SchedulerCASConfiguration(&stale, nil)
	must(t, err)
	check(t, !set.Updated, "a stale index sets nothing")
	set, wrote, err = operator.SchedulerCASConfiguration(got.SchedulerConfig, nil)
	written(t, wrote, err)
	check(t, set.Updated, "the right index sets it")
}

func TestAutopilotIsConfigured(t *testing.T) {
	c := own(t, serverConfig).client
	operator := c.Operator()
	config, meta, err := operator.AutopilotGetConfiguration(nil)
	must(t, err)
	check(t, meta != nil, "a meta")
	check(t, config.CleanupDeadServers && config.LastContactThreshold == 200*time.Millisecond && config.MaxTrailingLogs == 250 &&
		config.ServerStabilizationTime == 10*time.Second, "defaults %+v", config)
	config.CleanupDeadServers = false
	_, err = operator.AutopilotSetConfiguration(config, nil)
	must(t, err)
	config, _, err = operator.AutopilotGetConfiguration(nil)
	must(t, err)
	check(t, !config.CleanupDeadServers, "it is set")
	stale := *config
	stale.ModifyIndex = 1
	updated, _, err := operator.AutopilotCASConfiguration(&stale, nil)
	must(t, err)
	check(t, !updated, "a stale index sets nothing")
	updated, _, err = operator.AutopilotCASConfiguration(config, nil)
	must(t, err)
	check(t, updated, "the right index sets it")
	health := waitFor(t, "a healthy server", func() (*api.OperatorHealthReply, error) {
		health, _, err := operator.AutopilotServerHealth(nil)
		return health, err
	}, func(h *api.OperatorHealthReply) bool { return h.Healthy })
	check(t, len(health.Servers) == 1 && health.Servers[0].Leader && health.Servers[0].Voter, "health %+v", health)
}

func TestKeysRotate(t *testing.T) {
	c := dev(t)
	keys := c.Keyring()
	list, meta, err := keys.List(nil)
	read(t, meta, err)
	check(t, len(list) > 0 && list[0].Algorithm == api.EncryptionAlgorithmAES256GCM, "keys %+v", list)
	key, wrote, err := keys.Rotate(&api.KeyringRotateOptions{Full: true}, nil)
	written(t, wrote, err)
	equal(t, "state", key.State, api.RootKeyStateActive)
	_, err = keys.Delete(&api.KeyringDeleteOptions{KeyID: key.KeyID}, nil)
	check(t, err != nil && strings.Contains(err.Error(), "active root key cannot be deleted - call rotate first"), "the active key: %v", err)
	newer, wrote, err := keys.Rotate(nil, nil)
	written(t, wrote, err)
	check(t, newer.KeyID != key.KeyID, "another key")
	wrote, err = keys.Delete(&api.KeyringDeleteOptions{KeyID: key.KeyID}, nil)
	written(t, wrote, err)
	list, _, err = keys.List(nil)
	must(t, err)
	check(t, !has(names(list, func(k *api.RootKeyMeta) string { return k.KeyID }), key.KeyID), "it is gone")
}

func TestMetricsAreGiven(t *testing.T) {
	c := dev(t)
	text, err := c.Operator().Metrics(&api.QueryOptions{Params: map[string]string{"format": "prometheus"}})
	must(t, err)
	check(t, bytes.Contains(text, []byte("# TYPE nomad_")), "metrics for Prometheus")
	text, err = c.Operator().Metrics(nil)
	must(t, err)
	check(t, json.Valid(text), "metrics as JSON")
	summary, _, err := c.Operator().MetricsSummary(nil)
	must(t, err)
	check(t, len(summary.Gauges) > 0 && strings.HasPrefix(summary.Gauges[0].Name, "nomad."), "gauges %+v", summary.Gauges)
}

func TestSnapshotsAreSavedAndRestored(t *testing.T) {
	c := own(t, serverConfig).client
	register(t, c, service("go-snapshot", 1))
	// A new leader makes the first key a moment after it is elected.
	waitFor(t, "a key", func() ([]*api.RootKeyMeta, error) {
		keys, _, err := c.Keyring().List(nil)
		return keys, err
	}, func(keys []*api.RootKeyMeta) bool { return len(keys) == 1 })
	_, _, err := c.Variables().Create(&api.Variable{Path: "go/kept", Items: api.VariableItems{"a": "b"}}, nil)
	must(t, err)
	body, err := c.Operator().Snapshot(nil)
	must(t, err)
	archive, err := io.ReadAll(body)
	must(t, err)
	must(t, body.Close())
	_, _, err = c.Jobs().Deregister("go-snapshot", true, nil)
	must(t, err)
	_, err = c.Operator().SnapshotRestore(bytes.NewReader(archive), nil)
	must(t, err)
	job, _, err := c.Jobs().Info("go-snapshot", nil)
	must(t, err)
	equal(t, "count", *job.TaskGroups[0].Count, 1)
	kept, _, err := c.Variables().Read("go/kept", nil)
	must(t, err)
	equal(t, "items", kept.Items, api.VariableItems{"a": "b"})
	_, err = c.Operator().SnapshotRestore(strings.NewReader("not an archive"), nil)
	refused(t, err, 500, "")
}

func TestGarbageIsCollected(t *testing.T) {
	c := own(t, serverConfig).client
	register(t, c, service("go-garbage", 1))
	_, _, err := c.Jobs().Deregister("go-garbage", false, nil)
	must(t, err)
	waitFor(t, "a collected job", func() ([]*api.JobListStub, error) {
		done(t, c.System().GarbageCollect())
		list, _, err := c.Jobs().List(nil)
		return list, err
	}, func(list []*api.JobListStub) bool { return len(list) == 0 })
	done(t, c.System().ReconcileSummaries())
}

func TestAnAgentStartsAsThePackagesOwnTestsStartIt(t *testing.T) {
	program, err := exec.LookPath("nomad")
	must(t, err)
	out, err := exec.Command(program, "-version").Output()
	must(t, err)
	check(t, regexp.MustCompile(`(?m)^Nomad v1\.6\.\d+$`).Match(out), "-version says %q", out)
	subcommand, err := exec.Command(program, "version").Output()
	must(t, err)
	equal(t, "version", string(subcommand), string(out))

	withMore := func(dir string) (map[string]any, error) {
		config, err := serverConfig(dir)
		if err != nil {
			return nil, err
		}
		ports := config["ports"].(map[string]any)
		config["region"] = "mars"
		config["server"] = map[string]any{"enabled": true, "bootstrap_expect": 1, "raft_protocol": 3}
		config["consul"] = map[string]any{"address": "127.0.0.1:8500", "auth": "a:b", "token": "t"}
		config["vault"] = map[string]any{"enabled": true}
		config["advertise"] = map[string]any{"http": "127.0.0.1", "rpc": "127.0.0.1", "serf": "127.0.0.1"}
		config["telemetry"] = map[string]any{"prometheus_metrics": true}
		_ = ports
		return config, nil
	}
	agent := own(t, withMore)
	self, err := agent.client.Agent().Self()
	must(t, err)
	equal(t, "region", self.Config["Region"], any("mars"))
	check(t, strings.HasPrefix(self.Member.Name, "node-") && strings.HasSuffix(self.Member.Name, ".mars"), "name %s", self.Member.Name)
	nodes, _, err := agent.client.Nodes().List(nil)
	must(t, err)
	equal(t, "a server without a node has none", len(nodes), 0)
	text, err := agent.client.Operator().Metrics(&api.QueryOptions{Params: map[string]string{"format": "prometheus"}})
	must(t, err)
	check(t, len(text) > 0, "metrics")
	for _, key := range []string{"server.raft_protocol", "disable_update_check"} {
		check(t, strings.Contains(agent.output.String(), key+" is accepted and has no effect"), "a warning about %s in %s", key, agent.output)
	}
}

func TestAnUnknownKeyIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	must(t, os.WriteFile(file, []byte(`{"name": "x", "data_dri": "/tmp", "server": {"enabled": true}}`), 0o600))
	out, err := exec.Command("nomad", "agent", "-config", file).CombinedOutput()
	check(t, err != nil, "it started")
	check(t, strings.Contains(string(out), "data_dri") && strings.Contains(string(out), file), "it said %s", out)
}

func TestWhatTheOpenVersionHasNotIsRefusedAsThere(t *testing.T) {
	c := dev(t)
	const enterprise = "Nomad Enterprise only endpoint"
	_, _, err := c.Operator().LicenseGet(nil)
	check(t, err != nil && strings.Contains(err.Error(), enterprise), "license: %v", err)
	_, err = c.Operator().LicensePut("x", nil)
	refused(t, err, 501, enterprise)
	_, err = c.Operator().ApplyLicense("x", &api.ApplyLicenseOptions{Force: true}, nil)
	refused(t, err, 501, enterprise)

	sentinel := c.SentinelPolicies()
	_, _, err = sentinel.List(nil)
	refused(t, err, 501, enterprise)
	_, _, err = sentinel.Info("p", nil)
	refused(t, err, 501, enterprise)
	_, err = sentinel.Upsert(&api.SentinelPolicy{Name: "p"}, nil)
	refused(t, err, 501, enterprise)
	_, err = sentinel.Delete("p", nil)
	refused(t, err, 501, enterprise)

	recommendations := c.Recommendations()
	_, _, err = recommendations.List(nil)
	refused(t, err, 501, enterprise)
	_, _, err = recommendations.Info("r", nil)
	refused(t, err, 501, enterprise)
	_, _, err = recommendations.Upsert(&api.Recommendation{}, nil)
	refused(t, err, 501, enterprise)
	_, err = recommendations.Delete([]string{"r"}, nil)
	refused(t, err, 501, enterprise)
	_, _, err = recommendations.Apply([]string{"r"}, false)
	refused(t, err, 501, enterprise)
}

func TestQuotasAreWrittenReadAndDeleted(t *testing.T) {
	c := dev(t)
	quotas := c.Quotas()
	const cpu, memory = 500, 256
	_, err := quotas.Register(&api.QuotaSpec{Name: "q", Limits: []*api.QuotaLimit{quotaLimit(cpu, memory)}}, nil)
	check(t, err == nil, "register: %v", err)
	spec, _, err := quotas.Info("q", nil)
	check(t, err == nil && spec.Name == "q" && *spec.Limits[0].RegionLimit.CPU == cpu, "info: %v %v", spec, err)
	listed, _, err := quotas.PrefixList("q", nil)
	check(t, err == nil && len(listed) == 1, "list: %v %v", listed, err)
	usage, _, err := quotas.Usage("q", nil)
	check(t, err == nil && usage.Name == "q" && len(usage.Used) == 1, "usage: %v %v", usage, err)
	usages, _, err := quotas.PrefixListUsage("q", nil)
	check(t, err == nil && len(usages) == 1, "usages: %v %v", usages, err)
	_, err = quotas.Delete("q", nil)
	check(t, err == nil, "delete: %v", err)
}
