"""Namespaces, variables, search, status, operators, what the open version has not, and ACLs."""

import unittest

from nomad.api import exceptions

import counting
from agents import Agent, wait_for
from counting import served


class State(unittest.TestCase):
    """One agent for all of these."""

    @classmethod
    def setUpClass(cls):
        cls.agent = Agent()
        cls.n = cls.agent.client()

    @classmethod
    def tearDownClass(cls):
        cls.agent.stop()

    def test_namespaces_are_kept(self):
        n = self.n
        n.namespace.create_namespace({"Name": "py-ns", "Description": "for tests"})
        self.assertEqual(n.namespace.get_namespace("py-ns")["Description"], "for tests")
        n.namespace.update_namespace("py-ns", {"Name": "py-ns", "Description": "changed"})
        self.assertEqual(n.namespace.get_namespace("py-ns")["Description"], "changed")
        # The package looks for an id, which a namespace never had.
        with self.assertRaises(KeyError):
            n.namespace["py-ns"]
        self.assertIn("py-ns", n.namespace)
        self.assertEqual([x["Name"] for x in n.namespaces.get_namespaces(prefix="py-")], ["py-ns"])
        self.assertIn("py-ns", n.namespaces)
        self.assertEqual(n.namespaces["py-ns"]["Name"], "py-ns")
        self.assertEqual((len(n.namespaces), len(list(n.namespaces))), (2, 2))
        self.assertEqual(self.agent.client(namespace="py-ns").jobs.get_jobs(), [])
        n.namespace.delete_namespace("py-ns")
        self.assertNotIn("py-ns", n.namespace)

    def test_variables_are_checked_and_set(self):
        n = self.n
        wait_for("a key", lambda: self._can_write("py/first"))
        made = n.variable.create_variable("py/one", {"Path": "py/one", "Items": {"user": "me"}}, cas=0)
        self.assertEqual(n.variable.get_variable("py/one")["Items"], {"user": "me"})
        with self.assertRaises(exceptions.VariableConflict):
            n.variable.create_variable("py/one", {"Path": "py/one", "Items": {"user": "you"}}, cas=1)
        self.assertIn("py/one", n.variable)
        self.assertEqual(n.variable["py/one"]["Items"]["user"], "me")
        self.assertEqual([v["Path"] for v in n.variables.get_variables(prefix="py/o")], ["py/one"])
        self.assertNotIn("Items", n.variables.get_variables(prefix="py/o")[0])
        self.assertIn("py/one", n.variables)
        self.assertEqual(n.variables["py/one"]["Path"], "py/one")
        self.assertIn("py/one", [v["Path"] for v in n.variables])
        self.assertEqual(n.variable.delete_variable("py/one", cas=made["ModifyIndex"]).status_code, 204)
        with self.assertRaises(exceptions.URLNotFoundNomadException):
            n.variable.get_variable("py/one")

    def _can_write(self, path):
        # A new leader makes the first key a moment after it is elected.
        try:
            return self.n.variable.create_variable(path, {"Path": path, "Items": {"a": "b"}})
        except exceptions.BaseNomadException:
            return False

    def test_things_are_searched(self):
        self.n.jobs.register_job({"Job": {"ID": "py-search", "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1m"}}]}]}})
        self.assertEqual(self.n.search.search("py-s", "jobs")["Matches"]["jobs"], ["py-search"])
        self.assertEqual(self.n.search.fuzzy_search("sear", "jobs")["Matches"]["jobs"][0]["ID"], "py-search")

    def test_the_cluster_is_shown(self):
        n = self.n
        leader = n.status.leader.get_leader()
        self.assertIn(leader, n.status.leader)
        self.assertEqual(len(n.status.leader), len(leader))
        self.assertEqual(n.status.peers.get_peers(), [leader])
        self.assertIn(leader, n.status.peers)
        self.assertEqual(n.status.peers[leader], leader)
        self.assertEqual((len(n.status.peers), list(n.status.peers)), (1, [leader]))
        self.assertEqual(n.regions.get_regions(), ["global"])
        self.assertIn("global", n.regions)
        self.assertEqual(n.regions["global"], "global")
        self.assertEqual((len(n.regions), list(n.regions)), (1, ["global"]))
        self.assertEqual(n.operator.get_configuration()["Servers"][0]["Address"], leader)
        with self.assertRaises(exceptions.BaseNomadException):
            n.operator.delete_peer("127.0.0.1:1")
        self.assertTrue(n.metrics.get_metrics()["Gauges"])
        self.assertTrue(n.system.initiate_garbage_collection())
        self.assertTrue(n.system.reconcile_summaries())

    def test_what_the_open_version_has_not_is_refused_as_there(self):
        sentinel = self.n.sentinel
        for call in (
            sentinel.get_policies,
            lambda: sentinel.create_policy("p", {"Name": "p"}),
            lambda: sentinel.get_policy("p"),
            lambda: sentinel.update_policy("p", {"Name": "p"}),
            lambda: sentinel.delete_policy("p"),
        ):
            with self.assertRaises(exceptions.BaseNomadException) as caught:
                call()
            self.assertIn("Nomad Enterprise only endpoint", caught.exception.nomad_resp.text)


class Acl(unittest.TestCase):
    """An agent with ACLs."""

    ALL = [f"acl.Acl.{name}" for name in (
        "generate_bootstrap", "get_tokens", "get_token", "get_self_token", "create_token", "delete_token", "update_token",
        "get_policies", "create_policy", "get_policy", "update_policy", "delete_policy",
    )]  # fmt: skip

    def test_policies_decide_what_tokens_may(self):
        try:
            agent = Agent(acl=True)
        except RuntimeError as error:
            if "this version has no ACLs yet" not in str(error):
                raise
            counting.unserved.update({name: "ACLs are not served" for name in self.ALL})
            return
        try:
            self.walk(agent)
        finally:
            agent.stop()

    def walk(self, agent):
        first = served(self.ALL, agent.client().acl.generate_bootstrap)
        if first is None:
            return
        self.assertEqual(first["Type"], "management")
        acl = agent.client(token=first["SecretID"]).acl
        rules = 'namespace "default" { policy = "read" }'
        acl.create_policy("py-reader", {"Name": "py-reader", "Rules": rules})
        self.assertEqual(acl.get_policy("py-reader")["Rules"], rules)
        acl.update_policy("py-reader", {"Name": "py-reader", "Description": "reads", "Rules": rules})
        self.assertEqual([p["Description"] for p in acl.get_policies()], ["reads"])
        token = acl.create_token({"Name": "reader", "Type": "client", "Policies": ["py-reader"]})
        reader = agent.client(token=token["SecretID"])
        self.assertEqual(reader.jobs.get_jobs(), [])
        with self.assertRaises(exceptions.URLNotAuthorizedNomadException):
            reader.jobs.register_job({"Job": {"ID": "x", "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1m"}}]}]}})
        with self.assertRaises(exceptions.URLNotAuthorizedNomadException):
            agent.client().jobs.get_jobs()
        self.assertEqual(reader.acl.get_self_token()["AccessorID"], token["AccessorID"])
        self.assertEqual(acl.get_token(token["AccessorID"])["Name"], "reader")
        acl.update_token(token["AccessorID"], {"AccessorID": token["AccessorID"], "Name": "renamed", "Type": "client", "Policies": ["py-reader"]})
        self.assertIn("renamed", [t["Name"] for t in acl.get_tokens()])
        self.assertTrue(acl.delete_token(token["AccessorID"]))
        with self.assertRaises(exceptions.URLNotAuthorizedNomadException):
            reader.jobs.get_jobs()
        self.assertTrue(acl.delete_policy("py-reader"))
