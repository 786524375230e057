"""Programs of other people as child processes, and the requests that the stories make of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from agents import WITHIN, Agent, free_ports, wait_for  # noqa: E402,F401

# Takes some percent of a processor, which is many times the 20 MHz that the task asks for.
SOME_WORK = "while :; do i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done; sleep 0.1; done"


class Program:
    """A running program with a folder of its own."""

    def __init__(self, prefix):
        self.dir = tempfile.mkdtemp(prefix=prefix)
        self.process = None

    def write(self, name, text):
        """Writes a file into the folder. Returns its path."""
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def start(self, *command):
        """Starts the program."""
        with open(os.path.join(self.dir, "log"), "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.dir)

    def said(self):
        """What it wrote so far."""
        with open(os.path.join(self.dir, "log"), encoding="utf-8") as file:
            return file.read()

    def lives(self):
        """Fails when the program has ended, with what it said."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the program ended with {self.process.returncode}; it said: {self.said()}")

    def stop(self):
        """Interrupts it, waits for its end, and removes the folder."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def fetch(url):
    """The JSON of an answer. `None`: nobody answers yet, or not yet well."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return None


def job(name, count=1, scaling=None):
    """A service whose tasks use more of the processor than they ask for."""
    return {
        "Job": {
            "ID": name,
            "Name": name,
            "Datacenters": ["*"],
            "Type": "service",
            "Update": {"MinHealthyTime": 0, "HealthCheck": "task_states"},
            "TaskGroups": [
                {
                    "Name": "group",
                    "Count": count,
                    "Scaling": scaling,
                    "Tasks": [
                        {
                            "Name": "task",
                            "Driver": "raw_exec",
                            "Config": {"command": "/bin/sh", "args": ["-c", SOME_WORK]},
                            "Resources": {"CPU": 20, "MemoryMB": 16},
                        }
                    ],
                }
            ],
        }
    }
