"""An event sink of type nats against a real nats-server with JetStream: every event is stored once and in order, through a restart
of the server of NATS and a kill of the agent. Usage: nats.py NATS_SERVER; SONGLINE_BIN is the program. Speaks NATS' protocol itself."""

import base64
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

NATS_SERVER = sys.argv[1]
SONGLINE = os.environ["SONGLINE_BIN"]
WITHIN = 60
POOLS = 12


def until(what, found):
    """Waits until a condition holds, and returns it."""
    deadline = time.monotonic() + WITHIN
    while True:
        try:
            value = found()
            if value:
                return value
        except (OSError, urllib.error.URLError):
            pass
        if time.monotonic() > deadline:
            sys.exit(f"waited too long until {what}")
        time.sleep(0.05)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Nats:
    """One connection to a server of NATS."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WITHIN)
        self.read = self.socket.makefile("rb")
        self.read.readline()
        self.socket.sendall(b'CONNECT {"verbose":false,"user":"songline","pass":"s3cret"}\r\nSUB reply 1\r\n')

    def ask(self, subject, request):
        """Sends a request and returns its answer."""
        body = json.dumps(request).encode()
        self.socket.sendall(f"PUB {subject} reply {len(body)}\r\n".encode() + body + b"\r\n")
        while True:
            line = self.read.readline().decode()
            if line.startswith("MSG reply"):
                size = int(line.split()[-1])
                answer = self.read.read(size + 2)[:size]
                return json.loads(answer)
            if line.startswith("PING"):
                self.socket.sendall(b"PONG\r\n")
            elif not line:
                raise OSError("closed")


def http(port, method, path, body=None):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", method=method, data=None if body is None else json.dumps(body).encode()
    )
    with urllib.request.urlopen(request, timeout=WITHIN) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def main():
    with tempfile.TemporaryDirectory() as folder:
        nats_port, http_port = free_port(), free_port()
        ports = {"http": http_port, "rpc": free_port(), "serf": free_port()}
        config = {"bind_addr": "127.0.0.1", "ports": ports, "data_dir": f"{folder}/data", "server": {"enabled": True, "bootstrap_expect": 1}}
        with open(f"{folder}/agent.json", "w") as file:
            json.dump(config, file)
        with open(f"{folder}/nats.conf", "w") as file:
            file.write(
                f'port: {nats_port}\nhost: 127.0.0.1\njetstream {{ store_dir: "{folder}/js" }}\n'
                'authorization { user: songline, password: s3cret }\n'
            )
        log = open(f"{folder}/log", "wb")

        def start_nats():
            started = subprocess.Popen([NATS_SERVER, "-c", f"{folder}/nats.conf"], stdout=log, stderr=log)
            until("nats-server answers", lambda: Nats(nats_port).ask("$JS.API.INFO", {}).get("memory") is not None)
            return started

        def start_agent():
            started = subprocess.Popen([SONGLINE, "agent", "-config", f"{folder}/agent.json"], stdout=log, stderr=log)
            until("the agent leads", lambda: http(http_port, "GET", "/v1/status/leader"))
            return started

        running = []
        try:
            running = [start_nats(), start_agent()]
            sink = {
                "Type": "nats", "Address": f"nats://127.0.0.1:{nats_port}", "Subject": "songline.events", "Secret": "songline:s3cret",
                "Topics": {"NodePool": []}, "Position": 1,
            }
            until("the sink is written", lambda: http(http_port, "PUT", "/v1/event-sink/bus", sink) is None)
            pool = lambda n: until("a pool is written", lambda: http(http_port, "PUT", "/v1/node/pools", {"Name": f"pool-{n}"}) is None)
            pool(0)
            status = lambda: http(http_port, "GET", "/v1/event-sink/bus")
            failing = until("no stream takes it", lambda: (row := status())["Status"] == "failing" and row)
            assert "no stream of JetStream takes the subject" in failing["LastError"], failing
            made = Nats(nats_port).ask("$JS.API.STREAM.CREATE.EVENTS", {"name": "EVENTS", "subjects": ["songline.>"]})
            assert "error" not in made, made
            for n in range(1, POOLS):
                pool(n)
                if n == POOLS // 3:
                    running[0].terminate()
                    running[0].wait()
                    running[0] = start_nats()
                if n == 2 * POOLS // 3:
                    running[1].kill()
                    running[1].wait()
                    running[1] = start_agent()
            until("all is delivered", lambda: (row := status())["Delivered"] >= POOLS and row["Lag"] == 0)
            nats = Nats(nats_port)
            count = nats.ask("$JS.API.STREAM.INFO.EVENTS", {})["state"]["messages"]
            stored = [nats.ask("$JS.API.STREAM.MSG.GET.EVENTS", {"seq": n + 1})["message"] for n in range(count)]
            frames = [json.loads(base64.b64decode(message["data"])) for message in stored]
            names = [event["Key"] for frame in frames for event in frame["Events"]]
            assert names == [f"pool-{n}" for n in range(POOLS)], names
            assert all("Nats-Msg-Id: bus-" in base64.b64decode(message["hdrs"]).decode() for message in stored)
            print(f"== clients/sinks: {count} events in JetStream, each once and in order")
        except BaseException:
            log.flush()
            sys.stderr.write(open(f"{folder}/log", errors="replace").read()[-4000:])
            raise
        finally:
            for process in running:
                process.kill()
                process.wait()


main()
