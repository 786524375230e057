"""Prometheus, which scrapes the agent's metrics, and the queries of dashboards for Nomad."""

import os
import unittest
import urllib.parse

from programs import Agent, Program, fetch, free_ports, job, wait_for

# Name, query of a dashboard, and the least that its first value may be.
QUERIES = (
    ("targets that answer", 'up{job="nomad"}', 1),
    ("running allocations by node", "sum by (node_id) (nomad_client_allocations_running)", 2),
    ("running allocations of a job", 'sum by (exported_job) (nomad_nomad_job_summary_running{exported_job="seen"})', 2),
    ("evaluations that wait", "sum(nomad_nomad_broker_total_ready)", 0),
    ("blocked evaluations", "sum(nomad_nomad_blocked_evals_total_blocked)", 0),
    ("committed entries a second", "sum(rate(nomad_raft_apply[1m]))", 0),
    ("heartbeats that are watched", "sum(nomad_nomad_heartbeat_active)", 1),
    ("submitted plans", "sum(nomad_nomad_plan_submit_count)", 1),
)


@unittest.skipUnless("PROMETHEUS_BIN" in os.environ, "PROMETHEUS_BIN names no program")
class PrometheusStories(unittest.TestCase):
    """A running Prometheus beside a running agent."""

    def setUp(self):
        self.agent = Agent(
            telemetry={
                "prometheus_metrics": True,
                "publish_allocation_metrics": True,
                "publish_node_metrics": True,
                "collection_interval": "1s",
            }
        )
        self.addCleanup(self.agent.stop)
        self.server = Program("clients-prometheus")
        self.addCleanup(self.server.stop)
        self.port = free_ports(1)[0]
        config = self.server.write(
            "prometheus.yml",
            f"""
global:
  scrape_interval: 1s
  scrape_timeout: 1s
scrape_configs:
  - job_name: nomad
    metrics_path: /v1/metrics
    params: {{format: [prometheus]}}
    static_configs:
      - targets: ["127.0.0.1:{self.agent.port}"]
""",
        )
        self.server.start(
            os.environ["PROMETHEUS_BIN"],
            f"--config.file={config}",
            f"--storage.tsdb.path={self.server.dir}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        )

    def asked(self, query):
        """The first value that a query gives; `None` without one."""
        self.server.lives()
        answer = fetch(f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        result = answer["data"]["result"] if answer else []
        return float(result[0]["value"][1]) if result else None

    def test_the_queries_of_dashboards_have_answers(self):
        """Every scrape is read without an error, and each query finds its series."""
        self.agent.ask("PUT", "/v1/jobs", job("seen", count=2))
        for name, query, least in QUERIES:
            with self.subTest(name):
                enough = lambda value: value is not None and value >= least  # noqa: E731
                wait_for(f"{name}: {query}", lambda: self.asked(query), enough)
        targets = fetch(f"http://127.0.0.1:{self.port}/api/v1/targets")["data"]["activeTargets"]
        self.assertEqual([(one["health"], one["lastError"]) for one in targets], [("up", "")])
        metadata = fetch(f"http://127.0.0.1:{self.port}/api/v1/metadata?metric=nomad_raft_apply")["data"]
        self.assertEqual(metadata["nomad_raft_apply"][0]["type"], "counter")
