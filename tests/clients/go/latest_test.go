//go:build latest

package clients

// The newest package: the stories of what 1.6 has not, what of it no story calls, and why.

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

const generation = "newest api"

// notCalled are exported methods that no story calls, with the reason.
var notCalled = map[string]string{
	"Client.Locks":         noLocks,
	"Client.NewLockLeaser": noLocks,
	"LockLeaser.Start":     noLocks,
	"Locks.Acquire":        noLocks,
	"Locks.LockTTL":        noLocks,
	"Locks.Release":        noLocks,
	"Locks.Renew":          noLocks,
}

const noLocks = "a server of 1.6 writes a variable without the lock that this would take itself to hold"

// forbidden checks a look at a variable that may not be read.
func forbidden(t *testing.T) func(*api.Variable, *api.QueryMeta, error) {
	return func(_ *api.Variable, _ *api.QueryMeta, err error) {
		t.Helper()
		refused(t, err, 403, "Permission denied")
	}
}

// parseOld parses a job file in the first version of its language, which this version of the package cannot ask for any more.
func parseOld(c *api.Client, source string) (*api.Job, error) {
	job := &api.Job{}
	_, err := c.Raw().Write("/v1/jobs/parse", map[string]any{"JobHCL": source, "HCLv1": true}, job, nil)
	return job, err
}

// quotaLimit is a limit of the only region.
func quotaLimit(cpu, memory int) *api.QuotaLimit {
	return &api.QuotaLimit{Region: "global", RegionLimit: &api.QuotaResources{CPU: &cpu, MemoryMB: &memory}}
}

// later checks a call of what came after 1.6: it must be refused, for a success would be a lie.
func later(t *testing.T, method string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: came after 1.6, and something answered it", method)
		return
	}
	beyond.Store(method, err.Error())
}

func TestWhatCameLaterIsRefused(t *testing.T) {
	c := dev(t)
	register(t, c, shell("go-later", `while true; do sleep 0.05; done`))
	alloc := running(t, c, "go-later", 1)[0]
	node := nodeID(t, c)

	later(t, "Agent.Reload", c.Agent().Reload(&api.AgentReloadOpts{}, nil))
	stop := make(chan struct{})
	_, errs := c.Agent().MonitorExport(stop, &api.QueryOptions{Params: map[string]string{"on_disk": "true"}})
	select {
	case err := <-errs:
		later(t, "Agent.MonitorExport", err)
	case <-time.After(within):
		t.Errorf("Agent.MonitorExport: no answer")
	}
	close(stop)
	_, _, err := c.Allocations().GetPauseState(alloc, nil, "t")
	later(t, "Allocations.GetPauseState", err)
	later(t, "Allocations.SetPauseState", c.Allocations().SetPauseState(alloc, nil, "t", "pause"))
	_, err = c.Jobs().ActionExec(context.Background(), alloc, "go-later", "t", false, nil, "an-action",
		strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}, make(chan api.TerminalSize), nil)
	later(t, "Jobs.ActionExec", err)
	_, err = c.Jobs().TagVersion("go-later", 0, "tag", "text", nil)
	later(t, "Jobs.TagVersion", err)
	_, err = c.Jobs().TagVersionOpts("go-later", "tag", &api.TagVersionRequest{Latest: true}, nil)
	later(t, "Jobs.TagVersionOpts", err)
	_, _, err = c.Jobs().VersionByTag("go-later", "tag", nil)
	check(t, err != nil && strings.Contains(err.Error(), "tag not found"), "nothing is tagged: %v", err)
	_, err = c.Nodes().Identity().Get(&api.NodeIdentityGetRequest{NodeID: node}, nil)
	later(t, "NodeIdentity.Get", err)
	_, err = c.Nodes().Identity().Renew(&api.NodeIdentityRenewRequest{NodeID: node}, nil)
	later(t, "NodeIdentity.Renew", err)
	later(t, "Operator.RaftTransferLeadershipByAddress", c.Operator().RaftTransferLeadershipByAddress("127.0.0.1:1", nil))
	later(t, "Operator.RaftTransferLeadershipByID", c.Operator().RaftTransferLeadershipByID(node, nil))
	_, _, err = c.Operator().UpgradeCheckVaultWorkloadIdentity(nil)
	later(t, "Operator.UpgradeCheckVaultWorkloadIdentity", err)
	_, _, err = c.Operator().Utilization(&api.OperatorUtilizationOptions{TodayOnly: true}, nil)
	later(t, "Operator.Utilization", err)
	_, _, err = c.ACLIdentity().CreateClientIntroductionToken(&api.ACLIdentityClientIntroductionTokenRequest{NodeName: "n"}, nil)
	later(t, "ACLIdentity.CreateClientIntroductionToken", err)
	_, _, err = c.ACLPolicies().Self(nil)
	later(t, "ACLPolicies.Self", err)
	_, _, err = c.ACLTokens().Upload(&api.ACLToken{AccessorID: node, SecretID: node, Type: "client", Policies: []string{"p"}}, nil)
	later(t, "ACLTokens.Upload", err)
}

func TestHostVolumesThatAreMadeCameLater(t *testing.T) {
	c := dev(t)
	volumes, claims := c.HostVolumes(), c.TaskGroupHostVolumeClaims()
	volume := &api.HostVolume{Name: "v", PluginID: "mkdir", NodeID: nodeID(t, c)}
	_, _, err := volumes.Create(&api.HostVolumeCreateRequest{Volume: volume}, nil)
	later(t, "HostVolumes.Create", err)
	_, _, err = volumes.Register(&api.HostVolumeRegisterRequest{Volume: volume}, nil)
	later(t, "HostVolumes.Register", err)
	_, _, err = volumes.Get("v", nil)
	later(t, "HostVolumes.Get", err)
	_, _, err = volumes.List(&api.HostVolumeListRequest{}, nil)
	later(t, "HostVolumes.List", err)
	_, _, err = volumes.Delete(&api.HostVolumeDeleteRequest{ID: "v", Force: true}, nil)
	later(t, "HostVolumes.Delete", err)
	_, _, err = claims.List(&api.TaskGroupHostVolumeClaimsListRequest{JobID: "j"}, nil)
	later(t, "TaskGroupHostVolumeClaims.List", err)
	_, err = claims.Delete("c", nil)
	later(t, "TaskGroupHostVolumeClaims.Delete", err)
}

// A server of 1.6 does not know locks: it writes the variable as it is sent, and answers without a lock. A client can see that it holds none.
func TestAnAnswerHoldsNoLock(t *testing.T) {
	variables := dev(t).Variables()
	wanted := &api.Variable{Path: "go/locked", Items: api.VariableItems{"a": "b"}, Lock: &api.VariableLock{TTL: "10s", LockDelay: "10s"}}
	for name, call := range map[string]func(*api.Variable, *api.WriteOptions) (*api.Variable, *api.WriteMeta, error){
		"acquire": variables.AcquireLock, "release": variables.ReleaseLock,
	} {
		got, _, err := call(wanted, nil)
		must(t, err)
		check(t, got.Lock == nil, "%s: an answer of 1.6 has no lock", name)
	}
	_, _, err := variables.RenewLock(wanted, nil)
	must(t, err)
}

func TestNewerFormsOfOldCallsWork(t *testing.T) {
	c := dev(t)
	job := service("go-newer", 1)
	job.ParameterizedJob = &api.ParameterizedJobConfig{Payload: "optional"}
	job.Type = ptr("batch")
	job.TaskGroups[0].Tasks[0].SetConfig("run_for", "10ms")
	register(t, c, job)
	dispatched, meta, err := c.Jobs().DispatchOpts(&api.DispatchOptions{JobID: "go-newer", Payload: []byte("p"), IdPrefixTemplate: "x"}, nil)
	written(t, meta, err)
	check(t, strings.Contains(dispatched.DispatchedJobID, "dispatch-x-"), "id %s", dispatched.DispatchedJobID)
	register(t, c, atOnce(service("go-newer-scaled", 1)))
	_, meta, err = c.Jobs().ScaleWithRequest("go-newer-scaled", &api.ScalingRequest{Count: ptr(int64(2)), Target: map[string]string{"Group": "g"}, Message: "m"}, nil)
	written(t, meta, err)
	running(t, c, "go-newer-scaled", 2)
	versions, diffs, queried, err := c.Jobs().VersionsOpts("go-newer-scaled", &api.VersionsOptions{Diffs: true}, nil)
	read(t, queried, err)
	check(t, len(versions) == 2 && len(diffs) == 1, "%d versions, %d diffs", len(versions), len(diffs))
	// 1.6 takes the path for the id of a job that it does not know.
	_, err = c.Jobs().UntagVersion("go-newer-scaled", "tag", nil)
	must(t, err)
	err = c.Agent().ForceLeaveWithOptions("nobody.global", api.ForceLeaveOpts{Prune: true})
	check(t, err == nil || strings.Contains(err.Error(), "nobody"), "a member that is not there: %v", err)
	request, err := http.NewRequest(http.MethodGet, c.Address()+"/v1/regions", nil)
	must(t, err)
	response, err := c.Raw().Do(request)
	must(t, err)
	equal(t, "status", response.StatusCode, http.StatusOK)
	must(t, response.Body.Close())
}
