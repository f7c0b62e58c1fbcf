#!/usr/bin/env python3
"""Proves on the real OpenCode client that agent-sh works as its shell and wakes it. See README.md beside this file."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

import kit
from kit import SOON, Broken, environment, until
from scripted import Chat

PACKAGE = "opencode-ai"
VERSION = "1.18.33"
RUN_LIMIT = 200
PORT = 4096  # ours alone: the network namespace is new
PROMPT = 20  # seconds a call may take that starts a background job; without us it takes as long as the job


def install(version):
    home, version = kit.npm_package(PACKAGE, "opencode", version)
    with open("/proc/cpuinfo") as file:
        plain = " avx2" not in file.read()
    kinds = ["-baseline"] if plain else ["", "-baseline"]
    arch = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    patterns = [f"{home}/node_modules/opencode-linux-{arch}{kind}/bin/opencode" for kind in kinds]
    return kit.large_program(patterns), version


def request(method, path, body=None, password=None, timeout=30):
    headers = {"content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    call = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", method=method, headers=headers, data=data)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(call, timeout=timeout) as answer:
        text = answer.read().decode()
        return json.loads(text) if text else None


class Server:
    """`opencode serve` with one session."""

    def __init__(self, run, program, model, session=None):
        self.model = model
        env = dict(
            environment(run), SHELL="/bin/bash", OPENCODE_CONFIG=f"{run}/model.json", OPENCODE_DISABLE_MODELS_FETCH="1",
            OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_LSP_DOWNLOAD="1", OPENCODE_DISABLE_SHARE="1",
            OPENCODE_DISABLE_DEFAULT_PLUGINS="1",
        )
        self.log = open(f"{run}/opencode.log", "ab")
        self.process = subprocess.Popen(
            [program, "serve", "--port", str(PORT), "--hostname", "127.0.0.1"], cwd=f"{run}/cwd", env=env,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True,
        )

        def answers():
            try:  # an early request can hang for good
                request("GET", "/session", timeout=3)
                return True
            except OSError:
                return False
        if not until(answers, 40):
            raise Broken("the server never answered")
        self.session = session or request("POST", "/session", {})["id"]

    def prompt(self, text):
        request("POST", f"/session/{self.session}/prompt_async", {"parts": [{"type": "text", "text": text}]})

    def idle(self):
        def is_idle():
            status = request("GET", "/session/status") or {}
            return status.get(self.session, {}).get("type", "idle") == "idle"
        if not until(is_idle, SOON):
            raise Broken("the session never became idle")

    def end(self, kill=False):
        if self.process.poll() is None:
            self.process.kill() if kill else self.process.terminate()
        try:
            self.process.wait(SOON)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def configure(run, model):
    """What a user has before setup: a provider, in a file of its own."""
    limit = {"context": 100000, "output": 1000}
    provider = {
        "npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{model.url}/v1", "apiKey": "none"},
        "models": {"m": {"name": "m", "tool_call": True, "limit": limit}},
    }
    config = {"autoupdate": False, "share": "disabled", "model": "mock/m", "small_model": "mock/m",
              "permission": {"*": "allow"}, "provider": {"mock": provider}}
    with open(f"{run}/model.json", "w") as file:
        json.dump(config, file)


class Test(kit.Jobs):
    def __init__(self, run, program, checks):
        super().__init__(run, checks)
        self.program = program
        self.model = Chat()
        configure(run, self.model)

    def notices(self, body, job):
        text = f"Background job {job} finished: exit 37"
        return sum(part.count(text) for part in self.model.texts(body))

    def start(self, server, name):
        server.prompt("go")
        self.model.asked()
        self.gate(name)
        began = time.monotonic()
        body = self.model.run(f"./job {name} & echo started")
        took = time.monotonic() - began
        told = self.model.texts(body)[-1]
        self.checks.that(took < PROMPT and "started" in told, f"{name}: 'cmd &' returns at once", f"{took:.1f} s: {told}")
        job = self.id_of(name)
        self.checks.that(f"[agent-sh] job {job} is still running" in told, f"{name}: the job is announced", told)
        row = self.listed("-A")[job]
        found = (row["session"], row["harness"])
        self.checks.same(found, (server.session, "opencode"), f"{name}: it belongs to the session")
        return job

    def idle_session(self, server):
        job = self.start(server, "idle")
        self.model.say("turn over")
        server.idle()
        self.checks.that(self.release("idle"), "idle: the job lives on")
        body = self.model.asked()
        self.checks.same(self.notices(body, job), 1, "idle: the end of the job starts a turn with the notice")
        self.model.say("woken")
        server.idle()
        server.prompt("and now?")
        body = self.model.asked()
        self.checks.same(self.notices(body, job), 1, "idle: it is not told again in the next turn")
        self.model.say("nothing")
        server.idle()

    def busy_session(self, server):
        job = self.start(server, "early")
        self.gate("busy")
        self.model.tell_to_run("./job busy; true")
        self.started("busy")
        self.release("early")
        self.recorded(job)
        told = f"{self.run}/home/.local/state/agent-sh/v1/jobs/{job}/told"
        until(lambda: os.path.exists(told))
        self.release("busy")
        body = self.model.asked()
        self.checks.same(self.notices(body, job), 1, "busy: what ends in the middle of a turn is told in it")
        self.model.say("turn over")
        server.idle()

    def killed_server(self, server):
        job = self.start(server, "gone")
        self.model.say("turn over")
        server.idle()
        server.end(kill=True)
        self.checks.that(self.alive("gone"), "killed server: the job lives")
        self.release("gone")
        self.recorded(job)
        self.nothing_left("killed server: no waiter stays behind")
        again = Server(self.run, self.program, self.model, server.session)
        try:
            again.prompt("go on")
            self.model.asked()
            self.model.say("going on")
            body = self.model.asked()
            self.checks.same(self.notices(body, job), 1, "killed server: told in the session when it goes on")
            self.model.say("I see")
            again.idle()
        finally:
            again.end()

    def all(self):
        os.makedirs(f"{self.run}/home/.config/opencode")
        path = f"{self.run}/home/.config/opencode/opencode.jsonc"
        # With a schema, which the client would add, and no registry, which it would wait for.
        old = '{\n  "$schema": "https://opencode.ai/config.json",\n  // mine\n  "username": "me",\n}\n'
        with open(f"{self.run}/home/.npmrc", "w") as file:
            file.write("offline=true\n")
        with open(path, "w") as file:
            file.write(old)
        done = self.verb("setup", "opencode")
        self.checks.same(done.returncode, 0, "setup opencode")
        self.checks.that(
            self.verb("setup", "opencode").stderr.count("nothing to change") == 2, "setup opencode, again: nothing"
        )
        server = Server(self.run, self.program, self.model)
        try:
            self.idle_session(server)
            self.busy_session(server)
            self.killed_server(server)
        finally:
            server.end()
        self.nothing_left()
        self.verb("setup", "opencode", "--undo")
        with open(path) as file:
            self.checks.same(file.read(), old, "setup opencode --undo: the file is as it was, byte for byte")
        left = os.listdir(f"{self.run}/home/.config/opencode")
        self.checks.that("plugin" not in left, "setup opencode --undo: the plugin is gone", left)


def test(run, program, checks):
    Test(run, program, checks).all()


if __name__ == "__main__":
    sys.exit(kit.main(__file__, "OpenCode", VERSION, install, test, RUN_LIMIT))
