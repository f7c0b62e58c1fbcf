"""Claude Code is told of the end of its jobs, once, wherever the session is: part of claude_code.py."""

import fcntl
import glob
import json
import os
import pty
import queue
import re
import signal
import struct
import subprocess
import sys
import termios
import threading

import kit
from kit import PROJECT, Broken, environment, until
from messages_api import Model, texts

SDK = "claude-agent-sdk"
SDK_VERSION = "0.2.182"
LIMIT = 30  # seconds until the client's next request
KEY = "sk-ant-none-000000000000000000000"


def sdk_home():
    return f"{kit.cache()}/{SDK}-{SDK_VERSION}"


def install_sdk():
    def make(fresh):
        kit.call(sys.executable, "-m", "venv", fresh)
        kit.call(f"{fresh}/bin/python", "-m", "pip", "install", "-q", f"{SDK}=={SDK_VERSION}")

    kit.once(sdk_home(), make)


class Session:
    """A client in one of its modes, with the test as its model: `stream`, `print`, `tui` or `sdk`."""

    def __init__(self, run, program, mode, *args, env=None):
        self.run, self.mode = run, mode
        self.model = Model()
        self.model.whole = True
        self.bodies, self.results, self.name = [], queue.Queue(), None
        env = dict(
            environment(run), SHELL="/bin/bash", ANTHROPIC_API_KEY=KEY, IS_SANDBOX="1",
            ANTHROPIC_BASE_URL=f"http://127.0.0.1:{self.model.server_port}", CLAUDE_CODE_TMPDIR=f"{run}/tmp",
            DISABLE_TELEMETRY="1", DISABLE_AUTOUPDATER="1", DISABLE_ERROR_REPORTING="1",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", **(env or {}),
        )
        free = "--dangerously-skip-permissions"
        json_out = ["--output-format", "stream-json", "--verbose"]
        command = {
            "stream": [program, "-p", "--input-format", "stream-json", *json_out, free, *args],
            "print": [program, "-p", "go", *json_out, free, *args],
            "tui": [program, free, *args, "go"],
            "sdk": [f"{sdk_home()}/bin/python", f"{PROJECT}/shims/claude-code/sdk_client.py", "go"],
        }[mode]
        self.terminal = None
        if mode == "sdk":
            env.update(AGENT_SH=f"{run}/bin/agent-sh", CLAUDE_CLI=program, PERMISSION_MODE="bypassPermissions")
        if mode == "tui":
            env["TERM"] = "xterm-256color"
            self.terminal, follower = pty.openpty()
            fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 160, 0, 0))
            streams = {"stdin": follower, "stdout": follower, "stderr": follower}
        else:
            fed = mode == "stream"
            self.log = open(f"{run}/wake-{mode}.log", "ab")
            streams = {"stdin": subprocess.PIPE if fed else subprocess.DEVNULL, "stdout": subprocess.PIPE,
                       "stderr": self.log}

        def take_terminal():
            if mode == "tui":
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command, cwd=f"{run}/cwd", env=env, start_new_session=True, preexec_fn=take_terminal, **streams
        )
        if mode == "tui":
            os.close(follower)
        threading.Thread(target=self.read_terminal if mode == "tui" else self.read_lines, daemon=True).start()
        if mode == "stream":
            self.say("go")

    def read_terminal(self):
        answers = ((b"\x1b[c", b"\x1b[?62;c"), (b"\x1b[>0q", b"\x1bP>|xterm(390)\x1b\\"), (b"\x1b[6n", b"\x1b[1;1R"))
        while True:
            try:
                data = os.read(self.terminal, 65536)
            except OSError:
                return
            for question, answer in answers:
                if question in data:
                    os.write(self.terminal, answer)

    def read_lines(self):
        for line in self.process.stdout:
            self.log.write(line)
            self.log.flush()
            if self.mode == "sdk":
                if line.strip() == b"-- idle --":
                    self.results.put(line)
                continue
            try:
                message = json.loads(line)
            except ValueError:
                continue
            self.name = message.get("session_id") or self.name
            if message.get("type") == "result":
                self.results.put(message)

    def say(self, text):
        if self.mode == "tui":
            os.write(self.terminal, text.encode() + b"\r")
            return
        message = {"type": "user", "message": {"role": "user", "content": text}}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def asked(self):
        """The next request to the model."""
        try:
            self.bodies.append(self.model.requests.get(timeout=LIMIT))
        except queue.Empty:
            raise Broken(f"the client ({self.mode}) sent no request within {LIMIT} s") from None
        return self.bodies[-1]

    def bash(self, command):
        """Has the client run a command, and gives the request that brings its result."""
        self.tell_to_run(command)
        return self.asked()

    def tell_to_run(self, command):
        call = {"type": "tool_use", "id": f"toolu_{len(self.bodies)}", "name": "Bash",
                "input": {"command": command, "description": "a step of the test"}}
        self.model.answers.put([call])

    def answer(self, text):
        self.model.answers.put([{"type": "text", "text": text}])

    def idle(self):
        """Waits until the turn is over."""
        if self.mode == "tui":
            def said():
                for path in glob.glob(f"{self.run}/home/.claude/sessions/*.json"):
                    try:
                        with open(path) as file:
                            return json.load(file).get("status") == "idle"
                    except (OSError, ValueError):
                        pass
                return False
            if not until(said, LIMIT):
                raise Broken("the TUI never became idle")
            return
        try:
            self.results.get(timeout=LIMIT)
        except queue.Empty:
            raise Broken(f"the turn ({self.mode}) never ended") from None

    def end(self):
        """Ends it the way its user would, and gives the exit code."""
        if self.mode == "stream":
            self.process.stdin.close()
        elif self.mode == "tui":
            for _ in range(6):
                os.write(self.terminal, b"\x03")
                if until(lambda: self.process.poll() is not None, 0.4):
                    break
        elif self.mode == "sdk":
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            return f"still there after {LIMIT} s"

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.model.over = True
        self.model.shutdown()
        self.model.server_close()


def notices(body, job):
    """How often the end of a job is told in a conversation."""
    return sum(text.count(f"Background job {job} finished: exit 37") for text in texts(body))


class Wake(kit.Jobs):
    def __init__(self, run, program, checks):
        super().__init__(run, checks)
        self.program = program

    def session(self, mode, *args, **more):
        return Session(self.run, self.program, mode, *args, **more)

    def start_job(self, session, *names):
        """The first turn: jobs are started, and the call returns at once."""
        session.asked()
        self.gate(*names)
        body = session.bash("".join(f"./job {name} & " for name in names) + "echo started")
        jobs = [self.id_of(name) for name in names]
        told = "\n".join(texts(body))
        for job in jobs:
            self.checks.that(f"[agent-sh] job {job} is still running" in told, f"{names[0]}: the job is announced", told)
        return jobs

    def idle_session(self, mode):
        """Turn, idle, the job ends, a new turn: once."""
        session = self.session(mode)
        try:
            name = f"idle-{mode}"
            [job] = self.start_job(session, name)
            session.answer("turn over")
            if mode != "print":
                session.idle()
            self.checks.that(self.release(name), f"{mode}: the job lives while the session is idle")
            body = session.asked()
            self.checks.same(notices(body, job), 1, f"{mode}: the end of the job starts a turn with the notice")
            self.checks.that(f"late {name}" in "\n".join(texts(body)), f"{mode}: the notice has the output's end")
            session.answer("woken")
            if mode in ("stream", "tui"):
                session.idle()
                session.say("and now?")
                body = session.asked()
                self.checks.same(notices(body, job), 1, f"{mode}: it is not told again in the next turn")
                session.answer("nothing")
                session.idle()
            elif mode == "sdk":
                session.idle()
            code = session.end()
            if mode != "sdk":
                self.checks.same(code, 0, f"{mode}: the client ends well, nothing holds it")
        finally:
            session.kill()
        self.nothing_left(f"{mode}: no waiter stays behind")

    def two_at_once(self):
        session = self.session("stream")
        try:
            jobs = self.start_job(session, "two-a", "two-b")
            session.answer("turn over")
            session.idle()
            self.release("two-a")
            self.release("two-b")
            told = []
            while len(told) < 2:
                body = session.asked()
                told = [job for job in jobs if notices(body, job)]
                session.answer("woken")
                session.idle()
            session.say("and now?")
            body = session.asked()
            self.checks.same([notices(body, job) for job in jobs], [1, 1], "two jobs at once: both told, once each")
            session.answer("nothing")
            session.end()
        finally:
            session.kill()
        self.nothing_left("two jobs at once: no waiter stays behind")

    def killed_and_resumed(self):
        session = self.session("stream")
        try:
            ended, running = self.start_job(session, "gone", "stays")
            session.answer("turn over")
            session.idle()
            session.process.kill()
            session.process.wait()
        finally:
            session.kill()
        self.checks.that(self.alive("gone") and self.alive("stays"), "killed client: its jobs live")
        self.release("gone")
        self.recorded(ended)
        resumed = self.session("stream", "--resume", session.name)
        try:
            body = resumed.asked()
            self.checks.same(notices(body, ended), 1, "killed client, resumed: told at the start of the session")
            told = "\n".join(texts(body))
            self.checks.that(
                "1 background job of this session is still running" in told and f"- {running} " in told,
                "killed client, resumed: what still runs is listed", told[-2000:],
            )
            resumed.answer("I see")
            resumed.idle()
            # Nothing was called since the start: the waiter of the start must be there.
            self.release("stays")
            body = resumed.asked()
            counts = [notices(body, job) for job in (ended, running)]
            self.checks.same(counts, [1, 1], "killed client, resumed: the other job's end starts a turn")
            resumed.answer("woken")
            resumed.idle()
            resumed.end()
        finally:
            resumed.kill()
        self.nothing_left("killed client, resumed: no waiter stays behind")

    def in_the_middle(self):
        session = self.session("stream")
        try:
            [job] = self.start_job(session, "mid")
            self.gate("busy")
            session.tell_to_run("./job busy; true")
            self.started("busy")
            self.release("mid")
            self.recorded(job)
            until(lambda: os.path.exists(self.told(job)))
            self.release("busy")
            body = session.asked()
            for _ in range(20):
                # The client hears of its hook's end when it comes to it; the turn goes on until then.
                if notices(body, job):
                    break
                body = session.bash("true")
            self.checks.same(notices(body, job), 1, "in the middle of a turn: told in that turn")
            self.checks.that(session.results.empty(), "in the middle of a turn: the turn was not over yet")
            session.answer("turn over")
            session.idle()
            session.end()
        finally:
            session.kill()
        self.nothing_left("in the middle of a turn: no waiter stays behind")

    def told(self, job):
        return f"{self.run}/home/.local/state/agent-sh/v1/jobs/{job}/told"

    def case_d(self):
        """The end of a session: its jobs stay by default, and go if the user wants that."""
        for policy, lives in (("keep", True), ("kill", False)):
            name = f"end-{policy}"
            session = self.session("stream", env={"AGENT_SH_SESSION_END": policy})
            try:
                [job] = self.start_job(session, name)
                session.answer("turn over")
                session.idle()
                self.checks.same(session.end(), 0, f"case D, {policy}: the client ends well")
            finally:
                session.kill()
            if lives:
                self.checks.that(self.alive(name), f"case D, {policy}: the job outlives its session")
                row = self.listed("--session", session.name).get(job, {})
                self.checks.same(row.get("state"), "running", f"case D, {policy}: any other process finds it")
                self.release(name)
            self.recorded(job)
            state = self.listed("-a", "-A")[job]["state"]
            self.checks.same(state, "exited" if lives else "signaled", f"case D, {policy}: one record says how it ended")
            self.nothing_left(f"case D, {policy}: nothing is left")


    def case_a(self):
        """One client process per turn, and the orchestrator is restarted in between: event files tell it."""
        events = f"{self.run}/events"
        os.mkdir(events)
        done = self.verb("notify", "add", f"dir:{events}", "--as", "orchestrator")
        self.checks.same(done.returncode, 0, "case A: the event-file route is one command")
        first = self.session("print", env={"AGENT_SH_STOP_WAIT": "0"})
        try:
            [job] = self.start_job(first, "turn-one")
            first.answer("turn over")
            self.checks.same(first.process.wait(LIMIT), 0, "case A: the turn's process has ended")
        finally:
            first.kill()
        self.checks.that(self.alive("turn-one"), "case A: the job outlives the turn's process")
        # Nothing of the orchestrator lives now; the job ends; then it starts again and looks at its directory.
        self.release("turn-one")
        self.recorded(job)
        event = f"{events}/{job}.exit.json"
        self.checks.that(until(lambda: os.path.exists(event)), "case A: an event file is there", os.listdir(events))
        self.checks.same(len(os.listdir(events)), 1, "case A: it is the only one")
        with open(event) as file:
            data = json.load(file)["data"]
        found = (data["exit_code"], data["session"], "late turn-one" in data["untrusted_output_tail"])
        self.checks.same(found, (37, first.name, True), "case A: it has exit code, session and output")
        second = self.session("print", "--resume", data["session"])
        try:
            body = second.asked()
            self.checks.same(notices(body, job), 1, "case A: the next turn, another process, is told, once")
            second.answer("I see")
            self.checks.same(second.process.wait(LIMIT), 0, "case A: and ends well")
        finally:
            second.kill()
        self.verb("notify", "remove", "orchestrator")
        self.nothing_left("case A: nothing is left")

    def case_b(self):
        """The phantom "running": the client dies, then the jobs do, and no line of the transcript says so."""
        session = self.session("stream")
        try:
            lives, dies = self.start_job(session, "quiet", "phantom")
            session.answer("turn over")
            session.idle()
        finally:
            session.kill()
        row = self.listed("-a", "-A")[dies]
        os.kill(row["pid"], signal.SIGKILL)
        self.recorded(dies)
        [path] = glob.glob(f"{self.run}/home/.claude/projects/*/{session.name}.jsonl")

        def reconciled():
            done = subprocess.run(
                [sys.executable, f"{PROJECT}/shims/claude-code/reconcile.py", path], capture_output=True, text=True,
                env=dict(environment(self.run), AGENT_SH=self.agent_sh), check=True,
            )
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            return {row["id"]: row["state"] for row in rows}

        wanted = {lives: "running", dies: "signaled"}
        self.checks.same(reconciled(), wanted, "case B: a quiet job is alive and a dead one is dead, whatever the transcript says")
        self.release("quiet")
        self.recorded(lives)
        self.checks.same(reconciled(), {lives: "exited", dies: "signaled"}, "case B: every job ends in a record")
        self.nothing_left("case B: nothing is left")

    def ended_session(self):
        """A session that has ended is resumed, if the user allows it; one that is open never is."""
        name = os.path.basename(self.program)
        os.symlink(self.program, f"{self.run}/bin/claude")
        allowed = {"AGENT_SH_RESUME": "1", "PATH": f"{self.run}/bin:{environment(self.run)['PATH']}"}
        self.checks.same(self.verb("notify", "add", "claude-code").returncode, 0, "resume: a standing subscription")
        session = self.session("stream", env=allowed)
        try:
            open_job, job = self.start_job(session, "while-open", "after-end")
            session.answer("turn over")
            session.idle()
            self.release("while-open")
            body = session.asked()
            self.checks.same(notices(body, open_job), 1, "resume: an open session is told by its hook")
            session.answer("woken")
            session.idle()
            self.checks.same(session.end(), 0, "resume: the client ends well")
            self.release("after-end")
            body = session.asked()
            counts = [notices(body, each) for each in (open_job, job)]
            self.checks.same(counts, [1, 1], "resume: the ended session goes on, in a client of its own, with the notice")
            session.answer("woken again")
            self.nothing_left(f"resume: the client ({name}) has left again, and nothing with it")
        finally:
            session.kill()
        jobs = [row for row in self.listed("-a", "-A").values() if "--resume" in row["command"]]
        self.checks.same(jobs, [], "resume: it is no job itself")
        self.verb("notify", "remove", "claude-code")


def seed(run):
    """What the TUI would ask a new user."""
    known = {
        "hasCompletedOnboarding": True, "theme": "dark", "lastOnboardingVersion": "99.0.0",
        "bypassPermissionsModeAccepted": True, "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {f"{run}/cwd": {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True,
                                    "allowedTools": []}},
    }
    with open(f"{run}/home/.claude.json", "w") as file:
        json.dump(known, file)


def test(run, program, checks):
    wake = Wake(run, program, checks)
    seed(run)
    before = {"model": "opus", "permissions": {"allow": []}}
    os.makedirs(f"{run}/home/.claude", exist_ok=True)
    path = f"{run}/home/.claude/settings.json"
    old = json.dumps(before, indent=3)
    with open(path, "w") as file:
        file.write(old)
    wake.verb("setup", "claude-code")
    wake.verb("setup", "claude-code", "--undo")
    with open(path) as file:
        checks.same(file.read(), old, "setup claude-code --undo: the file is as it was, byte for byte")
    done = wake.verb("setup", "claude-code")
    checks.same(done.returncode, 0, "setup claude-code")
    checks.that("nothing to change" in wake.verb("setup", "claude-code").stderr, "setup claude-code, again: nothing")
    for mode in ("stream", "print", "tui", "sdk"):
        wake.idle_session(mode)
    wake.two_at_once()
    wake.killed_and_resumed()
    wake.in_the_middle()
    wake.case_a()
    wake.case_b()
    wake.case_d()
    wake.ended_session()
    # The client has written to the file itself since.
    wake.verb("setup", "claude-code", "--undo")
    with open(path) as file:
        left = json.load(file)
    checks.that("hooks" not in left and "env" not in left and left.get("model") == "opus",
                "setup claude-code --undo: of an edited file only our parts leave", left)
