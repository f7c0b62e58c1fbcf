//! Where we are: the program, the state directory, the sandbox, who calls, which settings.

use std::ffi::OsStr;
use std::path::Path;

use crate::caller;
use crate::cli::doctor::{Finding, fail, ok, warn};
use crate::cli::format::size;
use crate::context::Context;
use crate::error::cause;
use crate::harness::gemini;
use crate::job::Degraded;
use crate::notify;
use crate::session as keys;
use crate::settings::{self, Origin, SETTINGS};
use crate::shell::{self, Ourselves};
use crate::store::{self, Policy, Store};
use crate::sys::{proc, session};
use crate::text;

/// Below this the disk is nearly full; below the second nothing can be stored.
const LITTLE: u64 = 100 << 20;
const NOTHING: u64 = 1 << 20;

/// The shells that we know, in the order in which a person looks for them.
const SHELLS: [&str; 4] = ["bash", "sh", "zsh", "dash"];

pub(super) fn program() -> Vec<Finding> {
    let path = Ourselves::find().path().display().to_string();
    let version = env!("CARGO_PKG_VERSION");
    vec![ok("program", format!("agent-sh {version}, {path}"))]
}

pub(super) fn state(context: &Context) -> Vec<Finding> {
    let store = match Store::open_writable(&context.settings, |name| context.env(name)) {
        Ok(store) => store,
        Err(error) => {
            let hint = error.hint().unwrap_or_default();
            return vec![fail("state", error.to_string(), hint)];
        }
    };
    let mut found = Vec::new();
    let path = store.path().display();
    match store.degraded() {
        [] => found.push(ok("state", format!("{path}"))),
        why => found.push(warn(
            "state",
            format!("{path}, because {}", Degraded::join(why, "; ")),
            "let that directory be one that you alone can write, or name another in AGENT_SH_STATE",
        )),
    }
    match store.probe() {
        Err(error) => found.push(fail(
            "state files",
            format!("cannot be written: {}", cause(&error)),
            "name a directory on a disk with room in AGENT_SH_STATE",
        )),
        Ok(probe) => {
            found.push(match probe.lock {
                Ok(true) => ok("locks", "a lock of one process is seen by another"),
                Ok(false) => warn("locks", "a lock is not seen", LOCK_HINT),
                Err(error) => warn("locks", format!("none: {}", cause(&error)), LOCK_HINT),
            });
            if !matches!(probe.rename, Ok(true)) {
                found.push(fail(
                    "renames",
                    "the file system replaces what it must not",
                    "name a directory on a local disk in AGENT_SH_STATE",
                ));
            }
            found.extend(probe.space.ok().map(|(free, all)| space(free, all)));
            if probe.is_volatile {
                found.push(warn(
                    "memory only",
                    "the state directory is in memory: jobs are forgotten at a reboot",
                    "name a directory on a disk in AGENT_SH_STATE if that matters",
                ));
            }
        }
    }
    found.extend(kept(context, &store));
    found
}

const LOCK_HINT: &str =
    "who lives is then told by pids alone; name a directory on a local disk in AGENT_SH_STATE";

fn space(free: u64, all: u64) -> Finding {
    let detail = format!("{} free of {}", size(free), size(all));
    let hint = "make room, or lower the settings 'keep' and 'max_bytes' and run 'agent-sh gc'";
    match free {
        ..NOTHING => fail("space", detail, hint),
        NOTHING..LITTLE => warn("space", detail, hint),
        _ => ok("space", detail),
    }
}

fn kept(context: &Context, store: &Store) -> Option<Finding> {
    let policy = Policy {
        keep: context.settings.keep,
        max_bytes: context.settings.max_bytes,
        fresh: std::time::Duration::ZERO,
        dry_run: true,
    };
    let found = store.collect(&policy).ok()?;
    let removed = found.removed.iter().map(|removed| removed.bytes);
    let removed = removed.fold(0, u64::saturating_add);
    let (jobs, bytes) = (
        found.kept + found.removed.len(),
        found.kept_bytes.saturating_add(removed),
    );
    let due = match found.removed.len() {
        0 => String::new(),
        due => format!(", {due} to be removed by 'agent-sh gc'"),
    };
    let (size, running) = (size(bytes), found.running);
    let detail = format!("{jobs} kept, {size}, {running} running{due}");
    Some(ok("jobs", detail))
}

/// Tell-tales of a sandbox.
pub(super) fn sandbox() -> Vec<Finding> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim).unwrap_or_default().to_owned()
    };
    let mut signs = Vec::new();
    match field("Seccomp").as_str() {
        "" | "0" => {}
        mode => signs.push(format!("seccomp (mode {mode})")),
    }
    if field("NoNewPrivs") == "1" {
        signs.push("no new privileges".to_owned());
    }
    if proc::pidns() != proc::FIRST_PIDNS {
        signs.push("a pid namespace of its own".to_owned());
    }
    let signs = if signs.is_empty() {
        "no sign of one".to_owned()
    } else {
        signs.join(", ")
    };
    vec![
        if caller::dies_with_the_call(session::pid() == 1, session::parent_pid()) {
            warn(
                "sandbox",
                format!("{signs}; all its processes end with the call"),
                "no job can outlive a call here; with AGENT_SH_LINGER=auto the call stays until its jobs have ended",
            )
        } else {
            ok("sandbox", signs)
        },
    ]
}

/// The harness, the session, the shells, and whether anybody would call us.
pub(super) fn callers(context: &Context) -> Vec<Finding> {
    let env = |name: &str| context.env(name);
    let (_, harness) = caller::on_behalf(&context.settings, env, session::parent_pid());
    let is_gemini = harness.as_deref() == Some(gemini::NAME);
    let mut found = vec![match harness {
        Some(harness) => ok("harness", harness),
        None => ok("harness", "not called by a known harness"),
    }];
    found.push(match context.session() {
        None => ok("session", "none: verbs show the jobs of every session"),
        Some(key) if is_gemini && store::is_client_key(&key) => warn(
            "session",
            format!("{key} (from the harness process); no hook has said which conversation it is"),
            "'agent-sh setup gemini' puts hooks into its settings, which tell it of its jobs too",
        ),
        Some(key) => {
            let from = match (context.settings.origin("session"), keys::key_variable(env)) {
                (Some(Origin::File), _) => "the config file",
                (_, Some(variable)) => variable,
                _ if !store::is_client_key(&key) => "a hook of the harness",
                _ => "the harness process",
            };
            ok("session", format!("{key} (from {from})"))
        }
    });
    found.extend(shells(context));
    found.push(stand_ins(context));
    found
}

fn shells(context: &Context) -> Vec<Finding> {
    let ourselves = Ourselves::find();
    let path = context.env("PATH");
    let real = |name: &str| ourselves.look_up(OsStr::new(name), path.as_deref());
    let listed: Vec<String> = SHELLS
        .iter()
        .filter_map(|name| Some(real(name)?.display().to_string()))
        .collect();
    let mut found = Vec::new();
    if listed.is_empty() {
        found.push(fail(
            "real shells",
            "none in PATH, /bin or /usr/bin",
            "install bash, or name a shell in AGENT_SH_SHELL",
        ));
    } else {
        found.push(ok("real shells", listed.join(", ")));
    }
    found
}

/// Who would call us: names in PATH that are us, and variables that say which shell to call.
fn stand_ins(context: &Context) -> Finding {
    let ourselves = Ourselves::find();
    let is_us = |path: &Path| ourselves.is_at(path);
    let mut ways: Vec<String> = SHELLS
        .iter()
        .filter(|name| shell::find_program(OsStr::new(name)).is_some_and(|path| is_us(&path)))
        .map(|name| format!("'{name}' in PATH"))
        .collect();
    for variable in ["SHELL", "CLAUDE_CODE_SHELL", "CLAUDE_CODE_SHELL_PREFIX"] {
        let value = context.env(variable);
        if value.is_some_and(|value| is_us(Path::new(&value))) {
            ways.push(variable.to_owned());
        }
    }
    let login = nix::unistd::User::from_uid(nix::unistd::Uid::current());
    if login.ok().flatten().is_some_and(|user| is_us(&user.shell)) {
        ways.push("the passwd entry".to_owned());
    }
    if ways.is_empty() {
        warn(
            "stand-in",
            "no shell in PATH, no SHELL and no passwd entry leads to agent-sh",
            "'agent-sh init' says what to put where",
        )
    } else {
        ok("stand-in", ways.join(", "))
    }
}

/// A value as it may be shown: a report is pasted into places where everybody reads it.
fn shown(setting: &str, value: &str) -> String {
    if setting != "notify" {
        return text::shorten(&text::redact(value), 60);
    }
    let sinks = value.split([',', ' ', '\t', '\n']);
    let sinks: Vec<String> = sinks
        .filter(|sink| !sink.is_empty())
        .map(notify::shown)
        .collect();
    text::shorten(&sinks.join(","), 200)
}

pub(super) fn settings(context: &Context) -> Vec<Finding> {
    let file = settings::config_path(|name| context.env(name));
    let place = match &file {
        Some(path) if path.exists() => path.display().to_string(),
        Some(path) => format!("{} (not there)", path.display()),
        None => "no home directory".to_owned(),
    };
    let set: Vec<String> = SETTINGS
        .iter()
        .filter_map(|setting| match context.settings.origin(setting.name)? {
            Origin::File => Some(format!("{} (file)", setting.name)),
            Origin::Environment => {
                let value = context.env(setting.variable).unwrap_or_default();
                let value = shown(setting.name, &value.to_string_lossy());
                Some(format!("{}={value}", setting.variable))
            }
        })
        .collect();
    let set = if set.is_empty() {
        "all at their defaults".to_owned()
    } else {
        set.join(", ")
    };
    let mut found = vec![ok("settings", format!("{place}; {set}"))];
    if let Some((path, why)) = &context.settings.distrusted {
        found.push(warn(
            "settings",
            format!("'{}' is ignored: {why}", path.display()),
            "it has to be yours (or root's), in a directory that is, and 'chmod go-w' closes both",
        ));
    }
    for bad in &context.settings.bad {
        let origin = match bad.origin {
            Origin::Environment => "the environment".to_owned(),
            Origin::File => file
                .as_ref()
                .map_or_else(String::new, |f| f.display().to_string()),
        };
        let value = if bad.value.is_empty() {
            String::new()
        } else {
            format!("='{}'", bad.value)
        };
        let text = format!("{}{value} in {origin}: {}", bad.name, bad.why);
        found.push(if bad.is_unknown() {
            warn("settings", text, "correct it or take it out; it is ignored")
        } else {
            let hint =
                "correct it or take it out; with -c it is ignored, the other verbs stop at it";
            fail("settings", text, hint)
        });
    }
    let names: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .collect();
    for (name, meant) in settings::unknown_variables(names.iter().map(String::as_str)) {
        let hint = match meant {
            Some(meant) => format!("did you mean {meant}?"),
            None => "'agent-sh help' and the README list the settings".to_owned(),
        };
        found.push(warn(
            "settings",
            format!("{name} is set, but nobody reads it"),
            hint,
        ));
    }
    found
}
