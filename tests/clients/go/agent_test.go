package clients

// Agents as child processes, started the way the package's own test server starts them: `nomad agent -config FILE.json [-dev]`, found on
// PATH, with a configuration of JSON keys; ready when it answers; stopped by an interrupt.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// within bounds everything that is waited for. A debug build on a busy machine is slow.
const within = 60 * time.Second

// An agent is a running `nomad agent`.
type agent struct {
	cmd    *exec.Cmd
	exited chan error
	dir    string
	output *output
	client *api.Client
	addr   string
}

// output is what an agent said, safe to read while it talks.
type output struct {
	sync.Mutex
	bytes bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.Lock()
	defer o.Unlock()
	return o.bytes.Write(p)
}

func (o *output) String() string {
	o.Lock()
	defer o.Unlock()
	return o.bytes.String()
}

// freePorts are ports that nobody listens on just now.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		// Held until all are chosen, or the same one may come twice.
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// serverConfig has the keys that the package's test server writes for a server without a node.
func serverConfig(dir string) (map[string]any, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"name":                 fmt.Sprintf("node-%d", ports[0]),
		"data_dir":             dir,
		"disable_update_check": true,
		"log_level":            "INFO",
		"ports":                map[string]any{"http": ports[0], "rpc": ports[1], "serf": ports[2]},
		"server":               map[string]any{"enabled": true, "bootstrap_expect": 1},
		"client":               map[string]any{"enabled": false},
		"vault":                map[string]any{"enabled": false},
		"acl":                  map[string]any{"enabled": false},
	}, nil
}

// devConfig is the same for `-dev`, with what the stories need of the node.
func devConfig(dir string) (map[string]any, error) {
	config, err := serverConfig(dir)
	if err != nil {
		return nil, err
	}
	delete(config, "data_dir")
	config["client"] = map[string]any{
		"enabled":     true,
		"options":     map[string]any{"test.tighten_network_timeouts": "true"},
		"meta":        map[string]any{"rack": "r1"},
		"host_volume": map[string]any{"scratch": map[string]any{"path": "/tmp"}},
	}
	config["plugin"] = map[string]any{"raw_exec": map[string]any{"config": map[string]any{"enabled": true}}}
	config["telemetry"] = map[string]any{"prometheus_metrics": true}
	config["enable_debug"] = true
	return config, nil
}

// start runs an agent with a configuration that `make` writes for a folder, and waits until it answers.
func start(make func(dir string) (map[string]any, error), flags ...string) (*agent, error) {
	dir, err := os.MkdirTemp("", "nomad")
	if err != nil {
		return nil, err
	}
	config, err := make(dir)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	// Without `.json`: the reference tells the language by what is in the file.
	file := filepath.Join(dir, "config-of-a-test")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	path, err := exec.LookPath("nomad")
	if err != nil {
		return nil, err
	}
	a := &agent{dir: dir, output: &output{}, exited: makeExit()}
	a.cmd = exec.Command(path, append([]string{"agent", "-config", file}, flags...)...)
	a.cmd.Stdout, a.cmd.Stderr = a.output, a.output
	a.cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { a.exited <- a.cmd.Wait() }()
	ports := config["ports"].(map[string]any)
	a.addr = fmt.Sprintf("http://127.0.0.1:%d", ports["http"])
	if a.client, err = api.NewClient(&api.Config{Address: a.addr}); err != nil {
		return nil, err
	}
	if err := a.awaitLeader(); err != nil {
		a.stop()
		return nil, fmt.Errorf("%w; it said:\n%s", err, a.output)
	}
	return a, nil
}

func makeExit() chan error { return make(chan error, 1) }

func (a *agent) awaitLeader() error {
	deadline := time.Now().Add(within)
	for {
		response, err := http.Get(a.addr + "/v1/status/leader")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-a.exited:
			a.exited <- err
			return fmt.Errorf("the agent ended: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no leader after %v", within)
		}
	}
}

// stop interrupts the agent, and kills it when that does not help. Says whether it ended by itself.
func (a *agent) stop() bool {
	defer os.RemoveAll(a.dir)
	_ = a.cmd.Process.Signal(os.Interrupt)
	select {
	case <-a.exited:
		return true
	case <-time.After(10 * time.Second):
		_ = a.cmd.Process.Kill()
		<-a.exited
		return false
	}
}

var (
	sharedOnce  sync.Once
	sharedAgent *agent
	sharedErr   error
)

// dev is the agent that most stories share: they keep to jobs, namespaces and pools of their own names.
func dev(t *testing.T) *api.Client {
	t.Helper()
	sharedOnce.Do(func() { sharedAgent, sharedErr = start(devConfig, "-dev") })
	if sharedErr != nil {
		t.Fatal(sharedErr)
	}
	return sharedAgent.client
}

func stopShared() {
	if sharedAgent != nil {
		sharedAgent.stop()
	}
}

// own is an agent for one story, which may do with it what it likes.
func own(t *testing.T, make func(dir string) (map[string]any, error), flags ...string) *agent {
	t.Helper()
	a, err := start(make, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !a.stop() {
			t.Errorf("the agent did not end on an interrupt")
		}
	})
	return a
}
