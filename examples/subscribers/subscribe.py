#!/usr/bin/env python3
"""Follows the event stream into a file of JSON lines and resumes exactly where the file ends.

Usage: subscribe.py ADDRESS FILE [QUERY]       subscribe.py http://127.0.0.1:4646 events.jsonl 'topic=Job&topic=Node'

Every line of the file is a frame or a mark of the stream; its index is the cursor of the next request. So a line and
the position after it are written by the same write, and a crash can neither lose nor repeat an event.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request


def cursor(line):
    """The index to resume after; None for a heartbeat."""
    frame = json.loads(line)
    if "Gap" in frame:
        return frame["Gap"]["Oldest"] - 1
    return frame.get("Index")


def last_cursor(file):
    """The cursor of the last whole line; 0 for an empty file. A line that a crash has cut short is removed."""
    file.seek(0)
    position, end = 0, 0
    for line in file:
        if not line.endswith(b"\n"):
            break
        position, end = cursor(line), end + len(line)
    file.truncate(end)
    file.seek(end)
    return position


def follow(address, query, file):
    """Appends the stream to the file until it ends."""
    request = urllib.request.Request(f"{address}/v1/event/stream?after_index={last_cursor(file)}&{query}")
    if "NOMAD_TOKEN" in os.environ:
        request.add_header("X-Nomad-Token", os.environ["NOMAD_TOKEN"])
    # The server sends a heartbeat every 30 seconds.
    with urllib.request.urlopen(request, timeout=90) as stream:
        for line in stream:
            if not line.endswith(b"\n"):
                return
            frame = json.loads(line)
            if "Gap" in frame:
                print(f"entries before {frame['Gap']['Oldest']} are missing: read the state again", file=sys.stderr)
            if "Closed" in frame:
                print(f"the server ended the stream: {frame['Closed']}", file=sys.stderr)
                return
            if cursor(line) is None:
                continue
            file.write(line)
            file.flush()


def main():
    address, path = sys.argv[1:3]
    query = sys.argv[3] if len(sys.argv) > 3 else ""
    with open(path, "a+b") as file:
        while True:
            try:
                follow(address, query, file)
            except urllib.error.HTTPError as refused:
                if refused.code < 500:
                    sys.exit(f"{refused}: {refused.read().decode(errors='replace')}")
                print(refused, file=sys.stderr)
            except OSError as lost:
                print(f"the connection is lost: {lost}", file=sys.stderr)
            time.sleep(0.5)


main()
