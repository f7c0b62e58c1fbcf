#!/usr/bin/env python3
"""Proves on the real Gemini CLI that agent-sh works as its shell. See README.md beside this file."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

import kit
from kit import SOON, environment
from scripted import Scripted

PACKAGE = "@google/gemini-cli"
VERSION = "0.61.0"
RUN_LIMIT = 150
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


SETTINGS = {
    "general": {"disableAutoUpdate": True, "enableAutoUpdate": False, "checkpointing": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
}


class Test(kit.Jobs):
    def __init__(self, run, program, checks):
        super().__init__(run, checks)
        self.program, self.model = program, Gemini()

    def client(self, path):
        env = dict(
            environment(self.run), SHELL="/bin/bash", PATH=path, GEMINI_API_KEY="none",
            GOOGLE_GEMINI_BASE_URL=self.model.url, GEMINI_CLI_TRUST_WORKSPACE="true", GEMINI_TELEMETRY_ENABLED="false",
        )
        log = open(f"{self.run}/gemini.log", "ab")
        return subprocess.Popen(
            [self.program, "--yolo", "-m", "gemini-2.5-pro", "--output-format", "stream-json", "-p", "go"],
            cwd=f"{self.run}/cwd", env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def all(self):
        done = self.verb("setup", "gemini")
        self.checks.same(done.returncode, 0, "setup gemini")
        again = self.verb("setup", "gemini").stderr
        self.checks.that("linked 0 of" in again, "setup gemini, again: nothing", again)
        line = next(line for line in done.stdout.splitlines() if line.startswith("export PATH="))
        shown = subprocess.run(
            ["/bin/sh", "-c", f'{line}; echo "$PATH"'], env=environment(self.run), capture_output=True, text=True
        )
        client = self.client(shown.stdout.strip())
        try:
            self.model.asked(60)
            self.gate("job-one")
            began = time.monotonic()
            told = self.model.texts(self.model.run("./job job-one & echo started"))[-1]
            took = time.monotonic() - began
            self.checks.that(took < PROMPT and "started" in told, "'cmd &' returns at once", f"{took:.1f} s: {told}")
            job = self.id_of("job-one")
            self.checks.that(f"[agent-sh] job {job} is still running" in told, "the job is announced", told)
            pids = re.findall(r"Background PIDs: ([\d, ]+)", told)
            pid = self.started("job-one")
            self.checks.that(pids and str(pid) in pids[0], "the pid that Gemini CLI reads is the job's", told)
            self.checks.same(self.listed("-A")[job]["harness"], "gemini", "it belongs to Gemini CLI")
            self.model.say("turn over")
            self.checks.same(client.wait(SOON), 0, "the client ends well")
        finally:
            if client.poll() is None:
                client.kill()
            client.wait()
        self.checks.that(self.alive("job-one"), "the job outlives the client")
        self.release("job-one")
        self.recorded(job)
        self.checks.same(self.listed("-a", "-A")[job]["exit_code"], 37, "its record has the exit code")
        self.nothing_left()
        self.verb("setup", "gemini", "--undo")
        left = os.path.exists(f"{self.run}/home/.local/share/agent-sh")
        self.checks.that(not left, "setup gemini --undo: nothing is left")


def test(run, program, checks):
    os.makedirs(f"{run}/home/.gemini")
    with open(f"{run}/home/.gemini/settings.json", "w") as file:
        json.dump(SETTINGS, file)
    Test(run, program, checks).all()


if __name__ == "__main__":
    sys.exit(kit.main(__file__, "Gemini CLI", VERSION, install, test, RUN_LIMIT))
