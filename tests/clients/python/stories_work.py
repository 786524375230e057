"""Jobs, what is placed of them, and the node that runs it."""

import base64
import json
import unittest

from nomad.api import exceptions

from agents import Agent, wait_for
from counting import served


def service(job_id, count=1, driver="mock_driver", config=None):
    """A job whose tasks run until they are told to stop."""
    task = {"Name": "t", "Driver": driver, "Config": config or {"run_for": "10m"}, "Resources": {"CPU": 20, "MemoryMB": 16}}
    return {
        "Job": {
            "ID": job_id,
            "Name": job_id,
            "Type": "service",
            "Datacenters": ["dc1"],
            "TaskGroups": [{"Name": "g", "Count": count, "Tasks": [task]}],
        }
    }


def shell(job_id, script):
    """A job with one task that runs a shell script."""
    return service(job_id, driver="raw_exec", config={"command": "/bin/sh", "args": ["-c", script]})


class Work(unittest.TestCase):
    """One agent for all of these; each keeps to jobs of its own name."""

    @classmethod
    def setUpClass(cls):
        cls.agent = Agent()
        cls.n = cls.agent.client()
        cls.node = wait_for("a ready node", cls.n.nodes.get_nodes, lambda nodes: nodes and nodes[0]["Status"] == "ready")[0]["ID"]

    @classmethod
    def tearDownClass(cls):
        cls.agent.stop()

    def run_job(self, body):
        """Registers a job and waits for its running allocs."""
        job = body["Job"]
        answer = self.n.job.register_job(job["ID"], body)
        self.assertTrue(answer["EvalID"])
        count = job["TaskGroups"][0]["Count"]

        def running():
            return [a for a in self.n.job.get_allocations(job["ID"]) if a["ClientStatus"] == "running" and a["DesiredStatus"] == "run"]

        return wait_for(f"running allocs of {job['ID']}", running, lambda allocs: len(allocs) == count)

    def test_jobs_are_registered_and_read_back(self):
        n = self.n
        n.jobs.register_job(service("py-jobs"))
        allocs = self.run_job(service("py-jobs", count=2))
        job = n.job.get_job("py-jobs")
        self.assertEqual((job["ID"], job["Version"], job["TaskGroups"][0]["Count"]), ("py-jobs", 1, 2))
        self.assertIn("py-jobs", n.job)
        self.assertNotIn("py-nothing", n.job)
        self.assertEqual(n.job["py-jobs"]["ID"], "py-jobs")
        with self.assertRaises(KeyError):
            n.job["py-nothing"]
        with self.assertRaises(exceptions.URLNotFoundNomadException):
            n.job.get_job("py-nothing")
        listed = n.jobs.get_jobs(prefix="py-job")
        self.assertEqual([j["ID"] for j in listed], ["py-jobs"])
        self.assertIn("py-jobs", n.jobs)
        self.assertEqual(n.jobs["py-jobs"]["ID"], "py-jobs")
        self.assertEqual(len(n.jobs), len(list(n.jobs)))
        self.assertEqual([v["Version"] for v in n.job.get_versions("py-jobs")["Versions"]], [1, 0])
        self.assertEqual({a["JobID"] for a in allocs}, {"py-jobs"})
        self.assertTrue(all(e["JobID"] == "py-jobs" for e in n.job.get_evaluations("py-jobs")))
        self.assertEqual(n.job.get_summary("py-jobs")["Summary"]["g"]["Running"], 2)
        self.assertEqual(n.job.get_deployment("py-jobs")["JobID"], "py-jobs")
        self.assertEqual({d["JobID"] for d in n.job.get_deployments("py-jobs")}, {"py-jobs"})
        self.assertTrue(n.job.evaluate_job("py-jobs")["EvalID"])

    def test_jobs_are_planned_parsed_and_validated(self):
        n = self.n
        plan = n.job.plan_job("py-plan", service("py-plan"), diff=True)
        self.assertEqual(plan["Diff"]["Type"], "Added")
        self.assertEqual(plan["Annotations"]["DesiredTGUpdates"]["g"]["Place"], 1)
        parsed = n.jobs.parse('job "parsed" {\ngroup "g" {\ncount = 2\ntask "t" {\ndriver = "mock_driver"\n}\n}\n}', canonicalize=True)
        self.assertEqual((parsed["ID"], parsed["TaskGroups"][0]["Count"]), ("parsed", 2))
        self.assertEqual(n.validate.validate_job(service("py-validate")).json()["Error"], "")
        bad = service("py-validate")
        bad["Job"]["TaskGroups"][0]["Tasks"][0]["Driver"] = ""
        self.assertIn("Missing task driver", n.validate.validate_job(bad).json()["Error"])

    def test_jobs_are_reverted_dispatched_and_stopped(self):
        n = self.n
        self.run_job(service("py-revert"))
        self.run_job(service("py-revert", count=2))
        n.job.stable_job("py-revert", 0, True)
        self.assertTrue(n.job.get_versions("py-revert")["Versions"][1]["Stable"])
        self.assertTrue(n.job.revert_job("py-revert", 0, 1)["EvalID"])
        self.assertEqual(n.job.get_job("py-revert")["TaskGroups"][0]["Count"], 1)
        self.assertTrue(n.job.deregister_job("py-revert")["EvalID"])
        self.assertTrue(n.job.get_job("py-revert")["Stop"])
        n.job.deregister_job("py-revert", purge=True)
        self.assertNotIn("py-revert", n.job)

        body = service("py-param", config={"run_for": "10ms"})
        body["Job"].update(Type="batch", ParameterizedJob={"Payload": "optional", "MetaRequired": ["who"]})
        n.job.register_job("py-param", body)
        payload = base64.b64encode(b"text").decode()
        child = n.job.dispatch_job("py-param", payload=payload, meta={"who": "me"}, id_prefix_template="x")["DispatchedJobID"]
        self.assertTrue(child.startswith("py-param/dispatch-x-"))
        self.assertEqual(n.job.get_job(child)["Payload"], payload)
        body = service("py-cron", config={"run_for": "10ms"})
        body["Job"].update(Type="batch", Periodic={"Enabled": True, "Spec": "0 0 1 1 *", "SpecType": "cron"})
        n.job.register_job("py-cron", body)
        self.assertTrue(n.job.periodic_job("py-cron")["EvalID"])

    def test_allocs_and_evaluations_are_read(self):
        n = self.n
        alloc = self.run_job(service("py-allocs"))[0]
        whole = n.allocation.get_allocation(alloc["ID"])
        self.assertEqual((whole["JobID"], whole["NodeID"]), ("py-allocs", self.node))
        self.assertIn(alloc["ID"], n.allocation)
        self.assertNotIn("c0ffee00-0000-4000-8000-000000000000", n.allocation)
        self.assertEqual(n.allocation[alloc["ID"]]["ID"], alloc["ID"])
        listed = n.allocations.get_allocations(filter_='JobID == "py-allocs"', resources=True)
        self.assertEqual([a["ID"] for a in listed], [alloc["ID"]])
        self.assertEqual(listed[0]["AllocatedResources"]["Tasks"]["t"]["Cpu"]["CpuShares"], 20)
        self.assertEqual(len(n.allocations), len(list(n.allocations)))
        evaluation = n.evaluation.get_evaluation(alloc["EvalID"])
        self.assertEqual(evaluation["JobID"], "py-allocs")
        self.assertIn(alloc["EvalID"], n.evaluation)
        self.assertEqual(n.evaluation[alloc["EvalID"]]["ID"], alloc["EvalID"])
        self.assertEqual([a["ID"] for a in n.evaluation.get_allocations(alloc["EvalID"])], [alloc["ID"]])
        self.assertEqual([e["ID"] for e in n.evaluations.get_evaluations(prefix=alloc["EvalID"][:8])], [alloc["EvalID"]])
        self.assertIn(alloc["EvalID"], n.evaluations)
        self.assertEqual(n.evaluations[alloc["EvalID"]]["ID"], alloc["EvalID"])
        self.assertEqual(len(n.evaluations), len(list(n.evaluations)))
        self.assertTrue(n.allocation.stop_allocation(alloc["ID"])["EvalID"])

    def test_deployments_are_steered(self):
        n = self.n
        body = service("py-deploy")
        body["Job"]["Update"] = {"MaxParallel": 1, "HealthCheck": "manual", "MinHealthyTime": 1000000, "HealthyDeadline": 60 * 10**9, "ProgressDeadline": 600 * 10**9}
        alloc = self.run_job(body)[0]
        found = n.job.get_deployment("py-deploy")["ID"]
        self.assertEqual(n.deployment.get_deployment(found)["JobID"], "py-deploy")
        self.assertIn(found, n.deployment)
        self.assertEqual(n.deployment[found]["ID"], found)
        self.assertEqual([a["ID"] for a in n.deployment.get_deployment_allocations(found)], [alloc["ID"]])
        n.deployment.pause_deployment(found, True)
        self.assertEqual(n.deployment.get_deployment(found)["Status"], "paused")
        n.deployment.pause_deployment(found, False)
        self.assertTrue(n.deployment.promote_deployment_all(found)["EvalID"])
        self.assertTrue(n.deployment.promote_deployment_groups(found, ["g"])["EvalID"])
        self.assertEqual([d["ID"] for d in n.deployments.get_deployments(prefix=found[:8])], [found])
        self.assertIn(found, n.deployments)
        self.assertEqual(n.deployments[found]["ID"], found)
        self.assertEqual(len(n.deployments), len(list(n.deployments)))
        self.assertTrue(n.deployment.deployment_allocation_health(found, healthy_allocations=[alloc["ID"]])["DeploymentModifyIndex"])
        body["Job"]["ID"] = body["Job"]["Name"] = "py-fail"
        self.run_job(body)
        failed = n.job.get_deployment("py-fail")["ID"]
        n.deployment.fail_deployment(failed)
        self.assertEqual(n.deployment.get_deployment(failed)["Status"], "failed")

    def test_files_and_tasks_are_reached(self):
        n = self.n
        script = "printf 0123456789 > $NOMAD_ALLOC_DIR/data/digits; trap 'echo told' USR1; echo begun; while true; do sleep 0.05; done"
        alloc = self.run_job(shell("py-files", script))[0]["ID"]

        def log():
            return n.client.stream_logs.stream(alloc, "t", "stdout", plain=True)

        wait_for("the first line", log, lambda text: "begun" in text)
        self.assertIn("alloc", [f["Name"] for f in n.client.ls.list_files(alloc)])
        self.assertEqual(n.client.stat.stat_file(alloc, "alloc/data/digits")["Size"], 10)
        self.assertEqual(n.client.cat.read_file(alloc, "alloc/data/digits"), "0123456789")
        self.assertEqual(n.client.read_at.read_file_offset(alloc, 3, 4, "alloc/data/digits"), "3456")
        self.assertGreater(n.client.stats.read_stats(self.node)["Memory"]["Total"], 0)
        self.assertIn("t", n.client.allocation.read_allocation_stats(alloc)["Tasks"])
        n.client.allocation.signal_allocation(alloc, "SIGUSR1", task="t")
        wait_for("the answer to a signal", log, lambda text: "told" in text)
        n.client.allocation.restart_allocation(alloc)
        wait_for("a restart", lambda: n.allocation.get_allocation(alloc)["TaskStates"]["t"]["Restarts"], lambda count: count == 1)
        with self.assertRaises(exceptions.BaseNomadException):
            n.client.gc_allocation.garbage_collect(alloc)
        n.client.gc_all_allocations.garbage_collect(self.node)

    def test_nodes_are_read_and_drained(self):
        n = self.n
        node = n.node.get_node(self.node)
        self.assertEqual((node["Status"], node["Meta"]["rack"]), ("ready", "r1"))
        self.assertFalse(node.get("SecretID"))
        self.assertIn(self.node, n.node)
        self.assertEqual(n.node[self.node]["ID"], self.node)
        self.assertIsInstance(n.node.get_allocations(self.node), list)
        self.assertIn("EvalIDs", n.node.evaluate_node(self.node))
        self.assertEqual([x["ID"] for x in n.nodes.get_nodes(prefix=self.node[:8])], [self.node])
        self.assertIn(self.node, n.nodes)
        self.assertEqual(n.nodes[self.node]["ID"], self.node)
        self.assertEqual((len(n.nodes), len(list(n.nodes))), (1, 1))
        own = Agent()
        try:
            other = own.client()
            mine = wait_for("a ready node", other.nodes.get_nodes, lambda nodes: nodes and nodes[0]["Status"] == "ready")[0]["ID"]
            other.node.eligible_node(mine, eligible=False)
            self.assertEqual(other.node.get_node(mine)["SchedulingEligibility"], "ineligible")
            other.node.eligible_node(mine, eligible=True)
            # The old form of a drain has no body, and is refused since long.
            with self.assertRaises(exceptions.BaseNomadException):
                other.node.drain_node(mine, enable=True)
            other.node.drain_node_with_spec(mine, {"Deadline": 3600 * 10**9})
            wait_for("a drained node", lambda: other.node.get_node(mine)["LastDrain"], lambda drain: drain and drain["Status"] == "complete")
            other.node.drain_node_with_spec(mine, {}, mark_eligible=True)
            self.assertEqual(other.node.get_node(mine)["SchedulingEligibility"], "eligible")
            self.assertTrue(other.node.purge_node(mine)["NodeModifyIndex"])
        finally:
            own.stop()

    def test_scaling_policies_are_read(self):
        n = self.n
        body = service("py-scaled")
        body["Job"]["TaskGroups"][0]["Scaling"] = {"Enabled": True, "Min": 1, "Max": 3, "Policy": {"a": "b"}}
        self.run_job(body)
        policies = n.scaling.get_scaling_policies(job="py-scaled")
        self.assertEqual(policies[0]["Target"]["Job"], "py-scaled")
        policy = n.scaling.get_scaling_policy(policies[0]["ID"])
        self.assertEqual((policy["Max"], policy["Policy"]), (3, {"a": "b"}))

    def test_events_are_streamed(self):
        thread, leave, events = self.n.event.stream.get_stream(topic={"Job": "py-events"}, timeout=30)
        thread.daemon = True
        thread.start()

        def told():
            self.n.job.evaluate_job("py-events")
            return not events.empty()

        self.n.job.register_job("py-events", service("py-events"))
        wait_for("an event", told)
        batch = events.get()
        self.assertGreater(batch["Index"], 0)
        self.assertIn("Topic", batch["Events"][0])
        json.dumps(batch)
        leave.set()

    def test_gossip_members_are_shown(self):
        n = self.n
        me = n.agent.get_agent()
        self.assertEqual(me["member"]["Status"], "alive")
        self.assertEqual(n.agent.get_members()["Members"][0]["Name"], me["member"]["Name"])
        servers = n.agent.get_servers()
        self.assertEqual(len(servers), 1)
        n.agent.join_agent("127.0.0.1:1")
        served(["agent.Agent.update_servers"], lambda: n.agent.update_servers(servers))
        self.assertEqual(n.agent.force_leave("nobody.global"), 200)
