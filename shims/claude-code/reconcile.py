#!/usr/bin/env python3
"""Which background work of a Claude Code transcript still runs? Asked of agent-sh, not guessed.

    reconcile.py ~/.claude/projects/…/SESSION.jsonl

A transcript says when something went to the background; it never says that it died with its client. Whether the
client lives tells nothing (a restart gives the session a new one), and neither does the age of an output file (a
redirected command writes elsewhere). agent-sh knows: every job has one record at its end, found by whoever looks.

Prints one JSON object a line: {"id", "kind", "state", "exit_code", "command"}. "kind" is "job" for a job that agent-sh
announced, "task" for a background task of the client itself. "state" is what `agent-sh ps` says; of a task it is
"unknown" where agent-sh has no record, which it keeps of tasks that were killed or became jobs.
"""

import json
import os
import re
import subprocess
import sys

ANNOUNCED = re.compile(r"^\[agent-sh\] job (\w+) is still running in the background", re.M)
TASK = re.compile(r"(?:running in (?:the )?background with ID: |moved to the background \(ID: )(\w+)")
# One notification may name several tasks before their common status.
NOTIFIED = re.compile(r"<task-id>(\w+)</task-id>|<status>\w+</status>")


def texts(content):
    """Every piece of text in a message, also in the results of tools."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, dict):
                yield from texts(block.get("text") or block.get("content") or "")


def completed(text):
    """The tasks that a text says are over."""
    named = []
    for found in NOTIFIED.finditer(text):
        if found.group(1):
            named.append(found.group(1))
        else:
            yield from named
            named = []


def read(path):
    """What went to the background: jobs, tasks with their commands, and tasks that are known to be over."""
    jobs, tasks, over, commands = {}, {}, set(), {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                message = json.loads(line).get("message") or {}
            except (ValueError, AttributeError):
                continue
            content = message.get("content") if isinstance(message, dict) else None
            for block in content if isinstance(content, list) else []:
                if isinstance(block, dict) and block.get("type") == "tool_use":
                    commands[block.get("id")] = (block.get("input") or {}).get("command")
                elif isinstance(block, dict) and block.get("type") == "tool_result":
                    for text in texts(block.get("content")):
                        for task in TASK.findall(text):
                            tasks[task] = commands.get(block.get("tool_use_id"))
            for text in texts(content):
                jobs.update(dict.fromkeys(ANNOUNCED.findall(text)))
                over.update(completed(text))
    return list(jobs), {task: command for task, command in tasks.items() if task not in over}


def known(session):
    """All that agent-sh keeps of this session, by id."""
    program = os.environ.get("AGENT_SH", "agent-sh")
    done = subprocess.run(
        [program, "ps", "--all", "--json", "--session", session], check=True, stdout=subprocess.PIPE, text=True
    )
    return {row["id"]: row for row in json.loads(done.stdout)}


def main(path):
    session = os.path.basename(path).removesuffix(".jsonl")
    jobs, tasks = read(path)
    rows = known(session)
    for job in jobs:
        # No row: it ended so long ago that its record was cleaned up.
        row = rows.get(job, {"state": "forgotten", "exit_code": None, "command": None})
        report(job, "job", row)
    for task, command in tasks.items():
        found = [row for row in rows.values() if command and row["command"] == command]
        row = found[-1] if found else {"state": "unknown", "exit_code": None, "command": command}
        report(task, "task", row)


def report(name, kind, row):
    print(json.dumps({"id": name, "kind": kind, **{key: row[key] for key in ("state", "exit_code", "command")}}))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
