#!/usr/bin/env python3
"""Proves on the real Claude Code client that agent-sh works as its shell. See README.md beside this file.

The model is a scripted server on 127.0.0.1; the client runs in network and pid namespaces of its own, so
nothing reaches the network and nothing outlives the test. The checks run inside the namespaces.
"""

import argparse
import fcntl
import glob
import http.server
import json
import os
import queue
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

PACKAGE = "@anthropic-ai/claude-code"
# The newest client that the test was seen to pass with; `--client-version latest` tries what is new.
VERSION = "2.1.325"
HERE = os.path.abspath(__file__)
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))

INSTALL_LIMIT = 80  # seconds for npm
RUN_LIMIT = 75  # seconds for everything in the namespaces
START_LIMIT = 30  # seconds until the client's first request
TURN_LIMIT = 20  # seconds until a tool result is back
PROMPT = 10  # seconds a call may take that starts a background job
SOON = 10  # seconds for what should happen at once

# What a job of the test does: says its pid, waits until its FIFO is written to, speaks, ends.
JOB = """#!/bin/sh
echo $$ > "$1.pid"
read -r go < "$1.fifo"
echo "late $1"
exit 37
"""

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


class Broken(Exception):
    """The test cannot go on."""


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def that(self, good, what, detail=""):
        if good:
            self.passed += 1
            print(f"ok {what}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED {what}" + (f": {detail}" if detail != "" else ""), flush=True)
        return good

    def same(self, found, wanted, what):
        return self.that(found == wanted, what, f"{found!r}, not {wanted!r}")


def until(condition, limit=SOON):
    """The first true value of the condition, or its last one when the time is over."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.02)


# ------------------------------------------------------------------------------------ the scripted model


class Model(http.server.ThreadingHTTPServer):
    """Answers the Messages API with what `answers` holds. Only requests that offer the Bash tool are turns
    of the conversation; the client's others (titles, token counts, ...) get a harmless answer."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests, self.answers = queue.Queue(), queue.Queue()
        self.awaited = None  # id of the tool call whose result the next turn must bring
        self.over = False
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, body):
        if not any(tool.get("name") == "Bash" for tool in body.get("tools") or []):
            return [{"type": "text", "text": "{}"}]
        with self.lock:
            result = None if self.awaited is None else find_result(body, self.awaited)
            if self.over or (self.awaited is not None and result is None):
                return [{"type": "text", "text": "done"}]
            self.requests.put(result)
            return self.answers.get()


def find_result(body, call):
    """(text, is_error) of a tool call, from the conversation so far."""
    for message in body["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        for block in blocks:
            if block.get("type") == "tool_result" and block.get("tool_use_id") == call:
                content = block.get("content") or ""
                if isinstance(content, list):
                    content = "\n".join(part.get("text", "") for part in content)
                return content, bool(block.get("is_error"))
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, kind, data):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_HEAD(self):
        self.reply("application/json", b"")

    def do_GET(self):
        self.reply("application/json", b"{}")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        if not self.path.split("?")[0].endswith("/messages"):
            return self.reply("application/json", b'{"input_tokens": 1}')
        blocks = self.server.answer(body)
        stop = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
        message = {
            "id": f"msg_{time.monotonic_ns()}", "type": "message", "role": "assistant",
            "model": body.get("model", "scripted"), "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if not body.get("stream"):
            data = json.dumps(dict(message, content=blocks, stop_reason=stop))
            return self.reply("application/json", data.encode())
        events = [{"type": "message_start", "message": dict(message, content=[], stop_reason=None)}]
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                empty, delta = dict(block, text=""), {"type": "text_delta", "text": block["text"]}
            else:
                empty = dict(block, input={})
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            events += [
                {"type": "content_block_start", "index": index, "content_block": empty},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        ending = {"stop_reason": stop, "stop_sequence": None}
        events += [
            {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.reply("text/event-stream", text.encode())


# ------------------------------------------------------------------------------------ the client


def environment(run):
    """Nothing of the caller's: what is set here and in Client is all that the client and agent-sh see."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": f"{run}/home", "TMPDIR": f"{run}/tmp", "LANG": "C.UTF-8", "TERM": "dumb", "USER": "root",
    }


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


class Test:
    def __init__(self, run, program):
        self.run, self.program = run, program
        self.agent_sh = f"{run}/bin/agent-sh"
        self.checks = Checks()
        self.pids, self.ids = {}, {}

    def verb(self, *args):
        return subprocess.run(
            [self.agent_sh, *args], env=environment(self.run), cwd=f"{self.run}/cwd", stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=2 * SOON,
        )

    def listed(self, *args):
        """Jobs that `ps` lists, by id."""
        done = self.verb("ps", "--json", *args)
        try:
            return {job["id"]: job for job in json.loads(done.stdout)}
        except (ValueError, TypeError, KeyError):
            raise Broken(f"agent-sh ps {args}: {done.stdout!r} {done.stderr!r}") from None

    def started(self, name):
        """The pid of a job of the test, once it says that it runs."""
        def said():
            try:
                with open(f"{self.run}/cwd/{name}.pid") as file:
                    return file.read().endswith("\n")
            except FileNotFoundError:
                return False
        if not until(said):
            raise Broken(f"'{name}' never started")
        with open(f"{self.run}/cwd/{name}.pid") as file:
            return int(file.read())

    def alive(self, name):
        """Whether the job's process is there and is still that job, not another with its number."""
        try:
            with open(f"/proc/{self.pids[name]}/cmdline", "rb") as file:
                return name.encode() in file.read().split(b"\0")
        except (OSError, KeyError):
            return False

    def all_alive(self, when):
        dead = [name for name, *_ in FORMS if not self.alive(name)]
        self.checks.same(dead, [], f"every job is alive {when}")
        states = {job: found["state"] for job, found in self.listed("-a", "-A").items()}
        found = {name: states.get(self.ids.get(name)) for name, *_ in FORMS}
        self.checks.same(found, dict.fromkeys(found, "running"), f"every job is listed as running {when}")

    def release(self, name):
        """Lets a job of the test end; whether there was one to let go."""
        try:
            gate = os.open(f"{self.run}/cwd/{name}.fifo", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads
            return False
        os.write(gate, b"go\n")
        os.close(gate)
        return True

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

    def records(self):
        """All terminal records in the store."""
        found = []
        for path in glob.glob(f"{self.run}/home/.local/state/agent-sh/**/exit.json", recursive=True):
            with open(path) as file:
                found.append(json.load(file))
        return found

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
        until(lambda: not processes())
        self.checks.same(processes(), {}, "no process is left")


def processes():
    """Everything in the namespace but this process and its init: pid -> command."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) not in (1, os.getpid()):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    found[int(pid)] = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
            except OSError:
                pass
    return found


def time_over(*_):
    raise Broken(f"not done after {RUN_LIMIT} s")


def inside(run, program):
    """In the namespaces, as their init: collects orphans, and ends with the test, which runs in a child."""
    child = os.fork()
    if child:
        while True:
            pid, status = os.wait()
            if pid == child:
                return os.waitstatus_to_exitcode(status)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        up = struct.pack("16sh22x", b"lo", 0x1 | 0x40)  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS
    signal.signal(signal.SIGALRM, time_over)
    signal.alarm(RUN_LIMIT)
    test = Test(run, program)
    try:
        test.all()
    except Broken as error:
        test.checks.that(False, "the test came to its end", error)
    except Exception:
        test.checks.that(False, "the test came to its end", traceback.format_exc())
    print(f"{test.checks.passed} passed, {test.checks.failed} failed", flush=True)
    os._exit(1 if test.checks.failed else 0)


# ------------------------------------------------------------------------------------ outside


class Skip(Exception):
    """The test cannot be run here."""


def agent_sh(given):
    """The program to test: the one given, else the one built last."""
    target = os.environ.get("CARGO_TARGET_DIR") or f"{PROJECT}/target"
    built = [f"{target}/{profile}/agent-sh" for profile in ("debug", "release")]
    found = [given] if given else sorted(filter(os.path.exists, built), key=os.path.getmtime)
    if not found:
        raise Skip("agent-sh is not built: cargo build")
    if not os.access(found[-1], os.X_OK):
        sys.exit(f"cannot run {found[-1]}")
    return os.path.realpath(found[-1])


def check_machine():
    if os.geteuid() != 0:
        raise Skip("needs root, for namespaces")
    for program in ("unshare", "npm"):
        if not shutil.which(program):
            raise Skip(f"needs {program}")
    done = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True)
    if done.returncode != 0:
        raise Skip(f"no namespaces here: {done.stderr.strip()}")


NAMESPACES = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "--"]


def npm(*args):
    try:
        done = subprocess.run(
            ["npm", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_LIMIT
        )
    except subprocess.TimeoutExpired:
        raise Skip(f"npm {args[0]} took longer than {INSTALL_LIMIT} s") from None
    if done.returncode != 0:
        raise Skip(f"npm {args[0]} failed: {' '.join(done.stderr.split())[-500:]}")
    return done.stdout.strip()


def install(version):
    """The client's program, installed if it is not there yet."""
    cache = os.environ.get("AGENT_SH_CLIENTS") or f"{tempfile.gettempdir()}/agent-sh-clients-{os.geteuid()}"
    cache = os.path.abspath(cache)
    os.makedirs(cache, mode=0o700, exist_ok=True)
    if os.stat(cache).st_uid != os.geteuid():
        raise Skip(f"{cache} belongs to somebody else")
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        version = npm("view", f"{PACKAGE}@{version}", "version")
    home = f"{cache}/claude-code-{version}"
    if not os.path.exists(home):
        fresh = tempfile.mkdtemp(prefix="install-", dir=cache)
        try:
            npm("install", "--prefix", fresh, "--no-fund", "--no-audit", f"{PACKAGE}@{version}")
            os.rename(fresh, home)
        except OSError:  # another run was faster
            if not os.path.exists(home):
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    # The package's own program is a small text until its install script has put the real one in its place,
    # and npm may be set not to run such scripts.
    package = f"{home}/node_modules/{PACKAGE}"
    found = glob.glob(f"{package}/bin/claude*") + glob.glob(f"{package}-*/claude")
    found = [path for path in found if os.access(path, os.X_OK) and os.path.getsize(path) > 1 << 20]
    if not found:
        raise Skip(f"no program for this machine in {home}")
    return found[0], version


def lay_out(run, program):
    for name in ("bin", "home", "tmp", "cwd", "cwd/sub"):
        os.mkdir(f"{run}/{name}")
    for name in ("agent-sh", "agent-sh-bash"):
        os.symlink(program, f"{run}/bin/{name}")
    with open(f"{run}/cwd/job", "w") as file:
        file.write(JOB)
    os.chmod(f"{run}/cwd/job", 0o755)
    for name in [name for name, *_ in FORMS + TASKS] + ["inside"]:
        os.mkfifo(f"{run}/cwd/{name}.fifo")


def outside(options):
    program = agent_sh(options.agent_sh)
    check_machine()
    client, version = install(options.client_version)
    run = os.path.realpath(tempfile.mkdtemp(prefix="agent-sh-client-"))
    print(f"agent-sh: {program}\nclient: Claude Code {version}", flush=True)
    try:
        lay_out(run, program)
        inner = subprocess.Popen([*NAMESPACES, sys.executable, HERE, "--inside", run, client])
        try:
            return inner.wait(RUN_LIMIT + 2 * SOON)
        except subprocess.TimeoutExpired:
            print("FAILED the test came to its end: it hangs", flush=True)
            return 1
        finally:
            inner.kill()  # and with it all that is in the namespaces
            inner.wait()
    finally:
        if options.keep:
            print(f"kept: {run}", file=sys.stderr)
        else:
            shutil.rmtree(run, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description="Proves that agent-sh works as the shell of Claude Code.")
    parser.add_argument("--strict", action="store_true", help="fail where the test would be skipped")
    parser.add_argument("--agent-sh", metavar="PATH", help="the program to test; else the one that cargo built last")
    parser.add_argument("--client-version", metavar="V", default=VERSION, help="of the npm package (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the directory of the run, to look at")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(*options.inside)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by way of what cleans up
    try:
        return outside(options)
    except Skip as reason:
        print(f"SKIPPED: {reason}", flush=True)
        return 1 if options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
