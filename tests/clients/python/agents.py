"""Agents as child processes, with a configuration of their own in a folder of their own. Not here: what is asked of them."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

# Bounds everything that is waited for, in seconds. A debug build on a busy machine is slow.
WITHIN = 60


class Agent:
    """A running agent with a server and a node."""

    def __init__(self, acl=False, **more):
        self.dir = tempfile.mkdtemp(prefix="clients-python")
        ports = free_ports(3)
        self.port = ports[0]
        config = {
            "ports": dict(zip(("http", "rpc", "serf"), ports)),
            "server": {"enabled": True, "bootstrap_expect": 1},
            "client": {"enabled": True, "meta": {"rack": "r1"}},
            "plugin": {"raw_exec": {"config": {"enabled": True}}},
            "enable_debug": True,
        }
        if acl:
            config["acl"] = {"enabled": True}
        config.update(more)
        path = os.path.join(self.dir, "agent.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        self.log = open(os.path.join(self.dir, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [os.environ["SONGLINE_BIN"], "agent", "-dev", "-config", path],
            stdout=self.log,
            stderr=self.log,
            env={**os.environ, "TMPDIR": self.dir},
        )
        wait_for("an agent that answers", self._answers)

    def _answers(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"the agent ended; it said: {self.said()}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/status/leader", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def said(self):
        """What it wrote so far."""
        with open(self.log.name, encoding="utf-8") as file:
            return file.read()

    def ask(self, method, path, body=None):
        """A request, and the JSON of its answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=WITHIN) as answer:
            return json.load(answer)

    def client(self, **options):
        """A client of it."""
        # Imported here: the tests of other people's programs do without the package.
        import nomad

        return nomad.Nomad(host="127.0.0.1", port=self.port, **{"timeout": WITHIN, **options})

    def stop(self):
        """Interrupts it and waits for its end."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def free_ports(count):
    """Ports that nobody listens on just now; held until all are chosen, or one may come twice."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for(what, ask, good=bool):
    """Asks until the answer is good, and gives it."""
    deadline = time.monotonic() + WITHIN
    while True:
        answer = ask()
        if good(answer):
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come to be: {answer}")
        time.sleep(0.05)
