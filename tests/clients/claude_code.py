#!/usr/bin/env python3
"""Proves on the real Claude Code client that agent-sh works as its shell. See README.md beside this file.

The model is a scripted server on 127.0.0.1; the client runs in network and pid namespaces of its own, so
nothing reaches the network and nothing outlives the test. The checks run inside the namespaces.
"""

import json
import os
import queue
import re
import subprocess
import sys
import time

import claude_code_wake
import kit
from kit import SOON, Broken, environment, until
from messages_api import Model

PACKAGE = "@anthropic-ai/claude-code"
# The newest client that the test was seen to pass with; `--client-version latest` tries what is new.
VERSION = "2.1.325"

RUN_LIMIT = 300  # seconds for everything in the namespaces
START_LIMIT = 30  # seconds until the client's first request
TURN_LIMIT = 20  # seconds until a tool result is back
PROMPT = 10  # seconds a call may take that starts a background job

# name, command, whether the output can be read with `agent-sh logs`
FORMS = [
    ("ampersand", "./job ampersand & echo started", True),
    ("nohup", "nohup ./job nohup > /dev/null 2>&1 &", False),
    ("setsid", "setsid ./job setsid &", True),
    ("subshell", "(./job subshell &)", True),
    ("disown", "./job disown & disown", True),
]

# What the client stops: the first ends by TERM, the second only by the KILL that follows.
TASKS = [
    ("obedient", "./job inside & ./job obedient"),
    ("stubborn", "trap '' TERM; ./job stubborn"),
]

# Commands without a background job: the result must be the plain shell's.
SAME = [
    ("a heredoc", "cat <<'EOF'\nit's a \"heredoc\" with $HOME, `ticks` & more\n\n  end\nEOF"),
    ("an expanding heredoc", "cat <<EOF | tr a-z A-Z\n$((6 * 7)) it's $(echo 'in & out')\nEOF"),
    ("single quotes", "echo 'it'\"'\"'s' 'a & b' \"c 'd' &\" 'e\nf'"),
    ("a failure", "echo out; echo 'it'\\''s err' >&2; (exit 3)"),
    ("attended jobs", "(sleep 0.1; exit 5) & wait $!; echo \"it's $?\""),
    ("cd", "cd sub && pwd"),
    ("the directory after cd", "pwd; cd .."),
]

ANNOUNCED = re.compile(r"^\[agent-sh\] job (\w+) is still running in the background: (.*) \(pid (\d+)\)\.", re.M)


# ------------------------------------------------------------------------------------ the client


class Client:
    """A conversation with the client in which the test itself is the model: each `call` is one turn."""

    def __init__(self, run, program, shell, title):
        self.title, self.count = title, 0
        self.model = Model()
        self.log = open(f"{run}/client-{title}.log", "w+b")
        env = dict(
            environment(run), SHELL=shell, CLAUDE_CODE_SHELL=shell,
            ANTHROPIC_BASE_URL=f"http://127.0.0.1:{self.model.server_port}", ANTHROPIC_API_KEY="none",
            # It is root's, and asks nobody: that is for a sandbox, and the namespaces are one.
            IS_SANDBOX="1", CLAUDE_CODE_TMPDIR=f"{run}/tmp", DISABLE_TELEMETRY="1", DISABLE_AUTOUPDATER="1",
            DISABLE_ERROR_REPORTING="1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        )
        args = [program, "-p", "go", "--dangerously-skip-permissions", "--output-format", "stream-json", "--verbose"]
        self.process = subprocess.Popen(
            args, cwd=f"{run}/cwd", env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.next_request(START_LIMIT)

    def next_request(self, limit):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            try:
                return self.model.requests.get(timeout=0.2)
            except queue.Empty:
                if self.process.poll() is not None:
                    break
        raise Broken(f"the client ({self.title}) sent no request within {limit} s; its output: {self.tail()}")

    def tail(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-2000:]

    def call(self, tool, **arguments):
        """Has the client use a tool; (text, is_error, seconds)."""
        self.count += 1
        self.model.awaited = f"toolu_{self.title}_{self.count}"
        began = time.monotonic()
        self.model.answers.put(
            [{"type": "tool_use", "id": self.model.awaited, "name": tool, "input": arguments}]
        )
        text, error = self.next_request(TURN_LIMIT)
        return text, error, time.monotonic() - began

    def bash(self, command, **more):
        return self.call("Bash", command=command, description="a step of the test", **more)

    def finish(self):
        self.model.over = True
        self.model.answers.put([{"type": "text", "text": "done"}])
        try:
            return self.process.wait(TURN_LIMIT)
        except subprocess.TimeoutExpired:
            return f"still there after {TURN_LIMIT} s"

    def end(self):
        """Whatever happened, the client is gone afterwards."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.model.shutdown()
        self.model.server_close()
        self.log.close()


# ------------------------------------------------------------------------------------ the checks


class Test(kit.Jobs):
    def __init__(self, run, program, checks):
        super().__init__(run, checks)
        self.program = program
        self.pids, self.ids = {}, {}

    def all_alive(self, when):
        dead = [name for name, *_ in FORMS if not self.alive(name)]
        self.checks.same(dead, [], f"every job is alive {when}")
        states = {job: found["state"] for job, found in self.listed("-a", "-A").items()}
        found = {name: states.get(self.ids.get(name)) for name, *_ in FORMS}
        self.checks.same(found, dict.fromkeys(found, "running"), f"every job is listed as running {when}")

    def foreground(self, client):
        return [client.bash(command)[:2] for _, command in SAME]

    def start_jobs(self, client):
        for name, command, _ in FORMS:
            text, error, took = client.bash(command)
            self.checks.that(not error and took < PROMPT, f"{name}: the call returned", f"after {took:.1f} s: {text!r}")
            self.pids[name] = self.started(name)
            found = ANNOUNCED.findall(text)
            good = len(found) == 1 and f"./job {name}" in found[0][1] and int(found[0][2]) == self.pids[name]
            if self.checks.that(good, f"{name}: the job is announced", f"pid {self.pids[name]}, {text!r}"):
                self.ids[name] = found[0][0]

    def sessions(self, session):
        listed = self.listed("--session", session)
        self.checks.same(len(listed), len(FORMS), "the session has as many jobs as were started")
        for name, *_ in FORMS:
            wanted = {"state": "running", "session": session, "harness": "claude-code", "pid": self.pids[name]}
            job = listed.get(self.ids.get(name), {})
            found = {key: job.get(key) for key in wanted}
            self.checks.same(found, wanted, f"{name}: listed as running, under the client's session")

    def stop_tasks(self, client):
        """The client kills background tasks of its own; the jobs are none of these."""
        client.call("ToolSearch", query="select:TaskStop")
        for name, command in TASKS:
            text, error, _ = client.bash(command, run_in_background=True)
            task = re.search(r"background with ID: (\w+)", text)
            if error or not task:
                raise Broken(f"no background task: {text!r}")
            self.pids[name] = self.started(name)
            if name == "obedient":
                self.pids["inside"] = self.started("inside")
            text, error, _ = client.call("TaskStop", task_id=task[1])
            self.checks.that(not error, f"{name}: the client stopped this background task", text)
            gone = until(lambda: not self.alive(name))
            self.checks.that(gone, f"{name}: what it ran in the foreground is gone")
        self.checks.that(self.alive("inside"), "inside: a job that a stopped task had started is alive")
        inside = [job for job, found in self.listed("-a", "-A").items() if found["pid"] == self.pids["inside"]]
        if self.checks.same(len(inside), 1, "inside: it is listed once"):
            self.ids["inside"] = inside[0]

        def killed():
            data = [record["data"] for record in self.records() if record["data"]["how"] == "foreground"]
            return sorted((record["state"], record["signal"], record["harness"]) for record in data)

        until(lambda: len(killed()) >= len(TASKS))
        wanted = [("signaled", number, "claude-code") for number in (9, 15)]
        self.checks.same(killed(), wanted, "each stopped task has one record, with the signal")
        self.all_alive("after the client stopped other tasks")

    def endings(self):
        """Every job is let go and ends by itself, with its own exit code."""
        redirected = [name for name, _, readable in FORMS if not readable]
        for name in [name for name, *_ in FORMS] + ["inside"]:
            job = self.ids.get(name)
            let_go = self.alive(name) and self.release(name)
            if not self.checks.that(job and let_go, f"{name}: lives until it is let go", f"job {job}"):
                continue
            done = self.verb("wait", job, "--json", "--timeout", f"{SOON}s")
            self.checks.same(done.returncode, 37, f"{name}: wait gives its exit code")
            records = [record for record in self.records() if record["data"]["job"] == job]
            found = [(record["data"]["state"], record["data"]["exit_code"]) for record in records]
            self.checks.same(found, [("exited", 37)], f"{name}: one record, with its exit code")
            try:
                printed = [json.loads(line) for line in done.stdout.splitlines()]
            except ValueError:
                printed = done.stdout
            self.checks.same(printed, records, f"{name}: wait prints that record")
            if name not in redirected:
                self.checks.same(self.verb("logs", job).stdout, f"late {name}\n", f"{name}: its output is kept")
        jobs = [found for found in self.listed("-a", "-A").values() if found["how"] != "foreground"]
        found = sorted((job["id"], job["state"]) for job in jobs)
        wanted = sorted((job, "exited") for job in self.ids.values())
        self.checks.same(found, wanted, "all jobs have ended, and there are no others")

    def all(self):
        client = Client(self.run, self.program, "/bin/bash", "plain")
        try:
            plain = self.foreground(client)
            failed = [name for (name, _), (_, error) in zip(SAME, plain) if error]
            self.checks.same(failed, ["a failure"], "the plain shell ran the commands")
            self.checks.same(client.finish(), 0, "the client ends well with the plain shell")
        finally:
            client.end()
        client = Client(self.run, self.program, f"{self.run}/bin/agent-sh-bash", "agent-sh")
        try:
            for (name, _), found, wanted in zip(SAME, self.foreground(client), plain):
                self.checks.same(found, wanted, f"{name}: the result is the plain shell's")
            session = client.bash("echo $CLAUDE_CODE_SESSION_ID")[0].strip()
            self.checks.that(re.fullmatch(r"[0-9a-f-]{36}", session), "the client names its session", session)
            self.start_jobs(client)
            self.sessions(session)
            self.stop_tasks(client)
            self.checks.same(client.finish(), 0, "the client ends well with agent-sh")
        finally:
            client.end()
        self.all_alive("after the client's exit")
        self.endings()
        self.nothing_left()


def install(version):
    """The client's program, installed if it is not there yet."""
    home, version = kit.npm_package(PACKAGE, "claude-code", version)
    package = f"{home}/node_modules/{PACKAGE}"
    claude_code_wake.install_sdk()
    return kit.large_program([f"{package}/bin/claude*", f"{package}-*/claude"]), version


def test(run, program, checks):
    shell = Test(run, program, checks)
    shell.gate(*[name for name, *_ in FORMS + TASKS], "inside")
    shell.all()
    claude_code_wake.test(run, program, checks)


if __name__ == "__main__":
    sys.exit(kit.main(__file__, "Claude Code", VERSION, install, test, RUN_LIMIT))
