"""An agent that delivers events to a receiver, and what tests of receivers share. SONGLINE_BIN is the program."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

SONGLINE = os.environ["SONGLINE_BIN"]
WITHIN = 60


def until(what, found):
    """Waits until a condition holds, and returns it."""
    deadline = time.monotonic() + WITHIN
    while True:
        try:
            last = value = found()
            if value:
                return value
        except OSError as error:
            last = error
        if time.monotonic() > deadline:
            sys.exit(f"waited too long until {what}: {last}")
        time.sleep(0.05)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def end(process):
    """Kills a process."""
    process.kill()
    process.wait()


class Agent:
    """A server without a node, which would add events of its own."""

    def __init__(self, folder, log, **environment):
        self.folder, self.log, self.environment = folder, log, environment
        self.port = free_port()
        ports = {"http": self.port, "rpc": free_port(), "serf": free_port()}
        server = {"enabled": True, "bootstrap_expect": 1}
        config = {"bind_addr": "127.0.0.1", "ports": ports, "data_dir": f"{folder}/data", "server": server}
        with open(f"{folder}/agent.json", "w") as file:
            json.dump(config, file)
        self.start()

    def start(self):
        command = [SONGLINE, "agent", "-config", f"{self.folder}/agent.json"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env={**os.environ, **self.environment})
        until("the agent leads", lambda: self.http("GET", "/v1/status/leader"))

    def kill(self):
        end(self.process)

    def http(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method, data=data)
        with urllib.request.urlopen(request, timeout=WITHIN) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def put(self, path, body):
        until(f"{path} is written", lambda: self.http("PUT", path, body) is None)

    def pool(self, n):
        """Writes a node pool, which is one event."""
        self.put("/v1/node/pools", {"Name": f"pool-{n}"})

    def sink(self):
        return self.http("GET", "/v1/event-sink/bus")

    def failing(self, what, error):
        """Waits until the sink tells of an error."""
        return until(what, lambda: (row := self.sink())["Status"] == "failing" and error in row["LastError"])

    def settled(self, events):
        """Waits until the sink has delivered this many events, and everything."""
        until("all is delivered", lambda: (row := self.sink())["Delivered"] >= events and row["Lag"] == 0)
