"""An event sink of type nats against a real nats-server with JetStream: every event is stored once and in order, through a restart
of the server of NATS and a kill of the agent. Usage: nats.py NATS_SERVER; SONGLINE_BIN is the program. Speaks NATS' protocol itself."""

import base64
import json
import socket
import subprocess
import sys
import tempfile

from agents import WITHIN, Agent, end, free_port, until

NATS_SERVER = sys.argv[1]
POOLS = 12


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


def main():
    with tempfile.TemporaryDirectory() as folder:
        nats_port = free_port()
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

        server, agent = None, None
        try:
            server, agent = start_nats(), Agent(folder, log)
            agent.put("/v1/event-sink/bus", {
                "Type": "nats", "Address": f"nats://127.0.0.1:{nats_port}", "Subject": "songline.events", "Secret": "songline:s3cret",
                "Topics": {"NodePool": []}, "Position": 1,
            })
            agent.pool(0)
            agent.failing("no stream takes it", "no stream of JetStream takes the subject")
            made = Nats(nats_port).ask("$JS.API.STREAM.CREATE.EVENTS", {"name": "EVENTS", "subjects": ["songline.>"]})
            assert "error" not in made, made
            for n in range(1, POOLS):
                agent.pool(n)
                if n == POOLS // 3:
                    server.terminate()
                    server.wait()
                    server = start_nats()
                if n == 2 * POOLS // 3:
                    agent.kill()
                    agent.start()
            agent.settled(POOLS)
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
            if agent:
                agent.kill()
            if server:
                end(server)


main()
