"""Runs the queries of docs/export.md on the exported history of an agent, with DuckDB and pandas.

Usage: walk.py, with SONGLINE_BIN as the program.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile

import duckdb
import pandas

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from agents import Agent, wait_for  # noqa: E402

PAGE = os.path.join(HERE, "..", "..", "..", "docs", "export.md")


def blocks(language):
    """The code blocks of the page in a language."""
    with open(PAGE, encoding="utf-8") as page:
        return re.findall(rf"```{language}\n(.*?)```", page.read(), re.S)


def job(name, config):
    """A batch job with one task of the mock driver, which is not tried again."""
    task = {"Name": "t", "Driver": "mock_driver", "Config": config}
    never = {"Attempts": 0, "Mode": "fail"}
    group = {"Name": "g", "Tasks": [task], "RestartPolicy": never, "ReschedulePolicy": {"Attempts": 0, "Unlimited": False}}
    return {"Job": {"ID": name, "Type": "batch", "Priority": 70, "TaskGroups": [group]}}


def make_history(agent):
    """A job that runs and one whose allocation fails."""
    agent.ask("PUT", "/v1/jobs", job("web", {"run_for": "1h"}))
    agent.ask("PUT", "/v1/jobs", job("broken", {"run_for": "1ms", "exit_code": 1}))

    def status(name):
        return [alloc["ClientStatus"] for alloc in agent.ask("GET", f"/v1/job/{name}/allocations")]

    wait_for("a running allocation", lambda: status("web") == ["running"])
    wait_for("a failed allocation", lambda: status("broken") == ["failed"])


def export(agent, work, form):
    """Exports all events, and returns the rows of the files if they are JSON lines."""
    directory = os.path.join(work, "history" if form == "parquet" else "lines")
    address = f"-address=http://127.0.0.1:{agent.port}"
    command = [os.environ["SONGLINE_BIN"], "history", "export", address, "-namespace=*", f"-format={form}", directory]
    subprocess.run(command, check=True)
    rows = []
    for folder, _, names in os.walk(directory):
        for name in names:
            if name.endswith(".jsonl"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    rows += [json.loads(line) for line in file]
    return rows


def check_duckdb(rows):
    """The queries of the page, and that both formats have all rows."""
    failed, seconds, priorities = blocks("sql")[0].split(";")[:3]
    days = {row["time"][:10] for row in rows if row["client_status"] == "failed"}
    found = duckdb.sql(failed).fetchall()
    assert [(str(day), name, count) for day, name, count in found] == [(day, "broken", 1) for day in sorted(days)], found
    ran = dict(duckdb.sql(seconds).fetchall())
    assert ran["web"] is not None and 0 <= ran["web"] <= 60, ran
    assert set(duckdb.sql(priorities).fetchall()) == {("web", "70"), ("broken", "70")}
    last = max(row["index"] for row in rows)
    count = "SELECT count(*), count(DISTINCT topic) FROM '{}' WHERE index <= {}"
    expected = (len(rows), len({row["topic"] for row in rows}))
    for files in ("history/**/*.parquet", "lines/**/*.jsonl"):
        found = duckdb.sql(count.format(files, last)).fetchall()[0]
        assert found == expected, (files, found, expected)


def check_pandas():
    """The program of the page, and the types of columns."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(blocks("python")[0], {})  # pylint: disable=exec-used
    assert re.search(r"broken\s+failed\s+1\b", printed.getvalue()), printed.getvalue()
    types = pandas.read_parquet("history").dtypes.astype(str)
    assert types["index"] == "uint64" and types["time"] == "datetime64[us, UTC]" and types["deleted"] == "bool", types


def main():
    """All of it."""
    agent = Agent()
    try:
        with tempfile.TemporaryDirectory() as work:
            make_history(agent)
            rows = export(agent, work, "jsonl")
            export(agent, work, "parquet")
            os.chdir(work)
            check_duckdb(rows)
            check_pandas()
            os.chdir(HERE)
    finally:
        agent.stop()
    print("== clients/analysis: the queries of docs/export.md pass with DuckDB", duckdb.__version__, "and pandas", pandas.__version__)


main()
