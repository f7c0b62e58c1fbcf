//! All settings, each once: what it is called, what it takes, what it is without you. The README's
//! table is printed from here.

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// As in the file.
    pub name: &'static str,
    /// As in the environment; written out, so that no string is built for an environment that sets none.
    pub variable: &'static str,
    /// In the words of the README.
    pub values: &'static str,
    pub default: &'static str,
}

const fn setting(
    name: &'static str,
    variable: &'static str,
    values: &'static str,
    default: &'static str,
) -> Setting {
    Setting {
        name,
        variable,
        values,
        default,
    }
}

pub const SETTINGS: [Setting; 17] = [
    setting(
        "state",
        "AGENT_SH_STATE",
        "an absolute path: where jobs are kept",
        "`$XDG_STATE_HOME/agent-sh`, else `~/.local/state/agent-sh`, else a private directory in `$XDG_RUNTIME_DIR`, `$TMPDIR` or `/tmp`",
    ),
    setting(
        "shell",
        "AGENT_SH_SHELL",
        "an absolute path or a name: the real shell",
        "bash, else `/bin/sh`",
    ),
    setting(
        "announce",
        "AGENT_SH_ANNOUNCE",
        "`1`, `0`: the line on stderr about jobs that live on",
        "`1`",
    ),
    setting(
        "tell",
        "AGENT_SH_TELL",
        "`auto`, `off`: whether an end that the agent has not heard of is told after its next command",
        "`auto`; `off` where `announce` is `0`",
    ),
    setting(
        "promote_after",
        "AGENT_SH_PROMOTE_AFTER",
        "a duration: a foreground command that takes longer becomes a job",
        "off",
    ),
    setting(
        "on_term",
        "AGENT_SH_ON_TERM",
        "`forward`, `promote`: what TERM does to a foreground command",
        "`forward`",
    ),
    setting(
        "linger",
        "AGENT_SH_LINGER",
        "`auto`, `always`, `never`: whether the call stays until its jobs end; `auto` does where a sandbox would kill them with the call",
        "`auto`",
    ),
    setting(
        "session",
        "AGENT_SH_SESSION",
        "any text: the conversation that jobs belong to",
        "what the harness exports, else the CI job, else the harness process",
    ),
    setting(
        "transcript_cap",
        "AGENT_SH_TRANSCRIPT_CAP",
        "a size: how much of a job's output is kept, beginning and end",
        "`64M`",
    ),
    setting(
        "keep",
        "AGENT_SH_KEEP",
        "a duration: how long ended jobs are kept",
        "`7d`",
    ),
    setting(
        "max_bytes",
        "AGENT_SH_MAX_BYTES",
        "a size: what all kept jobs together may take; the oldest go first",
        "`2G`",
    ),
    setting(
        "notify",
        "AGENT_SH_NOTIFY",
        "sinks, with commas or blanks between: who is told of the ends of jobs started with it",
        "nobody",
    ),
    setting(
        "capture",
        "AGENT_SH_CAPTURE",
        "`pty`, `pipe`: what a job's output is connected to",
        "`pty`",
    ),
    setting(
        "record_command",
        "AGENT_SH_RECORD_COMMAND",
        "`redacted`, `full`: how a command's text gets into the record",
        "`redacted`",
    ),
    setting(
        "stop_wait",
        "AGENT_SH_STOP_WAIT",
        "a duration: how long the end of a `claude -p` or `gemini -p` run waits for a job; `0` not at all",
        "`10m`",
    ),
    setting(
        "session_end",
        "AGENT_SH_SESSION_END",
        "`keep`, `kill`: what becomes of the jobs of a Claude Code or Gemini CLI session at its end",
        "`keep`",
    ),
    setting(
        "resume",
        "AGENT_SH_RESUME",
        "`1`, `0`: whether the sinks `claude-code` and `codex`, and `auto` for Gemini CLI, may resume a session that nothing owns any more",
        "`0`",
    ),
];

/// Variables with our prefix that are no settings: we set them ourselves, for jobs and descendants; the
/// last one is a switch for tests and measurements (`sys::affinity`).
pub(crate) const OWN_VARIABLES: [&str; 5] = [
    "AGENT_SH_SUPERVISOR",
    "AGENT_SH_CALLER",
    "AGENT_SH_JOB",
    "AGENT_SH_MIRROR",
    "AGENT_SH_WARM",
];

/// The table of the README.
#[must_use]
pub(crate) fn markdown() -> String {
    let rows = SETTINGS.iter().map(|setting| {
        format!(
            "| `{}` | `{}` | {} | {} |\n",
            setting.variable, setting.name, setting.values, setting.default
        )
    });
    let head = "| variable | key | values | default |\n| --- | --- | --- | --- |\n";
    std::iter::once(head.to_owned()).chain(rows).collect()
}
