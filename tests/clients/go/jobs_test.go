package clients

// Jobs: registering, planning, reading back, scaling, dispatching, reverting, taking away.

import (
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
)

func TestJobsAreRegisteredAndReadBack(t *testing.T) {
	c := dev(t)
	jobs := c.Jobs()
	job := service("go-jobs", 2)
	job.SetMeta("owner", "tests").Constrain(api.NewConstraint("${attr.kernel.name}", "=", "linux"))
	answer := register(t, c, job)
	check(t, answer.EvalID != "" && answer.JobModifyIndex > 0 && answer.EvalCreateIndex > 0, "answer %+v", answer)
	running(t, c, "go-jobs", 2)

	got, meta, err := jobs.Info("go-jobs", nil)
	read(t, meta, err)
	equal(t, "type", *got.Type, "service")
	equal(t, "priority", *got.Priority, 50)
	equal(t, "status", *got.Status, "running")
	equal(t, "version", *got.Version, 0)
	equal(t, "meta", got.Meta, map[string]string{"owner": "tests"})
	equal(t, "count", *got.LookupTaskGroup("g").Count, 2)
	equal(t, "task", got.TaskGroups[0].Tasks[0].Config["run_for"], any("10m"))
	equal(t, "constraint", *got.Constraints[0], api.Constraint{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="})

	list, meta, err := jobs.List(nil)
	read(t, meta, err)
	ids := names(list, func(j *api.JobListStub) string { return j.ID })
	check(t, has(ids, "go-jobs"), "list %v", ids)
	list, meta, err = jobs.PrefixList("go-job")
	read(t, meta, err)
	for _, stub := range list {
		check(t, strings.HasPrefix(stub.ID, "go-job"), "prefix list has %s", stub.ID)
		if stub.ID == "go-jobs" {
			equal(t, "running in the stub", stub.JobSummary.Summary["g"].Running, 2)
			equal(t, "namespace in the stub", stub.JobSummary.Namespace, "default")
		}
	}
	list, meta, err = jobs.ListOptions(&api.JobListOptions{Fields: &api.JobListFields{Meta: true}}, &api.QueryOptions{Prefix: "go-jobs"})
	read(t, meta, err)
	equal(t, "meta in the list", list[0].Meta, map[string]string{"owner": "tests"})
	list, _, err = jobs.List(&api.QueryOptions{Filter: `ID == "go-jobs"`})
	must(t, err)
	equal(t, "filtered list", len(list), 1)

	allocs, meta, err := jobs.Allocations("go-jobs", true, nil)
	read(t, meta, err)
	equal(t, "allocs", len(allocs), 2)
	equal(t, "group of an alloc", allocs[0].TaskGroup, "g")
	evals, meta, err := jobs.Evaluations("go-jobs", nil)
	read(t, meta, err)
	check(t, has(names(evals, func(e *api.Evaluation) string { return e.ID }), answer.EvalID), "evals %v", evals)
	summary, meta, err := jobs.Summary("go-jobs", nil)
	read(t, meta, err)
	equal(t, "summary", summary.Summary["g"].Running, 2)
	equal(t, "job of the summary", summary.JobID, "go-jobs")

	_, _, err = jobs.Info("go-no-such", nil)
	refused(t, err, 404, "job not found")
}

func TestAJobIsOnlyRegisteredAtTheIndexItIsExpectedAt(t *testing.T) {
	c := dev(t)
	job := service("go-enforce", 1)
	_, _, err := c.Jobs().EnforceRegister(job, 77, nil)
	refused(t, err, 500, "Enforcing job modify index 77: job does not exist")
	answer, meta, err := c.Jobs().EnforceRegister(job, 0, nil)
	written(t, meta, err)
	t.Cleanup(func() { _, _, _ = c.Jobs().Deregister("go-enforce", true, nil) })
	_, _, err = c.Jobs().EnforceRegister(job, 0, nil)
	refused(t, err, 500, "Enforcing job modify index 0: job already exists")
	job.Priority = ptr(60)
	_, meta, err = c.Jobs().EnforceRegister(job, answer.JobModifyIndex, nil)
	written(t, meta, err)
	job.TaskGroups[0].Count = ptr(3)
	_, meta, err = c.Jobs().RegisterOpts(job, &api.RegisterOptions{PreserveCounts: true, EvalPriority: 70}, nil)
	written(t, meta, err)
	got, _, err := c.Jobs().Info("go-enforce", nil)
	must(t, err)
	equal(t, "kept count", *got.TaskGroups[0].Count, 1)
	equal(t, "priority", *got.Priority, 60)
}

func TestAPlanSaysWhatWouldChange(t *testing.T) {
	c := dev(t)
	job := service("go-plan", 1)
	plan, meta, err := c.Jobs().Plan(job, true, nil)
	written0(t, meta, err)
	equal(t, "diff", plan.Diff.Type, "Added")
	equal(t, "placed", plan.Annotations.DesiredTGUpdates["g"].Place, 1)
	equal(t, "index of a new job", plan.JobModifyIndex, 0)
	_, _, err = c.Jobs().Info("go-plan", nil)
	refused(t, err, 404, "job not found")

	register(t, c, job)
	running(t, c, "go-plan", 1)
	job.TaskGroups[0].Tasks[0].SetConfig("run_for", "11m")
	job.TaskGroups[0].Count = ptr(2)
	plan, meta, err = c.Jobs().PlanOpts(job, &api.PlanOptions{Diff: true}, nil)
	written0(t, meta, err)
	equal(t, "diff", plan.Diff.Type, "Edited")
	equal(t, "group", plan.Diff.TaskGroups[0].Name, "g")
	check(t, plan.JobModifyIndex > 0, "the plan tells at which index to register")
	huge := service("go-plan-huge", 1)
	huge.TaskGroups[0].Tasks[0].Require(&api.Resources{CPU: ptr(100), MemoryMB: ptr(100_000_000)})
	plan, _, err = c.Jobs().Plan(huge, false, nil)
	must(t, err)
	check(t, plan.Diff == nil, "no diff was asked for")
	equal(t, "nodes without room", plan.FailedTGAllocs["g"].NodesExhausted, 1)
}

// written0 is for writes that write nothing: they may tell index 0.
func written0(t *testing.T, meta *api.WriteMeta, err error) {
	t.Helper()
	must(t, err)
	check(t, meta != nil, "there is a meta")
}

func TestJobsAreValidated(t *testing.T) {
	c := dev(t)
	answer, _, err := c.Jobs().Validate(service("go-validate", 1), nil)
	must(t, err)
	equal(t, "error of a good job", answer.Error, "")
	bad := service("go-validate", 1)
	bad.TaskGroups[0].Tasks[0].Driver = ""
	answer, _, err = c.Jobs().Validate(bad, nil)
	must(t, err)
	check(t, len(answer.ValidationErrors) > 0 && strings.Contains(answer.Error, "Missing task driver"), "answer %+v", answer)
}

func TestJobFilesAreParsed(t *testing.T) {
	c := dev(t)
	source := `job "parsed" {
  datacenters = ["dc1"]
  group "g" {
    count = 3
    task "t" {
      driver = "mock_driver"
      config { run_for = "10s" }
    }
  }
}`
	job, err := c.Jobs().ParseHCL(source, true)
	must(t, err)
	equal(t, "id", *job.ID, "parsed")
	equal(t, "count", *job.TaskGroups[0].Count, 3)
	equal(t, "priority after canonicalize", *job.Priority, 50)
	job, err = parseOld(c, source)
	must(t, err)
	equal(t, "config", job.TaskGroups[0].Tasks[0].Config["run_for"], any("10s"))
	check(t, job.Priority == nil, "not canonicalized: priority %v", job.Priority)
	withVariable := strings.Replace(strings.Replace(source, "count = 3", "count = var.n", 1), "job \"parsed\"", "variable \"n\" { type = number }\njob \"parsed\"", 1)
	job, err = c.Jobs().ParseHCLOpts(&api.JobsParseRequest{JobHCL: withVariable, Variables: "n = 5", Canonicalize: true})
	must(t, err)
	equal(t, "count from a variable", *job.TaskGroups[0].Count, 5)
	_, err = c.Jobs().ParseHCL("job \"x\" {", false)
	refused(t, err, 400, "Failed to parse job: input.hcl:1,10-10")
}

func TestVersionsAreKeptAndRevertedTo(t *testing.T) {
	c := dev(t)
	jobs := c.Jobs()
	job := service("go-versions", 1)
	register(t, c, job)
	job.TaskGroups[0].Count = ptr(2)
	source := `job "go-versions" {}`
	_, meta, err := jobs.RegisterOpts(job, &api.RegisterOptions{Submission: &api.JobSubmission{Source: source, Format: "hcl2", VariableFlags: map[string]string{"a": "b"}}}, nil)
	written(t, meta, err)
	versions, diffs, queried, err := jobs.Versions("go-versions", true, nil)
	read(t, queried, err)
	equal(t, "versions", names(versions, func(j *api.Job) string { return string('0' + rune(*j.Version)) }), []string{"1", "0"})
	equal(t, "diffs", len(diffs), 1)
	equal(t, "diff", diffs[0].TaskGroups[0].Fields[0].Name, "Count")

	submission, queried, err := jobs.Submission("go-versions", 1, nil)
	read(t, queried, err)
	equal(t, "submission", *submission, api.JobSubmission{Source: source, Format: "hcl2", VariableFlags: map[string]string{"a": "b"}})
	_, _, err = jobs.Submission("go-versions", 0, nil)
	refused(t, err, 404, "job source not found")

	_, meta, err = jobs.Stable("go-versions", 0, true, nil)
	written(t, meta, err)
	versions, _, _, err = jobs.Versions("go-versions", false, nil)
	must(t, err)
	check(t, *versions[1].Stable, "version 0 is stable")
	_, _, err = jobs.Revert("go-versions", 0, ptr(uint64(7)), nil, "", "")
	refused(t, err, 500, "Current job has version 1; enforcing version 7")
	reverted, meta, err := jobs.Revert("go-versions", 0, ptr(uint64(1)), nil, "", "")
	written(t, meta, err)
	check(t, reverted.EvalID != "", "answer %+v", reverted)
	got, _, err := jobs.Info("go-versions", nil)
	must(t, err)
	equal(t, "version", *got.Version, 2)
	equal(t, "count", *got.TaskGroups[0].Count, 1)
}

func TestJobsAreScaled(t *testing.T) {
	c := dev(t)
	jobs := c.Jobs()
	job := atOnce(service("go-scale", 1))
	job.TaskGroups[0].Scaling = &api.ScalingPolicy{Min: ptr(int64(1)), Max: ptr(int64(5)), Enabled: ptr(true),
		Policy: map[string]any{"cooldown": "1m"}}
	register(t, c, job)
	answer, meta, err := jobs.Scale("go-scale", "g", ptr(3), "more of it", false, map[string]any{"why": "load"}, nil)
	written(t, meta, err)
	check(t, answer.EvalID != "", "answer %+v", answer)
	running(t, c, "go-scale", 3)
	status := waitFor(t, "a scaled group", func() (*api.JobScaleStatusResponse, error) {
		status, _, err := jobs.ScaleStatus("go-scale", nil)
		return status, err
	}, func(s *api.JobScaleStatusResponse) bool { return s.TaskGroups["g"].Running == 3 })
	group := status.TaskGroups["g"]
	equal(t, "desired", group.Desired, 3)
	equal(t, "placed", group.Placed, 3)
	equal(t, "message", group.Events[0].Message, "more of it")
	equal(t, "meta", group.Events[0].Meta, map[string]any{"why": "load"})
	equal(t, "previous count", group.Events[0].PreviousCount, 1)
	_, _, err = jobs.Scale("go-scale", "g", ptr(9), "too many", false, nil, nil)
	refused(t, err, 400, "group count was greater than scaling policy maximum: 9 > 5")

	policies, queried, err := c.Scaling().ListPolicies(&api.QueryOptions{Params: map[string]string{"job": "go-scale"}})
	read(t, queried, err)
	equal(t, "policies", len(policies), 1)
	equal(t, "target", policies[0].Target, map[string]string{"Namespace": "default", "Job": "go-scale", "Group": "g"})
	policy, queried, err := c.Scaling().GetPolicy(policies[0].ID, nil)
	read(t, queried, err)
	equal(t, "max", *policy.Max, 5)
	equal(t, "policy", policy.Policy, map[string]any{"cooldown": "1m"})
	equal(t, "type", policy.Type, "horizontal")
	_, _, err = c.Scaling().GetPolicy("c0ffee00-0000-4000-8000-000000000000", nil)
	refused(t, err, 404, "policy not found")
}

func TestJobsAreDispatchedAndForced(t *testing.T) {
	c := dev(t)
	jobs := c.Jobs()
	job := service("go-param", 1)
	job.Type = ptr("batch")
	job.TaskGroups[0].Tasks[0].SetConfig("run_for", "10ms")
	job.ParameterizedJob = &api.ParameterizedJobConfig{Payload: "optional", MetaRequired: []string{"who"}}
	answer := register(t, c, job)
	equal(t, "a parameterized job has no evaluation", answer.EvalID, "")
	_, _, err := jobs.Dispatch("go-param", nil, nil, "", nil)
	refused(t, err, 500, "Dispatch did not provide required meta keys: [who]")
	dispatched, meta, err := jobs.Dispatch("go-param", map[string]string{"who": "me"}, []byte("payload"), "mine", nil)
	written(t, meta, err)
	check(t, strings.HasPrefix(dispatched.DispatchedJobID, "go-param/dispatch-mine-"), "id %s", dispatched.DispatchedJobID)
	check(t, dispatched.EvalID != "" && dispatched.JobCreateIndex > 0, "answer %+v", dispatched)
	child, _, err := jobs.Info(dispatched.DispatchedJobID, nil)
	must(t, err)
	equal(t, "parent", *child.ParentID, "go-param")
	equal(t, "payload", string(child.Payload), "payload")
	equal(t, "meta", child.Meta["who"], "me")
	check(t, child.Dispatched, "it says that it was dispatched")

	job = service("go-cron", 1)
	job.Type = ptr("batch")
	job.TaskGroups[0].Tasks[0].SetConfig("run_for", "10ms")
	job.AddPeriodicConfig(&api.PeriodicConfig{Enabled: ptr(true), Spec: ptr("0 0 1 1 *"), SpecType: ptr("cron")})
	register(t, c, job)
	eval, meta, err := jobs.PeriodicForce("go-cron", nil)
	written(t, meta, err)
	check(t, eval != "", "an evaluation")
	children, _, err := jobs.PrefixList("go-cron/periodic-")
	must(t, err)
	equal(t, "children", len(children), 1)
	_, _, err = jobs.PeriodicForce("go-param", nil)
	refused(t, err, 500, "can't force launch non-periodic job")
}

func TestJobsAreEvaluatedAgain(t *testing.T) {
	c := dev(t)
	register(t, c, service("go-evaluate", 1))
	eval, meta, err := c.Jobs().ForceEvaluate("go-evaluate", nil)
	written(t, meta, err)
	info, queried, err := c.Evaluations().Info(eval, nil)
	read(t, queried, err)
	equal(t, "job", info.JobID, "go-evaluate")
	equal(t, "trigger", info.TriggeredBy, "job-register")
	eval, meta, err = c.Jobs().EvaluateWithOpts("go-evaluate", api.EvalOptions{ForceReschedule: true}, nil)
	written(t, meta, err)
	check(t, eval != info.ID, "another evaluation")
}

func TestJobsAreTakenAway(t *testing.T) {
	c := dev(t)
	jobs := c.Jobs()
	register(t, c, service("go-stop", 1))
	running(t, c, "go-stop", 1)
	eval, meta, err := jobs.Deregister("go-stop", false, nil)
	written(t, meta, err)
	check(t, eval != "", "an evaluation")
	got, _, err := jobs.Info("go-stop", nil)
	must(t, err)
	check(t, *got.Stop, "it is stopped")
	waitFor(t, "a dead job", func() (*api.Job, error) {
		job, _, err := jobs.Info("go-stop", nil)
		return job, err
	}, func(j *api.Job) bool { return *j.Status == "dead" })
	_, meta, err = jobs.DeregisterOpts("go-stop", &api.DeregisterOptions{Purge: true, EvalPriority: 60, NoShutdownDelay: true}, nil)
	written(t, meta, err)
	_, _, err = jobs.Info("go-stop", nil)
	refused(t, err, 404, "job not found")
}

func TestServicesOfJobsAreFound(t *testing.T) {
	c := dev(t)
	job := service("go-services", 1)
	job.TaskGroups[0].Networks = []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "http"}}}}
	job.TaskGroups[0].Services = []*api.Service{{Name: "go-web", Provider: "nomad", PortLabel: "http", Tags: []string{"a", "b"}}}
	register(t, c, job)
	alloc := running(t, c, "go-services", 1)[0]
	found := waitFor(t, "a registration", func() ([]*api.ServiceRegistration, error) {
		found, _, err := c.Services().Get("go-web", nil)
		return found, err
	}, func(found []*api.ServiceRegistration) bool { return len(found) == 1 })[0]
	equal(t, "alloc", found.AllocID, alloc.ID)
	equal(t, "tags", found.Tags, []string{"a", "b"})
	equal(t, "node", found.NodeID, alloc.NodeID)
	check(t, found.Port > 0 && found.Address != "", "where it is: %+v", found)

	list, queried, err := c.Services().List(nil)
	read(t, queried, err)
	equal(t, "namespace", list[0].Namespace, "default")
	check(t, has(names(list[0].Services, func(s *api.ServiceRegistrationStub) string { return s.ServiceName }), "go-web"), "services %v", list[0].Services)
	ofJob, queried, err := c.Jobs().Services("go-services", nil)
	read(t, queried, err)
	equal(t, "of the job", ofJob[0].ID, found.ID)
	ofAlloc, queried, err := c.Allocations().Services(alloc.ID, nil)
	read(t, queried, err)
	equal(t, "of the alloc", ofAlloc[0].ID, found.ID)
	checks, err := c.Allocations().Checks(alloc.ID, nil)
	must(t, err)
	equal(t, "checks", len(checks), 0)
	meta, err := c.Services().Delete("go-web", found.ID, nil)
	written(t, meta, err)
	left, _, err := c.Services().Get("go-web", nil)
	must(t, err)
	equal(t, "left", len(left), 0)
}
