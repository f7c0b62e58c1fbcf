#!/usr/bin/env python3
"""Proves on the real Codex client that agent-sh works as its shell and wakes it. See README.md beside this file."""

import fcntl
import glob
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import threading

import kit
from kit import SOON, Broken, environment, until
from scripted import Scripted, text_of

PACKAGE = "@openai/codex"
VERSION = "0.166.0"
RUN_LIMIT = 200


def install(version):
    home, version = kit.npm_package(PACKAGE, "codex", version)
    return kit.large_program([f"{home}/node_modules/{PACKAGE}*/vendor/*/bin/codex"]), version


class Responses(Scripted):
    """OpenAI's Responses API, as Codex speaks it."""

    def is_turn(self, path, body):
        names = [tool.get("name") for tool in body.get("tools") or []]
        return path.endswith("/responses") and "exec_command" in names

    def texts(self, body):
        found = []
        for item in body.get("input") or []:
            if item.get("type") == "message" and item.get("role") == "user":
                found.append(text_of(item.get("content")))
            elif str(item.get("type")).endswith("call_output"):
                found.append(text_of(item.get("output")))
        return found

    def stub(self, handler, path, body):
        if path.endswith("/responses"):
            return self.write(handler, body, {"text": "a title"})
        return handler.reply_json({})

    def write(self, handler, body, answer):
        number = f"{self.count}_{threading.get_ident()}"
        if "command" in answer:
            arguments = json.dumps({"cmd": answer["command"], **answer["more"]})
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}",
                    "name": "exec_command", "arguments": arguments}
        else:
            item = {"type": "message", "role": "assistant", "id": f"msg_{number}",
                    "content": [{"type": "output_text", "text": answer["text"]}]}
        usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1,
                 "output_tokens_details": None, "total_tokens": 2}
        events = [
            {"type": "response.created", "response": {"id": f"resp_{number}"}},
            {"type": "response.output_item.done", "item": item},
            {"type": "response.completed", "response": {"id": f"resp_{number}", "usage": usage}},
        ]
        handler.reply_events((event["type"], event) for event in events)


def config(run, model):
    return f"""# mine
model = "gpt-5.1-codex"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[feedback]
enabled = false

[otel]
exporter = "none"

[model_providers.scripted]
name = "scripted"
base_url = "{model.url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false

[projects."{run}/cwd"]
trust_level = "trusted"

[tui]
screen_reader_detection_done = true
"""


class Client:
    """`codex` in its TUI, or `codex exec`."""

    def __init__(self, run, program, mode, **more):
        env = dict(
            environment(run), SHELL="/bin/bash", CODEX_HOME=f"{run}/home/.codex",
            PATH=f"{os.path.dirname(program)}:{environment(run)['PATH']}", **more,
        )
        free = "--dangerously-bypass-approvals-and-sandbox"
        self.terminal = None
        self.log = open(f"{run}/codex-{mode}.log", "ab")
        if mode == "tui":
            self.terminal, follower = pty.openpty()
            fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 160, 0, 0))
            env["TERM"] = "xterm-256color"
            self.process = subprocess.Popen(
                [program, "--no-alt-screen", free, "go"], cwd=f"{run}/cwd", env=env, stdin=follower, stdout=follower,
                stderr=follower, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            )
            os.close(follower)
            threading.Thread(target=self.read_terminal, daemon=True).start()
        else:
            self.process = subprocess.Popen(
                [program, "exec", "--skip-git-repo-check", "--json", free, "go"], cwd=f"{run}/cwd", env=env,
                stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True,
            )

    def read_terminal(self):
        answers = ((b"\x1b[c", b"\x1b[?62;c"), (b"\x1b[6n", b"\x1b[1;1R"), (b"\x1b]10;?", b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\"),
                   (b"\x1b]11;?", b"\x1b]11;rgb:0000/0000/0000\x1b\\"), (b"\x1b[?u", b"\x1b[?0u"))
        while True:
            try:
                data = os.read(self.terminal, 65536)
            except OSError:
                return
            self.log.write(data)
            self.log.flush()
            for question, answer in answers:
                if question in data:
                    os.write(self.terminal, answer)

    def say(self, text, model):
        """A prompt. Enter right after the text may be taken for a part of a paste, and how long that is depends on the
        machine's load: it is pressed again until the client asks its model."""
        os.write(self.terminal, text.encode())

        def taken():
            until(lambda: False, 0.5)
            os.write(self.terminal, b"\r")
            return until(lambda: not model.requests.empty(), 2)
        if not until(taken, 2 * SOON):
            raise Broken("the TUI takes no prompt")

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Test(kit.Jobs):
    def __init__(self, run, program, checks):
        super().__init__(run, checks)
        self.program = program
        self.model = Responses()

    def verb(self, *args, **env):
        return super().verb(*args, CODEX_HOME=f"{self.run}/home/.codex", **env)

    def notices(self, body, job):
        text = f"Background job {job} finished: exit 37"
        return sum(part.count(text) for part in self.model.texts(body))

    def start(self, name):
        self.model.asked()
        self.gate(name)
        told = self.model.texts(self.model.run(f"./job {name} & echo started"))[-1]
        job = self.id_of(name)
        self.checks.that("started" in told and f"[agent-sh] job {job} is still running" in told,
                         f"{name}: 'cmd &' returns at once and the job is announced", told)
        row = self.listed("-A")[job]
        self.checks.same(row["harness"], "codex", f"{name}: it belongs to a thread of Codex")
        return job

    def tui(self):
        client = Client(self.run, self.program, "tui")
        try:
            job = self.start("idle")
            self.model.say("turn over")
            until(lambda: False, 1)  # the model's last word is out; the client shows it
            self.checks.that(self.alive("idle"), "idle: the job lives, though Codex kills the shell's group")
            self.release("idle")
            body = self.model.asked()
            self.checks.same(self.notices(body, job), 1, "idle: the end of the job starts a turn with the notice")
            self.model.say("woken")
            client.say("and now?", self.model)
            body = self.model.asked()
            self.checks.same(self.notices(body, job), 1, "idle: it is not told again in the next turn")
            self.model.say("nothing")
            told = [line for line in self.verb("notify", "list").stdout.splitlines() if "codex" in line]
            self.checks.that(told, "idle: the subscription is listed", told)
        finally:
            client.end()

    def stop_daemon(self):
        """The TUI leaves a daemon of its own behind, which is none of our business."""
        for pid, command in kit.processes().items():
            if "/codex app-server" in command:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass
        until(lambda: not any("/codex app-server" in command for command in kit.processes().values()))

    def one_shot(self):
        client = Client(self.run, self.program, "exec")
        try:
            self.start("after")
            self.model.say("turn over")
            client.process.wait(SOON)
            self.checks.that(self.alive("after"), "exec: the job outlives the client")
        finally:
            client.end()
        job = self.id_of("after")
        self.release("after")
        self.recorded(job)
        self.checks.same(self.listed("-a", "-A")[job]["exit_code"], 37, "exec: its record has the exit code")

    def resumed(self, name, daemon):
        client = Client(self.run, self.program, "exec", AGENT_SH_RESUME="1")
        try:
            job = self.start(name)
            self.model.say("turn over")
            client.process.wait(SOON)
        finally:
            client.end()
        self.release(name)
        body = self.model.asked()
        self.checks.same(self.notices(body, job), 1, f"{name}: the end of the job resumes the thread")
        self.model.say("woken")
        until(self.model.answers.empty)
        if daemon:
            self.stop_daemon()
        self.nothing_left(f"{name}: the turn is no job itself")
        jobs = [row for row in self.listed("-a", "-A").values() if "codex" in row["command"]]
        self.checks.same(jobs, [], f"{name}: nothing of it is listed")

    def all(self):
        path = f"{self.run}/home/.codex/config.toml"
        os.makedirs(os.path.dirname(path))
        old = config(self.run, self.model)
        with open(path, "w") as file:
            file.write(old)
        self.checks.same(self.verb("setup", "codex").returncode, 0, "setup codex")
        again = self.verb("setup", "codex").stderr
        self.checks.that(again.count("nothing to change") == 2, "setup codex, again: nothing", again)
        with open(path) as file:
            added = file.read()
        self.tui()
        self.resumed("resumed-by-daemon", daemon=True)
        self.one_shot()
        self.resumed("resumed", daemon=False)
        self.nothing_left()
        with open(path) as file:
            untouched = file.read() == added
        self.verb("setup", "codex", "--undo")
        with open(path) as file:
            left = file.read()
        if untouched:
            self.checks.same(left, old, "setup codex --undo: the file is as it was, byte for byte")
        else:
            self.checks.that("BASH_ENV" not in left, "setup codex --undo: of an edited file our part leaves", left)


def test(run, program, checks):
    Test(run, program, checks).all()


if __name__ == "__main__":
    sys.exit(kit.main(__file__, "Codex", VERSION, install, test, RUN_LIMIT))
