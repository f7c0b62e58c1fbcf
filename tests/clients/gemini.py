#!/usr/bin/env python3
"""Proves on the real Gemini CLI that agent-sh works as its shell and tells it of its jobs. See README.md beside this file."""

import fcntl
import glob
import json
import os
import pty
import queue
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

import kit
from kit import SOON, Broken, environment, until
from scripted import Scripted

PACKAGE = "@google/gemini-cli"
VERSION = "0.61.0"
RUN_LIMIT = 400
PROMPT = 20  # seconds a call may take that starts a background job; without us it takes as long as the job
TOOL = "run_shell_command"


def install(version):
    if not shutil.which("node"):
        raise kit.Skip("needs node")
    home, version = kit.npm_package(PACKAGE, "gemini", version)
    return f"{home}/node_modules/.bin/gemini", version


class Gemini(Scripted):
    """Google's generateContent, as Gemini CLI speaks it."""

    def is_turn(self, path, body):
        tools = [tool.get("functionDeclarations") or [] for tool in body.get("tools") or []]
        offered = [function.get("name") for functions in tools for function in functions]
        return "generatecontent" in path.lower() and TOOL in offered

    def texts(self, body):
        found = []
        for content in body.get("contents") or []:
            for part in content.get("parts") or []:
                if "functionResponse" in part:
                    found.append(json.dumps(part["functionResponse"].get("response"), ensure_ascii=False))
                elif "text" in part and content.get("role") == "user":
                    found.append(part["text"])
        return found

    def stub(self, handler, path, body):
        if "generatecontent" in path.lower():
            return self.write(handler, body, {"text": "{}"})
        return handler.reply_json({"totalTokens": 1})

    def write(self, handler, body, answer):
        if "command" in answer:
            arguments = {"command": answer["command"], "description": "a step of the test", **answer["more"]}
            part = {"functionCall": {"id": f"call_{self.count}", "name": TOOL, "args": arguments}}
        else:
            part = {"text": answer["text"]}
        value = {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
            "modelVersion": "scripted",
        }
        if "stream" in handler.path:
            return handler.reply_events([(None, value)])
        return handler.reply_json(value)


# As a user may have written it: with a comment, not as a program would set it, and with a hook of his own, which
# tells us when a turn is over.
SETTINGS = """{
  // mine
  "general": { "enableAutoUpdate": false, "checkpointing": { "enabled": false } },
  "privacy": { "usageStatisticsEnabled": false },   "telemetry": { "enabled": false },
  "ui": { "hideTips": true }, "ide": { "hasSeenNudge": true }, "tools": { "allowed": ["run_shell_command"] },
  "hooks": { "AfterAgent": [ { "hooks": [ { "type": "command", "command": "echo over >> $HOME/turns" } ] } ] },
  "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } }
}"""


class Client:
    """`gemini` for one prompt (`print`), in its TUI, or spoken to by a program (`acp`)."""

    def __init__(self, test, mode, *args, **more):
        self.mode, self.terminal = mode, None
        env = dict(
            environment(test.run), SHELL="/bin/bash", PATH=test.path, GEMINI_API_KEY="none",
            GOOGLE_GEMINI_BASE_URL=test.model.url, GEMINI_CLI_TRUST_WORKSPACE="true", GEMINI_TELEMETRY_ENABLED="false",
            **more,
        )
        command = [test.program, "--yolo", "-m", "gemini-2.5-pro", *args]
        self.log = open(f"{test.run}/gemini-{mode}.log", "ab")
        streams = {"stdin": subprocess.DEVNULL, "stdout": self.log, "stderr": subprocess.STDOUT}
        if mode == "print":
            command += ["--output-format", "stream-json", "-p", "go"]
        elif mode == "acp":
            command.append("--acp")
            streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.log}
        else:
            self.terminal, follower = pty.openpty()
            fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 160, 0, 0))
            env["TERM"] = "xterm-256color"
            command += ["-i", "go"]
            streams = {"stdin": follower, "stdout": follower, "stderr": follower,
                       "preexec_fn": lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)}
        self.process = subprocess.Popen(
            command, cwd=f"{test.run}/cwd", env=env, start_new_session=True, **streams
        )
        if mode == "acp":
            self.answers, self.count = queue.Queue(), 0
            threading.Thread(target=self.read_answers, daemon=True).start()
        elif mode == "tui":
            os.close(follower)
            threading.Thread(target=self.read_terminal, daemon=True).start()

    def read_terminal(self):
        while True:
            try:
                data = os.read(self.terminal, 65536)
            except OSError:
                return
            self.log.write(data)
            self.log.flush()

    def type(self, text, test):
        """A prompt. Enter is pressed again until the client takes it: it ignores one that comes too soon."""
        os.write(self.terminal, text.encode())

        def taken():
            os.write(self.terminal, b"\r")
            return until(lambda: not test.model.requests.empty(), 2)
        if not until(taken, 2 * SOON):
            raise Broken("the TUI takes no prompt")

    def cancel(self):
        """Cancels the turn, and waits until the client says so."""
        start = os.path.getsize(self.log.name)
        os.write(self.terminal, b"\x1b")

        def said():
            with open(self.log.name, "rb") as log:
                log.seek(start)
                return b"cancelled" in log.read()
        if not until(said):
            raise Broken("the TUI does not cancel a turn")

    def read_answers(self):
        for line in self.process.stdout:
            self.log.write(line)
            self.log.flush()
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if "method" not in message:
                self.answers.put(message)
            elif "id" in message:  # whether it may run a command
                allowed = {"outcome": {"outcome": "selected", "optionId": "proceed_once"}}
                self.write({"id": message["id"], "result": allowed})

    def write(self, message):
        self.process.stdin.write((json.dumps({"jsonrpc": "2.0", **message}) + "\n").encode())
        self.process.stdin.flush()

    def send(self, method, params):
        self.count += 1
        self.write({"id": self.count, "method": method, "params": params})

    def answer(self, limit=2 * SOON):
        try:
            message = self.answers.get(timeout=limit)
        except queue.Empty:
            raise Broken("the client does not answer") from None
        if "error" in message:
            raise Broken(f"the client answers {message['error']}")
        return message["result"]

    def ask(self, method, params):
        self.send(method, params)
        return self.answer()

    def prompt(self, session, text):
        self.send("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})

    def leave(self):
        """Ends the client as its user would; its exit code."""
        if self.mode == "acp":
            self.process.stdin.close()
        elif self.mode == "tui":
            os.write(self.terminal, b"/quit")

            def gone():
                os.write(self.terminal, b"\r")
                return until(lambda: self.process.poll() is not None, 2)
            until(gone)
        return self.process.wait(2 * SOON)

    def kill(self):
        """All of it at once: it starts itself again as a child."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


class Test(kit.Jobs):
    def __init__(self, run, program, checks):
        super().__init__(run, checks)
        self.program, self.model, self.path = program, Gemini(), None
        self.settings = f"{run}/home/.gemini/settings.json"

    # ------------------------------------------------------------------------------------ what a check needs

    def said(self, body):
        return "\n".join(self.model.texts(body))

    def start(self, name, start="./job {} & echo started"):
        """Has the agent start a job, and gives its id and what the agent read."""
        self.gate(name)
        told = self.model.texts(self.model.run(start.format(name)))[-1]
        return self.id_of(name), told

    def finish(self, name, job):
        """Lets a job end, and waits for its record."""
        self.release(name)
        if not self.recorded(job):
            raise Broken(f"'{name}' has no record")

    def told(self, body, job):
        """How often a conversation has the fact of a job's end."""
        return self.said(body).count(f"Background job {job} finished: exit 37")

    def is_told_now(self, body, job):
        """Whether it is in what was said since the model last spoke."""
        new = []
        for content in reversed(body["contents"]):
            if content.get("role") != "user":
                break
            new.append(content)
        return self.told({"contents": new}, job)

    def turns(self):
        try:
            with open(f"{self.run}/home/turns") as file:
                return len(file.readlines())
        except FileNotFoundError:
            return 0

    def over(self, text):
        """The model's last word, and the hooks that come with it."""
        before = self.turns()
        self.model.say(text)
        until(lambda: self.turns() > before)
        until(lambda: "hook gemini AfterAgent" not in str(kit.processes()))

    def session_of(self, job):
        return self.listed("-a", "-A")[job]["session"]

    def waits(self, client):
        """Whether the client, its model silent, is held by a hook of ours."""
        held = until(lambda: glob.glob(f"{self.run}/home/.local/state/agent-sh/v1/waiters/*"))
        return held and client.process.poll() is None

    def ends(self, client, what):
        try:
            self.checks.same(client.process.wait(2 * SOON), 0, what)
        except subprocess.TimeoutExpired:
            self.checks.that(False, what, "it runs on")

    # ------------------------------------------------------------------------------------ the checks

    def set_up(self):
        done = self.verb("setup", "gemini")
        self.checks.same(done.returncode, 0, "setup gemini")
        again = self.verb("setup", "gemini").stderr
        nothing = "names are linked" in again and "nothing to change in" in again
        self.checks.that(nothing, "setup gemini, again: nothing", again)
        line = next(line for line in done.stdout.splitlines() if line.startswith("export PATH="))
        shown = subprocess.run(
            ["/bin/sh", "-c", f'{line}; echo "$PATH"'], env=environment(self.run), capture_output=True, text=True
        )
        self.path = f"{shown.stdout.strip()}:{os.path.dirname(self.program)}"

    def in_the_turn(self):
        """One prompt: a job outlives its call, and one that ends in the middle of the turn is told in it."""
        client = Client(self, "print")
        try:
            self.model.asked(60)
            began = time.monotonic()
            job, said = self.start("job-one")
            took = time.monotonic() - began
            self.checks.that(took < PROMPT and "started" in said, "'cmd &' returns at once", f"{took:.1f} s: {said}")
            self.checks.that(f"[agent-sh] job {job} is still running" in said, "the job is announced", said)
            pids = re.findall(r"Background PIDs: ([\d, ]+)", said)
            pid = self.started("job-one")
            self.checks.that(pids and str(pid) in pids[0], "the pid that Gemini CLI reads is the job's", said)
            row = self.listed("-A")[job]
            self.checks.same(row["harness"], "gemini", "it belongs to Gemini CLI")
            with open(client.log.name) as log:
                session = re.search(r'"session_id":"([^"]+)"', log.read())[1]
            self.checks.same(row["session"], session, "its session is the client's own")
            self.checks.same(list(self.listed("--session", session)), [job], "ps --session finds it")
            self.finish("job-one", job)
            body = self.model.run("agent-sh ps --json")
            self.checks.same(self.is_told_now(body, job), 1, "in the middle of a turn: told with the next result")
            self.checks.that(f'"{session}' in self.said(body).replace("\\", ""), "a verb in the shell knows the session",
                             self.model.texts(body)[-1])
            # What the agent has waited for itself is no news.
            waited, _ = self.start("job-waited")
            self.model.tell_to_run(f"agent-sh wait {waited}")
            until(lambda: "job-waited" in str(kit.processes()))
            self.release("job-waited")
            body = self.model.asked()
            self.checks.that("exited" in self.model.texts(body)[-1] or "37" in self.model.texts(body)[-1],
                             "the agent waits for a job", self.model.texts(body)[-1])
            body = self.model.run("true")
            self.checks.same([self.told(body, job), self.told(body, waited)], [1, 0], "told once, and not what it waited for")
            self.model.say("turn over")
            self.ends(client, "nothing is left to wait for: the client ends")
        finally:
            client.kill()

    def at_the_turns_end(self):
        """A plain run is held at its end until its jobs have ended; each is told once."""
        client = Client(self, "print")
        try:
            self.model.asked(60)
            one, _ = self.start("end-one")
            self.model.say("turn over")
            self.checks.that(self.waits(client), "'gemini -p' waits at the end of its turn")
            self.finish("end-one", one)
            body = self.model.asked()
            self.checks.same(self.is_told_now(body, one), 1, "the end of a job brings another turn")
            # Two that end at once.
            two, _ = self.start("end-two")
            three, _ = self.start("end-three")
            self.model.say("turn over again")
            self.waits(client)
            for name in ("end-two", "end-three"):
                self.release(name)
            body = self.model.asked()
            if not all(self.told(body, job) for job in (two, three)):
                self.model.say("and?")
                body = self.model.asked()
            self.checks.same([self.told(body, job) for job in (one, two, three)], [1, 1, 1], "two at once: told once each")
            self.model.say("all is done")
            self.ends(client, "told of all, the client ends")
            self.checks.that(self.model.requests.empty(), "nothing is told again")
        finally:
            client.kill()

    def limits(self):
        """The wait is bounded, and the end of a session is a policy."""
        client = Client(self, "print", AGENT_SH_STOP_WAIT="100ms", AGENT_SH_SESSION_END="kill")
        try:
            self.model.asked(60)
            job, _ = self.start("limit-one")
            self.model.say("turn over")
            self.ends(client, "the wait is over: the client ends")
            self.recorded(job)
            self.checks.same(self.listed("-a", "-A")[job]["state"], "signaled", "with session_end=kill its job is ended")
        finally:
            client.kill()

    def killed_and_resumed(self):
        client = Client(self, "print")
        try:
            self.model.asked(60)
            gone, _ = self.start("resumed-gone")
            stays, _ = self.start("resumed-stays")
            session = self.session_of(gone)
        finally:
            client.kill()
        self.model.say("nobody hears this")
        until(self.model.answers.empty)
        self.checks.that(self.alive("resumed-gone") and self.alive("resumed-stays"), "jobs outlive a client that was killed")
        self.finish("resumed-gone", gone)
        client = Client(self, "print", "--resume", session)
        try:
            body = self.model.asked(60)
            self.checks.same(self.is_told_now(body, gone), 1, "resumed: told at the start what ended")
            listed = re.search(rf"1 background job of this session is still running:\n- {stays} ", self.said(body))
            self.checks.that(listed, "resumed: told at the start what runs", self.model.texts(body)[-2:])
            self.model.say("turn over")
            self.waits(client)
            self.finish("resumed-stays", stays)
            body = self.model.asked()
            self.checks.same([self.is_told_now(body, gone), self.is_told_now(body, stays)], [0, 1],
                             "an old job's end is told in the resumed session, once")
            self.model.say("done")
            self.ends(client, "the resumed client ends")
        finally:
            client.kill()

    def in_the_tui(self):
        """Idle, it hears with its next prompt; at work, in the turn or at its end."""
        client = Client(self, "tui")
        try:
            self.model.asked(60)
            idle, _ = self.start("tui-idle")
            working, _ = self.start("tui-working")
            last, _ = self.start("tui-last")
            self.over("turn over")
            self.finish("tui-idle", idle)
            client.type("what now?", self)
            body = self.model.asked()
            self.checks.same(self.is_told_now(body, idle), 1, "TUI: told with the next prompt")
            self.finish("tui-working", working)
            body = self.model.run("true")
            self.checks.same(self.is_told_now(body, working), 1, "TUI: told in the turn")
            self.finish("tui-last", last)
            self.model.say("that was it")
            body = self.model.asked()
            self.checks.same(self.is_told_now(body, last), 1, "TUI: told at the end of the turn, which goes on")
            self.checks.same([self.told(body, job) for job in (idle, working, last)], [1, 1, 1], "TUI: told once each")
            self.over("done")
            client.type("anything else?", self)
            body = self.model.asked()
            self.checks.same([self.told(body, job) for job in (idle, working, last)], [1, 1, 1], "TUI: and never again")
            silent, _ = self.start("tui-silent")
            cancelled, _ = self.start("tui-cancelled")
            self.over("no")
            # A turn that the user cancels must not swallow a notice: while the model thinks, and while a tool runs.
            client.type("think", self)
            self.model.asked()
            self.finish("tui-silent", silent)
            client.cancel()
            self.model.say("too late")
            until(self.model.answers.empty)
            client.type("go on", self)
            body = self.model.asked()
            self.checks.same(self.told(body, silent), 1, "TUI: a turn cancelled while the model thinks loses no notice")
            self.gate("tui-tool")
            self.model.tell_to_run("./job tui-tool")
            self.started("tui-tool")
            self.finish("tui-cancelled", cancelled)
            client.cancel()
            client.type("and on", self)
            body = self.model.asked()
            self.checks.same(self.told(body, cancelled), 1, "TUI: a turn cancelled while a tool runs loses no notice")
            self.over("done")
            self.checks.same(client.leave(), 0, "TUI: the client ends well")
        finally:
            client.kill()

    def in_acp(self):
        """Spoken to by a program: this mode has no event for tools, so the turn's end and the next prompt tell."""
        client = Client(self, "acp")
        try:
            client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            session = client.ask("session/new", {"cwd": f"{self.run}/cwd", "mcpServers": []})["sessionId"]
            client.prompt(session, "go")
            self.model.asked(60)
            working, _ = self.start("acp-working")
            idle, _ = self.start("acp-idle")
            self.checks.same(self.session_of(idle), session, "ACP: the job's session is the client's own")
            self.finish("acp-working", working)
            self.model.say("turn over")
            body = self.model.asked()
            self.checks.same(self.is_told_now(body, working), 1, "ACP: told at the end of the turn, which goes on")
            self.model.say("really over")
            self.checks.same(client.answer()["stopReason"], "end_turn", "ACP: a job that runs does not hold the turn")
            self.finish("acp-idle", idle)
            client.prompt(session, "and now?")
            body = self.model.asked()
            self.checks.same([self.told(body, job) for job in (working, idle)], [1, 1], "ACP: told with the next prompt, once")
            self.model.say("done")
            client.answer()
            # A second conversation in the same process.
            other = client.ask("session/new", {"cwd": f"{self.run}/cwd", "mcpServers": []})["sessionId"]
            client.prompt(other, "go")
            self.model.asked()
            theirs, _ = self.start("acp-other")
            self.model.say("turn over")
            client.answer()
            self.finish("acp-other", theirs)
            client.prompt(session, "back to the first")
            body = self.model.asked()
            self.checks.same(self.told(body, theirs), 0, "ACP: another conversation's job is not told here")
            self.model.say("done")
            client.answer()
            client.prompt(other, "back to the second")
            body = self.model.asked()
            self.checks.same(self.told(body, theirs), 1, "ACP: but in its own")
            self.model.say("done")
            client.answer()
            self.checks.same(client.leave(), 0, "ACP: the client ends well")
        finally:
            client.kill()

    def by_a_sink(self):
        """A session that has ended is resumed where the user allows it; an open one never is."""
        self.verb("notify", "add", "auto", "--as", "resume")
        client = Client(self, "print", AGENT_SH_RESUME="1", AGENT_SH_STOP_WAIT="0")
        try:
            self.model.asked(60)
            open_one, _ = self.start("sink-open")
            gone, _ = self.start("sink-gone")
            self.finish("sink-open", open_one)
            why = until(lambda: re.search("the session is open", self.verb("notify", "list").stdout))
            self.checks.that(why and self.model.requests.empty(), "a session that is open is not resumed",
                             self.verb("notify", "list").stdout)
            body = self.model.run("true")
            self.checks.same(self.is_told_now(body, open_one), 1, "its own hook tells it")
            self.model.say("turn over")
            self.ends(client, "without a wait the client ends")
        finally:
            client.kill()
        self.release("sink-gone")
        body = self.model.asked(60)
        self.checks.same(self.is_told_now(body, gone), 1, "a session that has ended is resumed with the notice, once")
        self.model.say("done")
        self.verb("notify", "remove", "resume")

    def all(self):
        self.set_up()
        self.in_the_turn()
        self.at_the_turns_end()
        self.limits()
        self.killed_and_resumed()
        self.in_the_tui()
        self.in_acp()
        self.by_a_sink()
        self.nothing_left()
        clients = f"{self.run}/home/.local/state/agent-sh/v1/clients"
        self.checks.that(len(os.listdir(clients)) <= 1, "only a client that was killed leaves its note", os.listdir(clients))
        self.verb("setup", "gemini", "--undo")
        left = os.path.exists(f"{self.run}/home/.local/share/agent-sh")
        self.checks.that(not left, "setup gemini --undo: nothing is left")
        with open(self.settings) as file:
            self.checks.same(file.read(), SETTINGS, "setup gemini --undo: the settings are as they were")


def test(run, program, checks):
    os.makedirs(f"{run}/home/.gemini")
    with open(f"{run}/home/.gemini/settings.json", "w") as file:
        file.write(SETTINGS)
    Test(run, program, checks).all()


if __name__ == "__main__":
    sys.exit(kit.main(__file__, "Gemini CLI", VERSION, install, test, RUN_LIMIT))
