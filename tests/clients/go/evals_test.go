package clients

// Evaluations and deployments.

import (
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

func TestEvaluationsAreReadCountedAndDeleted(t *testing.T) {
	c := dev(t)
	evals := c.Evaluations()
	answer := register(t, c, service("go-evals", 1))
	eval := waitFor(t, "a complete evaluation", func() (*api.Evaluation, error) {
		eval, _, err := evals.Info(answer.EvalID, nil)
		return eval, err
	}, func(e *api.Evaluation) bool { return e.Status == "complete" })
	equal(t, "job", eval.JobID, "go-evals")
	equal(t, "trigger", eval.TriggeredBy, "job-register")
	equal(t, "type", eval.Type, "service")
	equal(t, "priority", eval.Priority, 50)
	list, meta, err := evals.List(&api.QueryOptions{Filter: `JobID == "go-evals"`})
	read(t, meta, err)
	equal(t, "filtered", len(list), 1)
	list, meta, err = evals.PrefixList(eval.ID[:8])
	read(t, meta, err)
	equal(t, "by prefix", list[0].ID, eval.ID)
	allocs, meta, err := evals.Allocations(eval.ID, nil)
	read(t, meta, err)
	equal(t, "allocs", len(allocs), 1)
	equal(t, "evaluation of the alloc", allocs[0].EvalID, eval.ID)
	running(t, c, "go-evals", 1)
	count, meta, err := evals.Count(&api.QueryOptions{Filter: `JobID == "go-evals"`})
	read(t, meta, err)
	equal(t, "count", count.Count, 1)

	// Evaluations are deleted only while nobody works on them.
	_, err = evals.Delete([]string{eval.ID}, nil)
	refused(t, err, 500, "eval broker is enabled; eval broker must be paused to delete evals")
	pauseBroker(t, c, true)
	defer pauseBroker(t, c, false)
	_, _, err = evals.DeleteOpts(&api.EvalDeleteRequest{EvalIDs: []string{eval.ID}, Filter: "true"}, nil)
	refused(t, err, 400, "evals cannot be deleted by both ID and filter")
	_, err = evals.Delete([]string{eval.ID}, nil)
	refused(t, err, 500, "is not safe to delete")
	deleted, wrote, err := evals.DeleteOpts(&api.EvalDeleteRequest{Filter: `JobID == "go-no-such"`}, nil)
	must(t, err)
	check(t, wrote != nil && deleted.Count == 0, "nothing to delete: %+v", deleted)
}

// pauseBroker stops and starts the work on evaluations. By hand: the scheduler's configuration is other stories' as well.
func pauseBroker(t *testing.T, c *api.Client, pause bool) {
	t.Helper()
	answer, _, err := c.Operator().SchedulerGetConfiguration(nil)
	must(t, err)
	answer.SchedulerConfig.PauseEvalBroker = pause
	_, _, err = c.Operator().SchedulerSetConfiguration(answer.SchedulerConfig, nil)
	must(t, err)
}

// rolling is a job whose changes are rolled out one after the other, and judged by hand.
func rolling(id string) *api.Job {
	job := service(id, 2)
	job.Update = &api.UpdateStrategy{MaxParallel: ptr(1), HealthCheck: ptr("manual"),
		MinHealthyTime: ptr(time.Millisecond), HealthyDeadline: ptr(time.Minute), ProgressDeadline: ptr(10 * time.Minute)}
	return job
}

func latest(c *api.Client, job string, version uint64) func() (*api.Deployment, error) {
	return func() (*api.Deployment, error) {
		deployment, _, err := c.Jobs().LatestDeployment(job, nil)
		if err == nil && (deployment == nil || deployment.JobVersion != version) {
			return &api.Deployment{}, nil
		}
		return deployment, err
	}
}

func TestDeploymentsAreSteered(t *testing.T) {
	c := dev(t)
	deployments := c.Deployments()
	job := rolling("go-deploy")
	register(t, c, job)
	first := waitFor(t, "a first deployment", latest(c, "go-deploy", 0), func(d *api.Deployment) bool {
		return d.ID != "" && d.TaskGroups["g"].PlacedAllocs == 2
	})
	equal(t, "status", first.Status, "running")
	equal(t, "total", first.TaskGroups["g"].DesiredTotal, 2)
	placed, meta, err := deployments.Allocations(first.ID, nil)
	read(t, meta, err)
	ids := names(placed, func(a *api.AllocationListStub) string { return a.ID })
	equal(t, "allocs", len(ids), 2)
	running(t, c, "go-deploy", 2)
	_, wrote, err := deployments.Pause(first.ID, true, nil)
	written(t, wrote, err)
	paused, meta, err := deployments.Info(first.ID, nil)
	read(t, meta, err)
	equal(t, "status", paused.Status, "paused")
	_, wrote, err = deployments.Pause(first.ID, false, nil)
	written(t, wrote, err)
	_, _, err = deployments.Unblock(first.ID, nil)
	must(t, err) // The open version accepts this and does nothing.
	// Without canaries there is nothing to promote, which is no error.
	promoted, wrote, err := deployments.PromoteAll(first.ID, nil)
	written(t, wrote, err)
	check(t, promoted.EvalID != "", "answer %+v", promoted)
	_, wrote, err = deployments.PromoteGroups(first.ID, []string{"g"}, nil)
	written(t, wrote, err)

	changed, wrote, err := deployments.SetAllocHealth(first.ID, ids, nil, nil)
	written(t, wrote, err)
	check(t, changed.DeploymentModifyIndex > 0, "answer %+v", changed)
	waitFor(t, "healthy allocs", latest(c, "go-deploy", 0), func(d *api.Deployment) bool { return d.TaskGroups["g"].HealthyAllocs == 2 })

	list, meta, err := deployments.List(&api.QueryOptions{Filter: `JobID == "go-deploy"`})
	read(t, meta, err)
	equal(t, "list", list[0].ID, first.ID)
	list, meta, err = deployments.PrefixList(first.ID[:8])
	read(t, meta, err)
	equal(t, "by prefix", list[0].ID, first.ID)
	ofJob, meta, err := c.Jobs().Deployments("go-deploy", true, nil)
	read(t, meta, err)
	equal(t, "of the job", len(ofJob), 1)
	_, _, err = deployments.Info("c0ffee00-0000-4000-8000-000000000000", nil)
	refused(t, err, 404, "deployment not found")
}

func TestCanariesArePromotedOrFailed(t *testing.T) {
	c := dev(t)
	deployments := c.Deployments()
	for _, all := range []bool{true, false} {
		id := map[bool]string{true: "go-canary-all", false: "go-canary-group"}[all]
		job := rolling(id)
		job.Update.Canary = ptr(1)
		answer := register(t, c, job)
		if !placesCanaries(t, c, answer.EvalID) {
			t.Skip("the scheduler does not place canaries yet")
		}
		first := waitFor(t, "a first deployment", latest(c, id, 0), func(d *api.Deployment) bool { return d.ID != "" && d.TaskGroups["g"].PlacedAllocs == 2 })
		settle(t, c, first.ID)
		job.TaskGroups[0].Tasks[0].SetConfig("run_for", "12m")
		_, wrote, err := c.Jobs().Register(job, nil)
		written(t, wrote, err)
		second := waitFor(t, "a canary", latest(c, id, 1), func(d *api.Deployment) bool { return d.ID != "" && len(d.TaskGroups["g"].PlacedCanaries) == 1 })
		equal(t, "canaries", second.TaskGroups["g"].DesiredCanaries, 1)
		_, _, err = deployments.PromoteAll(second.ID, nil)
		refused(t, err, 500, "has 0/1 healthy allocations")
		settle(t, c, second.ID)
		var promoted *api.DeploymentUpdateResponse
		if all {
			promoted, wrote, err = deployments.PromoteAll(second.ID, nil)
		} else {
			promoted, wrote, err = deployments.PromoteGroups(second.ID, []string{"g"}, nil)
		}
		written(t, wrote, err)
		check(t, promoted.EvalID != "", "answer %+v", promoted)
		info, _, err := deployments.Info(second.ID, nil)
		must(t, err)
		check(t, info.TaskGroups["g"].Promoted, "it is promoted")
		_, wrote, err = deployments.Fail(second.ID, nil)
		written(t, wrote, err)
		info, _, err = deployments.Info(second.ID, nil)
		must(t, err)
		equal(t, "status", info.Status, "failed")
	}
}

// placesCanaries says whether an evaluation of a job with canaries placed its allocs.
func placesCanaries(t *testing.T, c *api.Client, eval string) bool {
	t.Helper()
	done := waitFor(t, "a complete evaluation", func() (*api.Evaluation, error) {
		eval, _, err := c.Evaluations().Info(eval, nil)
		return eval, err
	}, func(e *api.Evaluation) bool { return e.Status == "complete" })
	return len(done.FailedTGAllocs) == 0
}

func TestADeploymentIsFailed(t *testing.T) {
	c := dev(t)
	register(t, c, rolling("go-fail"))
	first := waitFor(t, "a deployment", latest(c, "go-fail", 0), func(d *api.Deployment) bool { return d.ID != "" })
	answer, wrote, err := c.Deployments().Fail(first.ID, nil)
	written(t, wrote, err)
	check(t, answer.DeploymentModifyIndex > 0, "answer %+v", answer)
	info, _, err := c.Deployments().Info(first.ID, nil)
	must(t, err)
	equal(t, "status", info.Status, "failed")
	_, _, err = c.Deployments().Fail(first.ID, nil)
	refused(t, err, 500, "can't fail terminal deployment")
}

// settle says that the running allocs of a deployment are healthy, as an operator would.
func settle(t *testing.T, c *api.Client, deployment string) {
	t.Helper()
	allocs := waitFor(t, "running allocs of a deployment", func() ([]*api.AllocationListStub, error) {
		allocs, _, err := c.Deployments().Allocations(deployment, nil)
		return allocs, err
	}, func(allocs []*api.AllocationListStub) bool {
		for _, alloc := range allocs {
			if alloc.ClientStatus != "running" {
				return false
			}
		}
		return len(allocs) > 0
	})
	ids := names(allocs, func(a *api.AllocationListStub) string { return a.ID })
	_, _, err := c.Deployments().SetAllocHealth(deployment, ids, nil, nil)
	must(t, err)
}
