package clients

// What stories are told with: calls that must succeed or fail as promised, waiting for a state, and small jobs.

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

func ptr[T any](value T) *T { return &value }

// done is for calls whose answer is empty where the package expects one: with the reference, too, it gives them `EOF`.
func done(t *testing.T, err error) {
	t.Helper()
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused checks the status and a part of the text of a refusal.
func refused(t *testing.T, err error, status int, part string) {
	t.Helper()
	var unexpected api.UnexpectedResponseError
	if !errors.As(err, &unexpected) {
		t.Fatalf("expected an answer %d with %q, got %v", status, part, err)
	}
	if unexpected.StatusCode() != status || !strings.Contains(unexpected.Body(), part) {
		t.Fatalf("expected an answer %d with %q, got %d %q", status, part, unexpected.StatusCode(), unexpected.Body())
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func check(t *testing.T, good bool, what string, args ...any) {
	t.Helper()
	if !good {
		t.Fatalf(what, args...)
	}
}

// waitFor asks until the answer is good.
func waitFor[T any](t *testing.T, what string, ask func() (T, error), good func(T) bool) T {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		answer, err := ask()
		if err == nil && good(answer) {
			return answer
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come to be: %v %+v", what, err, answer)
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// written checks what every write tells.
func written(t *testing.T, meta *api.WriteMeta, err error) {
	t.Helper()
	must(t, err)
	check(t, meta.LastIndex > 0, "a write tells its index")
}

// read checks what every read tells.
func read(t *testing.T, meta *api.QueryMeta, err error) {
	t.Helper()
	must(t, err)
	check(t, meta.LastIndex > 0 && meta.KnownLeader, "a read tells index and leader: %+v", meta)
}

// ids are the fields of rows, by which they are told apart.
func names[T any](rows []T, name func(T) string) []string {
	list := make([]string, 0, len(rows))
	for _, row := range rows {
		list = append(list, name(row))
	}
	return list
}

func has(list []string, name string) bool {
	for _, item := range list {
		if item == name {
			return true
		}
	}
	return false
}

// service is a job of `count` tasks that run until they are told to stop.
func service(id string, count int) *api.Job {
	task := api.NewTask("t", "mock_driver").SetConfig("run_for", "10m")
	task.Require(&api.Resources{CPU: ptr(20), MemoryMB: ptr(16)})
	return api.NewServiceJob(id, id, "global", 50).AddDatacenter("dc1").
		AddTaskGroup(api.NewTaskGroup("g", count).AddTask(task))
}

// atOnce has a job changed without a deployment, during which nobody may scale it.
func atOnce(job *api.Job) *api.Job {
	job.Update = &api.UpdateStrategy{MaxParallel: ptr(0)}
	return job
}

// shell is a job with one task that runs a shell script.
func shell(id, script string) *api.Job {
	task := api.NewTask("t", "raw_exec").SetConfig("command", "/bin/sh").SetConfig("args", []string{"-c", script})
	task.Require(&api.Resources{CPU: ptr(20), MemoryMB: ptr(16)})
	return api.NewServiceJob(id, id, "global", 50).AddDatacenter("dc1").
		AddTaskGroup(api.NewTaskGroup("g", 1).AddTask(task))
}

// register registers a job and takes it away when the story ends.
func register(t *testing.T, c *api.Client, job *api.Job) *api.JobRegisterResponse {
	t.Helper()
	answer, meta, err := c.Jobs().Register(job, nil)
	written(t, meta, err)
	t.Cleanup(func() { _, _, _ = c.Jobs().Deregister(*job.ID, true, nil) })
	return answer
}

// running waits until a job has `count` running allocs, and gives them whole.
func running(t *testing.T, c *api.Client, job string, count int) []*api.Allocation {
	t.Helper()
	stubs := waitFor(t, "running allocs of "+job, func() ([]*api.AllocationListStub, error) {
		stubs, _, err := c.Jobs().Allocations(job, false, nil)
		var running []*api.AllocationListStub
		for _, stub := range stubs {
			if stub.ClientStatus == "running" && stub.DesiredStatus == "run" {
				running = append(running, stub)
			}
		}
		return running, err
	}, func(stubs []*api.AllocationListStub) bool { return len(stubs) == count })
	var allocs []*api.Allocation
	for _, stub := range stubs {
		alloc, _, err := c.Allocations().Info(stub.ID, nil)
		must(t, err)
		allocs = append(allocs, alloc)
	}
	return allocs
}

// nodeID is the id of the one node.
func nodeID(t *testing.T, c *api.Client) string {
	t.Helper()
	nodes := waitFor(t, "a ready node", func() ([]*api.NodeListStub, error) {
		nodes, _, err := c.Nodes().List(nil)
		return nodes, err
	}, func(nodes []*api.NodeListStub) bool { return len(nodes) == 1 && nodes[0].Status == "ready" })
	return nodes[0].ID
}
