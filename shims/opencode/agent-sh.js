// agent-sh: made by 'agent-sh setup opencode', removed by its --undo.
//
// Gives every command the id of its session, and tells the session when a background job of it has ended: a waiter
// process per session says so on its stdout, line by line, and is answered once the session has it.
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"

const PROGRAM = "@PROGRAM@"

export const AgentSh = async ({ client, serverUrl }) => {
  const roots = new Map()
  const waiters = new Map()

  // A sub-agent's session ends with its task; whoever gave the task is there to be told.
  const root = async (id) => {
    if (!roots.has(id)) {
      let top = id
      for (let depth = 0; depth < 8; depth++) {
        const found = await client.session.get({ path: { id: top } }).catch(() => undefined)
        if (!found?.data?.parentID) break
        top = found.data.parentID
      }
      roots.set(id, top)
    }
    return roots.get(id)
  }

  const tell = async (session, text) => {
    for (let attempt = 0; attempt < 3; attempt++) {
      const answer = await client.session
        .promptAsync({ path: { id: session }, body: { parts: [{ type: "text", text: `[agent-sh] ${text}` }] } })
        .catch((error) => ({ error }))
      if (!answer?.error) return true
      await new Promise((resolve) => setTimeout(resolve, 500))
    }
    return false
  }

  const wait = (session) => {
    if (waiters.has(session)) return
    const env = { ...process.env, AGENT_SH_SESSION: session }
    const waiter = spawn(PROGRAM, ["hook", "opencode", "Wait"], { env, stdio: ["pipe", "pipe", "ignore"] })
    waiters.set(session, waiter)
    const gone = () => waiters.delete(session)
    waiter.on("error", gone)
    waiter.on("close", gone)
    waiter.stdin.on("error", () => {})
    waiter.stdin.write(JSON.stringify({ session_id: session }) + "\n")
    createInterface({ input: waiter.stdout }).on("line", async (line) => {
      const told = await tell(session, JSON.parse(line).notice)
      waiter.stdin.write(told ? "told\n" : "failed\n")
    })
    waiter.unref()
  }

  return {
    "shell.env": async (input, output) => {
      if (!input.sessionID) return
      const session = await root(input.sessionID)
      output.env.AGENT_SH_SESSION = session
      output.env.OPENCODE_SESSION_ID = session
      output.env.OPENCODE_SERVER_URL = String(serverUrl ?? "")
    },
    "tool.execute.after": async (input) => {
      if (input.sessionID) wait(await root(input.sessionID))
    },
    event: async ({ event }) => {
      if (event.type === "session.idle") wait(await root(event.properties.sessionID))
    },
  }
}
