package clients

// Allocations: reading, stopping, restarting, signals, commands inside, figures, files and logs.

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

func TestAllocsAreReadAndEnded(t *testing.T) {
	c := dev(t)
	allocs := c.Allocations()
	register(t, c, service("go-allocs", 2))
	placed := running(t, c, "go-allocs", 2)
	alloc := placed[0]
	equal(t, "job", *alloc.Job.ID, "go-allocs")
	equal(t, "state of the task", alloc.TaskStates["t"].State, "running")
	equal(t, "cpu", alloc.AllocatedResources.Tasks["t"].Cpu.CpuShares, 20)
	equal(t, "memory", alloc.AllocatedResources.Tasks["t"].Memory.MemoryMB, 16)
	check(t, strings.HasPrefix(alloc.Name, "go-allocs.g["), "name %s", alloc.Name)
	check(t, alloc.Metrics.NodesEvaluated == 1, "metrics %+v", alloc.Metrics)
	stub := alloc.Stub()
	equal(t, "stub", stub.ID, alloc.ID)
	check(t, !alloc.ServerTerminalStatus() && !alloc.ClientTerminalStatus(), "it is not over")

	list, meta, err := allocs.List(&api.QueryOptions{Filter: `JobID == "go-allocs"`})
	read(t, meta, err)
	equal(t, "filtered", len(list), 2)
	list, meta, err = allocs.List(&api.QueryOptions{PerPage: 1, Filter: `JobID == "go-allocs"`})
	read(t, meta, err)
	check(t, len(list) == 1 && meta.NextToken != "", "a page of one and a token: %d %q", len(list), meta.NextToken)
	list, meta, err = allocs.List(&api.QueryOptions{PerPage: 1, NextToken: meta.NextToken, Filter: `JobID == "go-allocs"`})
	read(t, meta, err)
	check(t, len(list) == 1 && meta.NextToken == "", "the last page")
	list, meta, err = allocs.PrefixList(alloc.ID[:6])
	read(t, meta, err)
	check(t, has(names(list, func(a *api.AllocationListStub) string { return a.ID }), alloc.ID), "by prefix")

	stopped, err := allocs.Stop(alloc, nil)
	must(t, err)
	check(t, stopped.EvalID != "" && stopped.LastIndex > 0, "answer %+v", stopped)
	waitFor(t, "a stopped alloc", func() (*api.Allocation, error) {
		alloc, _, err := allocs.Info(alloc.ID, nil)
		return alloc, err
	}, func(a *api.Allocation) bool { return a.DesiredStatus == "stop" && a.ClientStatus == "complete" })
	running(t, c, "go-allocs", 2)
	done(t, allocs.GC(alloc, nil))
	_, _, err = allocs.Info("c0ffee00-0000-4000-8000-000000000000", nil)
	refused(t, err, 404, "alloc not found")
}

func restarts(c *api.Client, id string) func() (uint64, error) {
	return func() (uint64, error) {
		alloc, _, err := c.Allocations().Info(id, nil)
		if err != nil {
			return 0, err
		}
		return alloc.TaskStates["t"].Restarts, nil
	}
}

func TestTasksAreRestartedSignalledAndMeasured(t *testing.T) {
	c := dev(t)
	allocs := c.Allocations()
	register(t, c, shell("go-tasks", `trap 'echo told' USR1; echo begun; while true; do sleep 0.05; done`))
	alloc := running(t, c, "go-tasks", 1)[0]
	stats, err := allocs.Stats(alloc, nil)
	must(t, err)
	check(t, stats.Tasks["t"] != nil && stats.Timestamp > 0, "figures %+v", stats)
	_, err = awaitLog(t, c, alloc, "begun")
	must(t, err)
	must(t, allocs.Signal(alloc, nil, "t", "SIGUSR1"))
	_, err = awaitLog(t, c, alloc, "told")
	must(t, err)
	must(t, allocs.Restart(alloc, "t", nil))
	waitFor(t, "a restart", restarts(c, alloc.ID), func(n uint64) bool { return n == 1 })
	must(t, allocs.RestartAllTasks(alloc, nil))
	waitFor(t, "another restart", restarts(c, alloc.ID), func(n uint64) bool { return n == 2 })
	err = allocs.Signal(alloc, nil, "nope", "SIGUSR1")
	refused(t, err, 500, "Task not found")
}

// awaitLog follows the standard output of the task until a part of it shows.
func awaitLog(t *testing.T, c *api.Client, alloc *api.Allocation, part string) (string, error) {
	t.Helper()
	cancel := make(chan struct{})
	defer close(cancel)
	frames, errs := c.AllocFS().Logs(alloc, true, "t", "stdout", "start", 0, cancel, nil)
	var text strings.Builder
	deadline := time.After(within)
	for {
		select {
		case frame, open := <-frames:
			if !open {
				t.Fatalf("the log ended with %q", text.String())
			}
			text.Write(frame.Data)
			if strings.Contains(text.String(), part) {
				return text.String(), nil
			}
		case err := <-errs:
			return text.String(), err
		case <-deadline:
			t.Fatalf("no %q in the log: %q", part, text.String())
		}
	}
}

func TestCommandsRunInsideTasks(t *testing.T) {
	c := dev(t)
	register(t, c, shell("go-exec", `while true; do sleep 0.05; done`))
	alloc := running(t, c, "go-exec", 1)[0]
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var out, errOut bytes.Buffer
	code, err := c.Allocations().Exec(ctx, alloc, "t", false, []string{"/bin/sh", "-c", "cat; echo two >&2; exit 3"},
		strings.NewReader("one"), &out, &errOut, make(chan api.TerminalSize), nil)
	if err != nil && strings.HasPrefix(err.Error(), "Unexpected response code: 404 ") {
		// The package has no typed error for a handshake that fails.
		unserved.Store("Allocations.Exec", err.Error())
		t.Skip("commands inside tasks are not served")
	}
	must(t, err)
	equal(t, "exit code", code, 3)
	equal(t, "standard output", out.String(), "one")
	equal(t, "standard error", errOut.String(), "two\n")
}

func TestFilesOfAllocsAreRead(t *testing.T) {
	c := dev(t)
	fs := c.AllocFS()
	register(t, c, shell("go-fs", `printf 0123456789 > $NOMAD_ALLOC_DIR/data/digits; echo ready; while true; do sleep 0.05; done`))
	alloc := running(t, c, "go-fs", 1)[0]
	_, err := awaitLog(t, c, alloc, "ready")
	must(t, err)
	list, _, err := fs.List(alloc, "/", nil)
	must(t, err)
	files := names(list, func(f *api.AllocFileInfo) string { return f.Name })
	check(t, has(files, "alloc") && has(files, "t"), "files %v", files)
	info, _, err := fs.Stat(alloc, "alloc/data/digits", nil)
	must(t, err)
	equal(t, "size", info.Size, 10)
	check(t, info.Name == "digits" && !info.IsDir && strings.HasPrefix(info.FileMode, "-rw") && !info.ModTime.IsZero(), "info %+v", info)
	equal(t, "content type", info.ContentType, "text/plain; charset=utf-8")
	equal(t, "all of it", whole(t)(fs.Cat(alloc, "alloc/data/digits", nil)), "0123456789")
	equal(t, "a part", whole(t)(fs.ReadAt(alloc, "alloc/data/digits", 3, 4, nil)), "3456")
	unreadable(t, "no such file or directory")(fs.Cat(alloc, "alloc/data/nothing", nil))
	unreadable(t, "escapes")(fs.Cat(alloc, "../../etc/passwd", nil))

	cancel := make(chan struct{})
	frames, errs := fs.Stream(alloc, "alloc/data/digits", "start", 2, cancel, nil)
	reader := api.NewFrameReader(frames, errs, cancel)
	reader.SetUnblockTime(100 * time.Millisecond)
	var got []byte
	for len(got) < 8 {
		part := make([]byte, 8)
		n, err := reader.Read(part)
		must(t, err)
		got = append(got, part[:n]...)
	}
	equal(t, "streamed", string(got), "23456789")
	equal(t, "offset", reader.Offset(), 10)
	must(t, reader.Close())

	frames, errs = fs.Logs(alloc, false, "t", "stdout", "start", 0, make(chan struct{}), nil)
	var log strings.Builder
	for open := true; open; {
		select {
		case frame, more := <-frames:
			if open = more; more {
				log.Write(frame.Data)
			}
		case err := <-errs:
			check(t, err == io.EOF, "end of the log: %v", err)
			open = false
		}
	}
	equal(t, "log", log.String(), "ready\n")
}

// unreadable checks that a read fails as said. The reference tells it in the text that is read, with a status that says that all is well.
func unreadable(t *testing.T, part string) func(io.ReadCloser, error) {
	return func(body io.ReadCloser, err error) {
		t.Helper()
		if err != nil {
			check(t, strings.Contains(err.Error(), part), "an error about %q: %v", part, err)
			return
		}
		text := whole(t)(body, nil)
		check(t, strings.Contains(text, part), "an error about %q: %q", part, text)
	}
}

// whole reads an answer to its end.
func whole(t *testing.T) func(io.ReadCloser, error) string {
	return func(body io.ReadCloser, err error) string {
		t.Helper()
		must(t, err)
		defer body.Close()
		text, err := io.ReadAll(body)
		must(t, err)
		return string(text)
	}
}
