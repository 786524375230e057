package clients

// Namespaces, variables, search and the event stream.

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
)

func TestNamespacesSeparateJobs(t *testing.T) {
	c := dev(t)
	namespaces := c.Namespaces()
	meta, err := namespaces.Register(&api.Namespace{Name: "go-ns", Description: "for tests", Meta: map[string]string{"a": "b"},
		Capabilities: &api.NamespaceCapabilities{DisabledTaskDrivers: []string{"exec"}}}, nil)
	written(t, meta, err)
	got, queried, err := namespaces.Info("go-ns", nil)
	read(t, queried, err)
	equal(t, "description", got.Description, "for tests")
	equal(t, "drivers", got.Capabilities.DisabledTaskDrivers, []string{"exec"})
	equal(t, "meta", got.Meta, map[string]string{"a": "b"})
	list, queried, err := namespaces.List(nil)
	read(t, queried, err)
	check(t, has(names(list, func(n *api.Namespace) string { return n.Name }), "default"), "list %v", list)
	list, queried, err = namespaces.PrefixList("go-", nil)
	read(t, queried, err)
	equal(t, "by prefix", len(list), 1)

	inside := &api.QueryOptions{Namespace: "go-ns"}
	job := service("go-inside", 1)
	job.Namespace = ptr("go-ns")
	_, wrote, err := c.Jobs().Register(job, nil)
	written(t, wrote, err)
	_, _, err = c.Jobs().Info("go-inside", nil)
	refused(t, err, 404, "job not found")
	info, _, err := c.Jobs().Info("go-inside", inside)
	must(t, err)
	equal(t, "namespace", *info.Namespace, "go-ns")
	everywhere, _, err := c.Jobs().List(&api.QueryOptions{Namespace: "*", Prefix: "go-inside"})
	must(t, err)
	equal(t, "in all namespaces", everywhere[0].Namespace, "go-ns")
	_, err = namespaces.Delete("go-ns", nil)
	refused(t, err, 500, `namespace "go-ns" has non-terminal jobs`)
	_, _, err = c.Jobs().Deregister("go-inside", true, &api.WriteOptions{Namespace: "go-ns"})
	must(t, err)
	meta, err = namespaces.Delete("go-ns", nil)
	written(t, meta, err)

	// A client may live in a namespace.
	other, err := api.NewClient(&api.Config{Address: c.Address()})
	must(t, err)
	other.SetNamespace("go-no-such")
	other.SetRegion("global")
	other.SetSecretID("")
	jobs, _, err := other.Jobs().List(nil)
	must(t, err)
	equal(t, "jobs of a namespace that is not there", len(jobs), 0)
}

func TestVariablesAreCheckedAndSet(t *testing.T) {
	c := dev(t)
	variables := c.Variables()
	made, meta, err := variables.Create(&api.Variable{Path: "go/one", Items: api.VariableItems{"user": "me", "pass": "secret"}}, nil)
	written(t, meta, err)
	equal(t, "path", made.Path, "go/one")
	check(t, made.CreateIndex > 0 && made.CreateIndex == made.ModifyIndex && made.CreateTime > 0, "made %+v", made)
	got, queried, err := variables.Read("go/one", nil)
	read(t, queried, err)
	equal(t, "items", got.Items, api.VariableItems{"user": "me", "pass": "secret"})
	equal(t, "namespace", got.Namespace, "default")
	peeked, _, err := variables.Peek("go/nothing", nil)
	must(t, err)
	check(t, peeked == nil, "nothing is there")
	_, _, err = variables.Read("go/nothing", nil)
	check(t, errors.Is(err, api.ErrVariablePathNotFound), "a missing path: %v", err)
	items, queried, err := variables.GetVariableItems("go/one", nil)
	read(t, queried, err)
	equal(t, "items", items["user"], "me")
	old, queried, err := variables.GetItems("go/one", nil)
	read(t, queried, err)
	equal(t, "items", (*old)["pass"], "secret")

	got.Items["user"] = "you"
	updated, meta, err := variables.Update(got, nil)
	written(t, meta, err)
	check(t, updated.ModifyIndex > made.ModifyIndex && updated.CreateIndex == made.CreateIndex, "updated %+v", updated)
	var conflict api.ErrCASConflict
	_, _, err = variables.CheckedUpdate(&api.Variable{Path: "go/one", ModifyIndex: made.ModifyIndex, Items: api.VariableItems{"a": "b"}}, nil)
	check(t, errors.As(err, &conflict), "a stale write: %v", err)
	equal(t, "conflict", conflict.Conflict.ModifyIndex, updated.ModifyIndex)
	equal(t, "items of the conflict", conflict.Conflict.Items["user"], "you")
	updated.Items["user"] = "they"
	updated, meta, err = variables.CheckedUpdate(updated, nil)
	written(t, meta, err)
	_, _, err = variables.CheckedCreate(&api.Variable{Path: "go/one", Items: api.VariableItems{"a": "b"}}, nil)
	check(t, errors.As(err, &conflict), "it is there already: %v", err)
	_, meta, err = variables.CheckedCreate(&api.Variable{Path: "go/two", Items: api.VariableItems{"a": "b"}}, nil)
	written(t, meta, err)

	list, queried, err := variables.List(nil)
	read(t, queried, err)
	paths := names(list, func(v *api.VariableMetadata) string { return v.Path })
	check(t, has(paths, "go/one") && has(paths, "go/two"), "paths %v", paths)
	list, queried, err = variables.PrefixList("go/t", nil)
	read(t, queried, err)
	equal(t, "by prefix", len(list), 1)
	_, err = variables.CheckedDelete("go/one", 1, nil)
	check(t, errors.As(err, &conflict), "a stale deletion: %v", err)
	meta, err = variables.CheckedDelete("go/one", updated.ModifyIndex, nil)
	written(t, meta, err)
	meta, err = variables.Delete("go/two", nil)
	written(t, meta, err)
	_, _, err = variables.Create(&api.Variable{Path: "nomad/no", Items: api.VariableItems{"a": "b"}}, nil)
	refused(t, err, 500, `only paths at "nomad/jobs" or "nomad/job-templates" and below are valid paths`)
}

func TestThingsAreSearched(t *testing.T) {
	c := dev(t)
	register(t, c, service("go-search-me", 1))
	alloc := running(t, c, "go-search-me", 1)[0]
	found, meta, err := c.Search().PrefixSearch("go-search", contexts.Jobs, nil)
	must(t, err)
	check(t, meta != nil, "a meta")
	equal(t, "jobs", found.Matches[contexts.Jobs], []string{"go-search-me"})
	check(t, !found.Truncations[contexts.Jobs], "all of them")
	found, _, err = c.Search().PrefixSearch(alloc.ID[:8], contexts.All, nil)
	must(t, err)
	equal(t, "allocs", found.Matches[contexts.Allocs], []string{alloc.ID})
	fuzzy, _, err := c.Search().FuzzySearch("search-m", contexts.All, nil)
	must(t, err)
	equal(t, "job", fuzzy.Matches[contexts.Jobs][0].ID, "go-search-me")
	equal(t, "its scope", fuzzy.Matches[contexts.Jobs][0].Scope, []string{"default", "go-search-me"})
	_, _, err = c.Search().FuzzySearch("s", contexts.All, nil)
	check(t, err != nil && strings.Contains(err.Error(), "fuzzy search query must be at least 2 characters, got 1"), "too short: %v", err)
}

func TestEventsAreStreamed(t *testing.T) {
	c := dev(t)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	events, err := c.EventStream().Stream(ctx, map[api.Topic][]string{
		api.TopicJob: {"go-events"}, api.TopicEvaluation: {"go-events"}, api.TopicAllocation: {"go-events"},
		api.TopicDeployment: {"go-events"}, api.TopicNode: {"*"}, api.TopicNodePool: {"go-events"}, api.TopicService: {"*"},
	}, 0, nil)
	must(t, err)
	_, err = c.NodePools().Register(&api.NodePool{Name: "go-events"}, nil)
	must(t, err)
	defer c.NodePools().Delete("go-events", nil)
	job := rolling("go-events")
	job.TaskGroups[0].Networks = []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "http"}}}}
	job.TaskGroups[0].Services = []*api.Service{{Name: "go-events", Provider: "nomad", PortLabel: "http"}}
	register(t, c, job)
	_, err = c.Nodes().Meta().Apply(&api.NodeMetaApplyRequest{NodeID: nodeID(t, c), Meta: map[string]*string{"events": ptr("x")}}, nil)
	must(t, err)
	seen := map[api.Topic]bool{}
	for batch := range events {
		must(t, batch.Err)
		if batch.IsHeartbeat() {
			continue
		}
		for _, event := range batch.Events {
			check(t, event.Index == batch.Index, "index %d in a batch of %d", event.Index, batch.Index)
			seen[event.Topic] = true
			payload(t, event)
		}
		if len(seen) == 7 {
			return
		}
	}
	t.Fatalf("events of %v only", seen)
}

// payload decodes what an event carries and checks that it is the object of the event's key.
func payload(t *testing.T, event api.Event) {
	t.Helper()
	switch event.Topic {
	case api.TopicJob:
		job, err := event.Job()
		must(t, err)
		equal(t, "job", *job.ID, event.Key)
	case api.TopicEvaluation:
		eval, err := event.Evaluation()
		must(t, err)
		equal(t, "evaluation", eval.ID, event.Key)
	case api.TopicAllocation:
		alloc, err := event.Allocation()
		must(t, err)
		equal(t, "alloc", alloc.ID, event.Key)
	case api.TopicDeployment:
		deployment, err := event.Deployment()
		must(t, err)
		equal(t, "deployment", deployment.ID, event.Key)
	case api.TopicNode:
		node, err := event.Node()
		must(t, err)
		equal(t, "node", node.ID, event.Key)
	case api.TopicNodePool:
		pool, err := event.NodePool()
		must(t, err)
		equal(t, "pool", pool.Name, event.Key)
	case api.TopicService:
		service, err := event.Service()
		must(t, err)
		equal(t, "service", service.ID, event.Key)
	default:
		t.Fatalf("nobody asked for %s", event.Topic)
	}
}
