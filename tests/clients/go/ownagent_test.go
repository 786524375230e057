package clients

// The agent itself: who it is, its members and keys, its host, its log, its profiles, its scheduler's workers; and raw requests.

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

func TestAnAgentTellsOfItself(t *testing.T) {
	c := dev(t)
	agent := c.Agent()
	self, err := agent.Self()
	must(t, err)
	equal(t, "status", self.Member.Status, "alive")
	equal(t, "region", self.Config["Region"], any("global"))
	check(t, strings.HasPrefix(self.Member.Tags["build"], "1.6."), "build %s", self.Member.Tags["build"])
	check(t, self.Stats["nomad"]["server"] == "true" && self.Stats["nomad"]["leader"] == "true", "stats %+v", self.Stats["nomad"])
	check(t, self.Stats["client"]["node_id"] == nodeID(t, c), "stats %+v", self.Stats["client"])
	name, err := c.Agent().NodeName()
	must(t, err)
	equal(t, "name", name, self.Member.Name)
	region, err := c.Agent().Region()
	must(t, err)
	equal(t, "region", region, "global")
	datacenter, err := c.Agent().Datacenter()
	must(t, err)
	equal(t, "datacenter", datacenter, "dc1")
	members, err := agent.Members()
	must(t, err)
	equal(t, "members", len(members.Members), 1)
	equal(t, "member", members.Members[0].Name, name)
	equal(t, "region of members", members.ServerRegion, "global")
	members, err = agent.MembersOpts(&api.QueryOptions{AllowStale: true})
	must(t, err)
	equal(t, "members", len(members.Members), 1)
	health, err := agent.Health()
	must(t, err)
	check(t, health.Server.Ok && health.Client.Ok, "health %+v", health)
	// Asked for no agent by name, the reference answers in another form, of which the package reads nothing.
	host, err := agent.Host("", "", nil)
	must(t, err)
	host, err = agent.Host("leader", "", nil)
	must(t, err)
	check(t, host.AgentID != "" && host.HostData.OS != "" && host.HostData.Hosts != "", "host %+v", host)
	host, err = agent.Host("", nodeID(t, c), nil)
	must(t, err)
	equal(t, "the node's host", host.AgentID, nodeID(t, c))
	servers, err := agent.Servers()
	must(t, err)
	equal(t, "servers", len(servers), 1)
	err = agent.SetServers(servers)
	if served(t, "Agent.SetServers", err) {
		must(t, err)
	}
}

func TestMembersJoinAndLeave(t *testing.T) {
	c := dev(t)
	_, err := c.Agent().Join("127.0.0.1:1")
	check(t, err != nil, "nobody listens there")
	err = c.Agent().ForceLeave("nobody.global")
	check(t, err == nil || strings.Contains(err.Error(), "nobody"), "a member that is not there: %v", err)
}

func TestGossipKeysAreAskedFor(t *testing.T) {
	c := dev(t)
	agent := c.Agent()
	const key = "HS5lJ+XuTlYKWaeGYyG+/A=="
	// An agent without encrypted gossip has no keys, and says so.
	_, err := agent.ListKeys()
	check(t, err != nil, "keys without encryption")
	_, err = agent.InstallKey(key)
	check(t, err != nil, "keys without encryption")
	_, err = agent.UseKey(key)
	check(t, err != nil, "keys without encryption")
	_, err = agent.RemoveKey(key)
	check(t, err != nil, "keys without encryption")
}

func TestTheLogOfAnAgentIsFollowed(t *testing.T) {
	c := dev(t)
	stop := make(chan struct{})
	frames, errs := c.Agent().Monitor(stop, &api.QueryOptions{Params: map[string]string{"log_level": "trace", "node_id": nodeID(t, c)}})
	deadline := time.After(within)
	for asked := 0; ; asked++ {
		select {
		case frame := <-frames:
			if frame != nil && len(frame.Data) > 0 {
				close(stop)
				return
			}
		case err := <-errs:
			if served(t, "Agent.Monitor", err) {
				t.Fatal(err)
			}
			close(stop)
			return
		case <-deadline:
			t.Fatal("no line of the log")
		case <-time.After(100 * time.Millisecond):
			// Something for it to tell.
			_, _, err := c.Jobs().ForceEvaluate("go-no-such", nil)
			check(t, err != nil, "a job that is not there")
			if asked == 0 {
				register(t, c, service("go-monitor", 1))
			}
		}
	}
}

func TestAnAgentIsProfiled(t *testing.T) {
	c := dev(t)
	agent := c.Agent()
	profile, err := agent.Lookup("goroutine", api.PprofOptions{Debug: 1}, nil)
	if served(t, "Agent.Lookup", err) {
		must(t, err)
		check(t, len(profile) > 0, "a profile")
	}
	profile, err = agent.CPUProfile(api.PprofOptions{Seconds: 1}, nil)
	if served(t, "Agent.CPUProfile", err) {
		must(t, err)
		check(t, len(profile) > 0, "a profile")
	}
	profile, err = agent.Trace(api.PprofOptions{Seconds: 1}, nil)
	if served(t, "Agent.Trace", err) {
		must(t, err)
		check(t, len(profile) > 0, "a trace")
	}
}

func TestWorkersOfTheSchedulerAreShownAndSet(t *testing.T) {
	c := own(t, serverConfig).client
	agent := c.Agent()
	config, err := agent.GetSchedulerWorkerConfig(nil)
	if !served(t, "Agent.GetSchedulerWorkerConfig", err) {
		_, err = agent.SetSchedulerWorkerConfig(api.SchedulerWorkerPoolArgs{NumSchedulers: 1}, nil)
		check(t, !served(t, "Agent.SetSchedulerWorkerConfig", err), "one of them is served")
		_, err = agent.GetSchedulerWorkersInfo(nil)
		check(t, !served(t, "Agent.GetSchedulerWorkersInfo", err), "one of them is served")
		return
	}
	must(t, err)
	check(t, config.NumSchedulers > 0 && has(config.EnabledSchedulers, "service") && has(config.EnabledSchedulers, "_core"), "config %+v", config)
	info, err := agent.GetSchedulerWorkersInfo(nil)
	must(t, err)
	equal(t, "workers", len(info.Schedulers), config.NumSchedulers)
	config.NumSchedulers = 3
	config, err = agent.SetSchedulerWorkerConfig(*config, nil)
	must(t, err)
	equal(t, "workers", config.NumSchedulers, 3)
}

func TestRequestsAreMadeByHand(t *testing.T) {
	c := dev(t)
	raw := c.Raw()
	var nodes []map[string]any
	meta, err := raw.Query("/v1/nodes", &nodes, nil)
	read(t, meta, err)
	check(t, nodes[0]["Status"] != nil, "nodes %v", nodes)
	body, err := raw.Response("/v1/regions", nil)
	equal(t, "regions", strings.TrimSpace(whole(t)(body, err)), `["global"]`)
	var answer map[string]any
	wrote, err := raw.Write("/v1/namespace", map[string]any{"Name": "go-raw"}, nil, nil)
	written(t, wrote, err)
	wrote, err = raw.Delete("/v1/namespace/go-raw", nil, nil)
	written(t, wrote, err)
	_ = answer
	// A blocking query comes back when something changed.
	again, err := raw.Query("/v1/namespaces", &nodes, &api.QueryOptions{WaitIndex: wrote.LastIndex - 1, WaitTime: within})
	read(t, again, err)
	check(t, again.LastIndex >= wrote.LastIndex, "index %d after %d", again.LastIndex, wrote.LastIndex)
}
