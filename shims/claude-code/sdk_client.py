#!/usr/bin/env python3
"""An Agent SDK session that hears of its background jobs: the program starts no turn, the end of a job does.

    pip install claude-agent-sdk
    agent-sh setup claude-code        # once: makes the links that the settings name
    sdk_client.py 'start the build in the background with &, and tell me when it is done'

The SDK loads no settings files unless told to, so what `agent-sh setup claude-code --print` prints is passed
along. The client must stay connected, and somebody must go on reading: `receive_response()` ends with the first
turn, `receive_messages()` does not.
"""

import asyncio
import os
import subprocess
import sys

from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, TextBlock


def options():
    """Shell and hooks of agent-sh, on top of whatever else a program wants to set."""
    printed = subprocess.run(
        [os.environ.get("AGENT_SH", "agent-sh"), "setup", "claude-code", "--print"],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    return ClaudeAgentOptions(
        settings=printed.stdout,
        permission_mode=os.environ.get("PERMISSION_MODE", "default"),
        cli_path=os.environ.get("CLAUDE_CLI"),
    )


async def main(prompt):
    async with ClaudeSDKClient(options=options()) as client:
        await client.query(prompt)
        async for message in client.receive_messages():
            if isinstance(message, AssistantMessage):
                for block in message.content:
                    if isinstance(block, TextBlock):
                        print(block.text, flush=True)
            elif isinstance(message, ResultMessage):
                # The turn is over; the next one may be the user's, or a job's. Here it is always a job's.
                print("-- idle --", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main(" ".join(sys.argv[1:]) or "go"))
    except KeyboardInterrupt:
        pass
