#!/usr/bin/env python3
"""Drives `agent-sh mcp` with the official Python SDK of the Model Context Protocol. See README.md beside this file.

The SDK checks every result against the schema that its tool declares.
"""

import asyncio
import os
import subprocess
import sys

import kit

SDK = "2.3.0"
LIMIT = 120


def install(version):
    """The SDK in an environment of its own."""
    home = kit.once(f"{kit.cache()}/python-mcp-{version}", lambda fresh: (
        kit.call(sys.executable, "-m", "venv", fresh),
        kit.call(f"{fresh}/bin/python", "-m", "pip", "install", "--quiet", f"mcp=={version}"),
    ))
    return f"{home}/bin/python", version


def test(run, python, checks):
    """The SDK lives in its own interpreter: this file again, with the directory of the run."""
    done = subprocess.run(
        [python, os.path.abspath(__file__), "--drive", run], env=dict(kit.environment(run), AGENT_SH_SESSION="mcp-1"),
        cwd=f"{run}/cwd", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT - 10,
    )
    for line in done.stdout.splitlines():
        good, _, what = line.partition(" ")
        checks.that(good == "ok", what)
    checks.that(done.returncode == 0, "the client came to its end", done.stderr[-2000:])
    checks.that("ok the last step" in done.stdout, "all steps were made", done.stdout)
    kit.Jobs(run, checks).nothing_left()


async def drive(run):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    def say(good, what, detail=""):
        print(f"ok {what}" if good else f"FAILED {what}: {detail!r}", flush=True)

    server = StdioServerParameters(command=f"{run}/bin/agent-sh", args=["mcp"], env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        info = await session.initialize()
        say(info.server_info.name == "agent-sh", "initialize", info)
        names = [tool.name for tool in (await session.list_tools()).tools]
        wanted = ["list_jobs", "start_job", "job_logs", "wait_for_job", "kill_job", "send_input"]
        say(names == wanted, "list of tools", names)

        async def call(tool, **arguments):
            result = await session.call_tool(tool, arguments)
            if result.is_error:
                return {"error": result.content[0].text}
            return result.structured_content

        started = await call("start_job", command="printf 'one\\nName? '; read x; echo hello $x; exit 7", name="greeter")
        say(started.get("state") == "running", "start_job", started)
        asked = await call("wait_for_job", id="greeter", for_output="Name", timeout="30s")
        say(asked.get("happened") is True, "wait_for_job with a pattern", asked)
        logs = await call("job_logs", id=started["id"], cursor=started["cursor"])
        say(logs.get("output") == "one\nName? ", "job_logs", logs)
        sent = await call("send_input", id="greeter", text="joe")
        say("cursor" in sent, "send_input", sent)
        ended = await call("wait_for_job", id="greeter", timeout=30)
        say((ended.get("state"), ended.get("exit_code")) == ("exited", 7), "wait_for_job", ended)
        rest = await call("job_logs", id="greeter", cursor=logs["cursor"])
        say(rest.get("output") == "joe\nhello joe\n", "job_logs with a cursor", rest)

        await call("start_job", command="sleep 600", name="long")
        over = await call("wait_for_job", id="long", timeout=0.2)
        say(over.get("timed_out") is True and over.get("state") == "running", "a bounded wait", over)
        killed = await call("kill_job", id="long")
        say(killed.get("ended") is True and killed.get("signal") == 15, "kill_job", killed)
        listed = await call("list_jobs")
        states = [job["state"] for job in listed["jobs"]]
        say(states == ["exited", "signaled"], "list_jobs", listed)
        unknown = await call("kill_job", id="nothing")
        say("no job 'nothing'" in unknown.get("error", ""), "an error that the model reads", unknown)
        say(True, "the last step")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drive"]:
        asyncio.run(drive(sys.argv[2]))
    else:
        sys.exit(kit.main(__file__, "the Python SDK of MCP", SDK, install, test, LIMIT))
