//go:build !latest

package clients

import (
	"testing"

	"github.com/hashicorp/nomad/api"
)

// The package of the reference's 1.6: what of it no story calls, and why.

const generation = "api of 1.6"

// notCalled are exported methods that no story calls, with the reason.
var notCalled = map[string]string{}

// forbidden checks a look at a variable that may not be read: as if it were not there.
func forbidden(t *testing.T) func(*api.Variable, *api.QueryMeta, error) {
	return func(peeked *api.Variable, _ *api.QueryMeta, err error) {
		t.Helper()
		must(t, err)
		check(t, peeked == nil, "it was read")
	}
}

// parseOld parses a job file in the first version of its language.
func parseOld(c *api.Client, source string) (*api.Job, error) {
	return c.Jobs().ParseHCLOpts(&api.JobsParseRequest{JobHCL: source, HCLv1: true})
}

// quotaLimit is a limit of the only region.
func quotaLimit(cpu, memory int) *api.QuotaLimit {
	return &api.QuotaLimit{Region: "global", RegionLimit: &api.Resources{CPU: &cpu, MemoryMB: &memory}}
}
