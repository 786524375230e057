"""Nomad's autoscaler, which reads scaling policies, asks for the use of allocations, and scales the job."""

import os
import unittest

from programs import Agent, Program, free_ports, job, wait_for

SECOND = 1_000_000_000


def policy():
    """The group uses more of the processor than it asks for: more allocations, at most three."""
    return {
        "Min": 1,
        "Max": 3,
        "Enabled": True,
        "Policy": {
            "cooldown": "1s",
            "evaluation_interval": "1s",
            "check": [
                {
                    "load": [
                        {
                            "source": "nomad-apm",
                            "query": "avg_cpu-allocated",
                            "strategy": [{"target-value": [{"target": 50}]}],
                        }
                    ]
                }
            ],
        },
    }


@unittest.skipUnless("AUTOSCALER_BIN" in os.environ, "AUTOSCALER_BIN names no program")
class AutoscalerStories(unittest.TestCase):
    """A running autoscaler beside a running agent."""

    def setUp(self):
        self.agent = Agent()
        self.addCleanup(self.agent.stop)
        self.scaler = Program("clients-autoscaler")
        self.addCleanup(self.scaler.stop)
        config = self.scaler.write(
            "autoscaler.hcl",
            f"""
            log_level = "debug"
            plugin_dir = "{self.scaler.dir}"
            nomad {{ address = "http://127.0.0.1:{self.agent.port}" }}
            http {{
              bind_address = "127.0.0.1"
              bind_port    = {free_ports(1)[0]}
            }}
            apm "nomad-apm" {{ driver = "nomad-apm" }}
            strategy "target-value" {{ driver = "target-value" }}
            target "nomad-target" {{ driver = "nomad-target" }}
            """,
        )
        self.scaler.start(os.environ["AUTOSCALER_BIN"], "agent", "-config", config)

    def test_a_target_value_policy_scales_a_job_up_to_its_bound(self):
        """One allocation uses a multiple of what it asks for: many would meet the target, and three are permitted."""
        self.agent.ask("PUT", "/v1/jobs", job("hungry", scaling=policy()))
        self.agent.ask("PUT", "/v1/jobs", job("content"))

        def running():
            self.scaler.lives()
            allocs = self.agent.ask("GET", "/v1/job/hungry/allocations")
            return sum(1 for alloc in allocs if alloc["ClientStatus"] == "running")

        try:
            wait_for("three allocations", running, lambda count: count == 3)
        except AssertionError as error:
            raise AssertionError(f"{error}; the autoscaler said: {self.scaler.said()}") from error
        group = self.scaled("hungry")
        self.assertEqual(group["Desired"], 3)
        newest = group["Events"][0]
        self.assertEqual((newest["Count"], newest["Error"]), (3, False))
        self.assertTrue(newest["Message"], "the autoscaler says why")
        self.assertEqual(len(self.agent.ask("GET", "/v1/job/content/allocations")), 1, "a job without a policy")

    def test_a_disabled_policy_scales_nothing(self):
        """The autoscaler sees the policy disabled, and later enabled, through its blocking query."""
        self.agent.ask("PUT", "/v1/jobs", job("later", scaling={**policy(), "Enabled": False}))
        wait_for("one allocation", lambda: len(self.agent.ask("GET", "/v1/job/later/allocations")) == 1)
        self.agent.ask("PUT", "/v1/jobs", job("later", scaling=policy()))
        self.assertEqual(self.scaled("later")["Events"][-1]["PreviousCount"], 1)

    def scaled(self, name):
        """The group, once it is scaled and its first event, which is an entry of its own, is there."""

        def group():
            return self.agent.ask("GET", f"/v1/job/{name}/scale")["TaskGroups"]["group"]

        return wait_for("a scaling event", group, lambda group: group["Desired"] == 3 and group["Events"])
