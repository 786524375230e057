//go:build !latest

package clients

import "github.com/hashicorp/nomad/api"

// The package of the reference's 1.6: what of it no story calls, and why.

const generation = "api of 1.6"

// notCalled are exported methods that no story calls, with the reason.
var notCalled = map[string]string{}

// parseOld parses a job file in the first version of its language.
func parseOld(c *api.Client, source string) (*api.Job, error) {
	return c.Jobs().ParseHCLOpts(&api.JobsParseRequest{JobHCL: source, HCLv1: true})
}
