"""Runs the subscribers of `examples/subscribers` against an agent and kills them again and again: each has every event
exactly once, in order. A scripted server shows that a gap and an ended stream are handled.

Usage: walk.py PROGRAM. Subscribers whose tools are missing are skipped with the reason; with CI set, that is a failure.
"""

import contextlib
import http.server
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "..", "examples", "subscribers")
# Longest wait for anything. The machine may be busy.
WITHIN = 120
POOLS = 120
KILLS = 4


def commands(program, work):
    """Command line of each subscriber, or the reason why it cannot run here."""
    yield "python", [sys.executable, os.path.join(EXAMPLES, "subscribe.py")], None
    curl = None if shutil.which("curl") else "there is no curl"
    yield "shell", [os.path.join(EXAMPLES, "subscribe.sh")], curl
    built = os.path.join(work, "subscribe-go")
    if shutil.which("go"):
        subprocess.run(["go", "build", "-o", built, "."], cwd=os.path.join(EXAMPLES, "go"), check=True)
        yield "go", [built], None
    else:
        yield "go", [], "there is no go"
    built = os.path.join(os.path.dirname(program), "examples", "subscribe")
    reason = None if os.path.exists(built) else f"`cargo build --example subscribe` has not made {built}"
    yield "rust", [built], reason


@contextlib.contextmanager
def agent(program, work):
    """A `-dev` agent on a free port; its address."""
    config = os.path.join(work, "agent.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump({"bind_addr": "127.0.0.1", "ports": {"http": 0, "rpc": 0, "serf": 0}}, file)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NOMAD_")}
    with open(os.path.join(work, "agent.log"), "wb") as log:
        running = subprocess.Popen(
            [program, "agent", "-dev", "-config", config], stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
        try:
            for line in running.stdout:
                if line.startswith("==> HTTP: "):
                    threading.Thread(target=running.stdout.read, daemon=True).start()
                    yield line.removeprefix("==> HTTP: ").strip()
                    return
            raise AssertionError("the agent did not start")
        finally:
            running.send_signal(signal.SIGINT)
            try:
                running.wait(20)
            except subprocess.TimeoutExpired:
                running.kill()


class Subscriber:
    """A subscriber with its file. It is killed with all its children."""

    def __init__(self, command, address, path, query):
        self.words = [*command, address, path, query]
        self.path = path
        self.start()

    def start(self):
        """Starts it; its own words go to a file beside its file."""
        with open(self.path + ".log", "ab") as log:
            self.process = subprocess.Popen(
                self.words, stdout=log, stderr=log, start_new_session=True, env={**os.environ, "NOMAD_TOKEN": ""}
            )

    def kill(self):
        """Kills it at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def frames(self):
        """The whole lines of its file."""
        if not os.path.exists(self.path):
            return []
        with open(self.path, "rb") as file:
            return [json.loads(line) for line in file if line.endswith(b"\n")]

    def wait_for(self, good, what):
        """Waits until its frames are good."""
        deadline = time.monotonic() + WITHIN
        while not good(self.frames()):
            if time.monotonic() > deadline or self.process.poll() is not None:
                with open(self.path + ".log", encoding="utf-8") as log:
                    raise AssertionError(f"{what}: {self.frames()[-3:]}, it said: {log.read()[-500:]}")
            time.sleep(0.02)


def pools(frames):
    """Names of the node pools in frames."""
    events = [event for frame in frames for event in frame.get("Events", [])]
    return [event["Payload"]["NodePool"]["Name"] for event in events if event["Type"] == "NodePoolUpserted"]


def make_pool(address, number):
    """Makes a node pool, which is one event."""
    body = json.dumps({"Name": f"pool-{number}"}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{address}/v1/node/pools", body, method="PUT")) as answer:
        answer.read()


def killed_often(command, address, path, chance):
    """Kills the subscriber while pools are made: in the end it has each of them once."""
    first = int(time.time() * 1000)
    wanted = [f"pool-{first + number}" for number in range(POOLS)]
    subscriber = Subscriber(command, address, path, "topic=NodePool")
    kills = sorted(chance.sample(range(1, POOLS), KILLS))
    try:
        for number in range(POOLS):
            make_pool(address, first + number)
            if number in kills:
                # At some moment of its work.
                subscriber.wait_for(lambda frames, n=number: len(ours(frames, first)) >= n // 2, "it does not follow")
                subscriber.kill()
                subscriber.start()
        subscriber.wait_for(lambda frames: wanted[-1] in pools(frames), "it does not catch up")
        # A line that a crash has cut short.
        subscriber.kill()
        with open(path, "ab") as file:
            file.write(b'{"Events":[{"Ind')
        make_pool(address, first + POOLS)
        wanted.append(f"pool-{first + POOLS}")
        subscriber.start()
        subscriber.wait_for(lambda frames: wanted[-1] in pools(frames), "it does not go on after a torn line")
        found = ours(subscriber.frames(), first)
        assert found == wanted, f"{len(found)} of {len(wanted)}: {found}"
    finally:
        subscriber.kill()


def ours(frames, first):
    """The pools of this subscriber's run."""
    return [name for name in pools(frames) if int(name.removeprefix("pool-")) >= first]


def gaps_and_ends(command, path):
    """A server that reports a gap, ends the stream, and breaks off in the middle of a line."""
    answers = [
        (0, b'{}\n{"Index":0,"Gap":{"Oldest":7}}\n{"Events":[],"Index":9}\n{"Index":9,"Closed":"why"}\n'),
        (9, b'{}\n{"Index":12,"Checkpoint":true}\n{"Events":[{"To'),
        (12, b'{"Index":0,"Gap":{"Oldest":20}}\n'),
        (19, b'{"Events":[],"Index":20}\n'),
    ]
    asked = []

    class Scripted(http.server.BaseHTTPRequestHandler):
        """Answers one request after another."""

        def do_GET(self):
            """One answer, which ends with the connection."""
            after = int(self.path.split("after_index=")[1].split("&")[0])
            asked.append(after)
            self.send_response(200)
            self.end_headers()
            if len(asked) <= len(answers):
                self.wfile.write(answers[len(asked) - 1][1])

        def log_message(self, *_):
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    subscriber = Subscriber(command, f"http://127.0.0.1:{server.server_port}", path, "")
    try:
        subscriber.wait_for(lambda _: len(asked) > len(answers), "it does not ask again")
        assert asked[:5] == [0, 9, 12, 19, 20], asked
        with open(path + ".log", encoding="utf-8") as log:
            said = log.read()
        assert "are missing" in said and "ended the stream" in said, said
    finally:
        subscriber.kill()
        server.shutdown()


def main():
    """All subscribers, one after another."""
    program = os.path.realpath(sys.argv[1])
    seed = int(os.environ.get("SONGLINE_SUBSCRIBERS_SEED", time.time_ns() % 2**32))
    print(f"== clients/subscribers: seed {seed}")
    chance = random.Random(seed)
    ran, skipped = [], []
    with tempfile.TemporaryDirectory() as work, agent(program, work) as address:
        for name, command, reason in commands(program, work):
            if reason:
                print(f"== clients/subscribers: {name} skipped: {reason}")
                skipped.append(name)
                continue
            gaps_and_ends(command, os.path.join(work, f"{name}-scripted.jsonl"))
            killed_often(command, address, os.path.join(work, f"{name}.jsonl"), chance)
            ran.append(name)
    print(f"== clients/subscribers: {', '.join(ran)}: killed {KILLS} times each, no event lost or repeated")
    if skipped and os.environ.get("CI"):
        sys.exit("in CI no subscriber may be skipped")


if __name__ == "__main__":
    main()
