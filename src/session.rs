//! Which conversation of which harness a command belongs to, as its environment tells.
//!
//! Pure. The last resort, the harness process among the ancestors, is the caller's to look for.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// Names that carry a conversation's key, the most explicit first, with the harness that sets them.
const KEYS: [(&str, Option<&str>); 6] = [
    ("AGENT_SH_SESSION", None),
    ("CLAUDE_CODE_SESSION_ID", Some("claude-code")),
    ("CODEX_THREAD_ID", Some("codex")),
    ("HERMES_SESSION_ID", Some("hermes")),
    ("CODER_CHAT_ID", Some("coder")),
    ("GEMINI_SESSION_ID", Some("gemini")),
];

/// CI systems: how a key begins, and the names whose values it is made of. The first one has to be there. Steps of
/// one job share them; legs of a matrix differ in the runner, and a job that runs again in the attempt.
const BUILDS: [(&str, &[&str]); 3] = [
    (
        "github",
        &[
            "GITHUB_RUN_ID",
            "GITHUB_JOB",
            "GITHUB_RUN_ATTEMPT",
            "RUNNER_NAME",
        ],
    ),
    ("gitlab", &["CI_JOB_ID"]),
    ("buildkite", &["BUILDKITE_JOB_ID"]),
];

/// Names that only say which harness calls.
const MARKS: [(&str, &str); 5] = [
    ("CLAUDECODE", "claude-code"),
    ("CODEX_SANDBOX", "codex"),
    ("CODEX_SANDBOX_NETWORK_DISABLED", "codex"),
    ("OPENCODE", "opencode"),
    ("GEMINI_CLI", "gemini"),
];

/// The longest key that is kept.
const LONGEST_KEY: usize = 200;

/// The key of the conversation, if the environment has one. Control characters never get in.
pub(crate) fn session_key(env: impl Fn(&str) -> Option<OsString>) -> Option<String> {
    let value = |name: &str| {
        let key = clean_key(&env(name)?.to_string_lossy());
        (!key.is_empty()).then_some(key)
    };
    let of_harness = KEYS.iter().find_map(|(name, _)| value(name));
    of_harness.or_else(|| {
        BUILDS.iter().find_map(|(system, names)| {
            let first = value(names[0])?;
            let more = names[1..].iter().filter_map(|name| value(name));
            let parts: Vec<String> = [(*system).to_owned(), first]
                .into_iter()
                .chain(more)
                .collect();
            Some(clean_key(&parts.join("-")))
        })
    })
}

/// What of a text can be a key: no control characters, and no more of it than is kept.
#[must_use]
pub(crate) fn clean_key(text: &str) -> String {
    let letters = text.chars().filter(|letter| !letter.is_control());
    let key: String = letters.take(LONGEST_KEY).collect();
    key.trim().to_owned()
}

/// The variable that the key comes from.
pub(crate) fn key_variable(env: impl Fn(&str) -> Option<OsString>) -> Option<&'static str> {
    let has_key = |wanted: &str| session_key(|name| env(name).filter(|_| name == wanted)).is_some();
    let builds = BUILDS.iter().map(|(_, names)| names[0]);
    KEYS.iter()
        .map(|(name, _)| *name)
        .chain(builds)
        .find(|name| has_key(name))
}

/// The harness that calls.
pub(crate) fn harness(env: impl Fn(&str) -> Option<OsString>) -> Option<&'static str> {
    let is_set = |name: &str| env(name).is_some_and(|value| !value.is_empty());
    let by_key = KEYS
        .iter()
        .find_map(|&(name, harness)| harness.filter(|_| is_set(name)));
    by_key.or_else(|| {
        MARKS
            .iter()
            .find_map(|&(name, harness)| is_set(name).then_some(harness))
    })
}

/// Names that help to reach a harness later: processes, directories, addresses. Never a password.
const WAKE: [&str; 13] = [
    "AGENTAPI_PORT",
    "AGENTAPI_URL",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_PID",
    "CODEX_HOME",
    "CODEX_SESSION_ID",
    "GEMINI_CLI_HOME",
    "OPENCODE_PID",
    "OPENCODE_PORT",
    "OPENCODE_SERVER_URL",
    "OPENCODE_SESSION_ID",
    "OPENCODE_URL",
];

/// What of the environment a wake-up will need, kept in the launch. An address with a password in it
/// is left out.
pub(crate) fn wake(env: impl Fn(&str) -> Option<OsString>) -> BTreeMap<String, String> {
    let kept = |name: &&str| {
        let value = env(name)?.into_string().ok()?;
        let plain =
            !value.is_empty() && value.len() <= 1024 && !value.chars().any(char::is_control);
        let open = !(name.ends_with("URL") && value.contains('@'));
        (plain && open).then(|| ((*name).to_owned(), value))
    };
    WAKE.iter().filter_map(kept).collect()
}

/// What the agent asked for, out of the text that its harness made of it: Claude Code puts every
/// command into `… && eval 'CMD' < /dev/null && pwd -P >| FILE`. Anything else is given back whole.
#[must_use]
pub(crate) fn own_command(text: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    claude_code_command(text).map_or(text.into(), Into::into)
}

fn claude_code_command(text: &[u8]) -> Option<Vec<u8>> {
    const BEFORE: &[u8] = b" && eval '";
    const QUOTE: &[u8] = b"'\"'\"'";
    const AFTER: [&[u8]; 2] = [b" < /dev/null && pwd -P >| ", b" && pwd -P >| "];
    if !text.starts_with(b"source ") {
        return None;
    }
    let start = text.windows(BEFORE.len()).position(|part| part == BEFORE)? + BEFORE.len();
    let mut rest = &text[start..];
    let mut command = Vec::new();
    loop {
        let quote = rest.iter().position(|&byte| byte == b'\'')?;
        command.extend(&rest[..quote]);
        rest = &rest[quote..];
        match rest.strip_prefix(QUOTE) {
            Some(after) => {
                command.push(b'\'');
                rest = after;
            }
            None => break,
        }
    }
    AFTER
        .iter()
        .any(|after| rest[1..].starts_with(after))
        .then_some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        }
    }

    #[test]
    fn the_most_explicit_key_wins() {
        type Case<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>, Option<&'a str>);
        let cases: [Case<'_>; 8] = [
            (&[], None, None),
            (&[("CLAUDECODE", "1")], None, Some("claude-code")),
            (&[("OPENCODE", "1")], None, Some("opencode")),
            (
                &[("CODEX_THREAD_ID", "t"), ("AGENT_SH_SESSION", "mine")],
                Some("mine"),
                Some("codex"),
            ),
            (
                &[("CODEX_THREAD_ID", "t"), ("CLAUDE_CODE_SESSION_ID", "c")],
                Some("c"),
                Some("claude-code"),
            ),
            (
                &[("AGENT_SH_SESSION", ""), ("GEMINI_SESSION_ID", "g")],
                Some("g"),
                Some("gemini"),
            ),
            (
                &[("CODER_CHAT_ID", " x\n\u{1b} ")],
                Some("x"),
                Some("coder"),
            ),
            (&[("HERMES_SESSION_ID", "h")], Some("h"), Some("hermes")),
        ];
        for (pairs, key, name) in cases {
            assert_eq!(session_key(env(pairs)).as_deref(), key, "{pairs:?}");
            assert_eq!(harness(env(pairs)), name, "{pairs:?}");
        }
    }

    #[test]
    fn a_build_is_a_session() {
        let github = [
            ("GITHUB_RUN_ID", "17"),
            ("GITHUB_JOB", "test"),
            ("GITHUB_RUN_ATTEMPT", "2"),
            ("RUNNER_NAME", "GitHub Actions 3"),
        ];
        let key = |pairs: &[(&str, &str)]| (session_key(env(pairs)), key_variable(env(pairs)));
        let wanted = Some("github-17-test-2-GitHub Actions 3".to_owned());
        assert_eq!(key(&github), (wanted.clone(), Some("GITHUB_RUN_ID")));
        assert_eq!(harness(env(&github)), None);
        // A harness that works within a build has its own.
        let within = [&github[..], &[("CODEX_THREAD_ID", "t")]].concat();
        assert_eq!(
            key(&within),
            (Some("t".to_owned()), Some("CODEX_THREAD_ID"))
        );
        assert_eq!(key(&github[1..]), (None, None));
        assert_eq!(key(&github[..2]).0.as_deref(), Some("github-17-test"));
        assert_eq!(
            key(&[("CI_JOB_ID", "4711")]),
            (Some("gitlab-4711".to_owned()), Some("CI_JOB_ID"))
        );
        assert_eq!(
            key(&[("BUILDKITE_JOB_ID", "0190-ab")]),
            (
                Some("buildkite-0190-ab".to_owned()),
                Some("BUILDKITE_JOB_ID")
            )
        );
        assert_eq!(key(&[("CI_JOB_ID", " ")]), (None, None));
    }

    #[test]
    fn the_agents_own_command_is_found_in_its_wrapping() {
        let wrapped = |inner: &str, end: &str| {
            format!(
                "source /h/s.sh 2>/dev/null || true && {{ x; }} >/dev/null 2>&1 || true && eval '{inner}'{end} && pwd -P >| /tmp/cwd"
            )
        };
        let cases = [
            (wrapped("make -j2", " < /dev/null"), "make -j2"),
            (
                wrapped("echo '\"'\"'a b'\"'\"' &", " < /dev/null"),
                "echo 'a b' &",
            ),
            (wrapped("cat <<E\nx\nE", ""), "cat <<E\nx\nE"),
            (
                "echo plain && eval 'x'".to_owned(),
                "echo plain && eval 'x'",
            ),
            (
                "source a && eval 'x' more".to_owned(),
                "source a && eval 'x' more",
            ),
        ];
        for (text, command) in cases {
            assert_eq!(own_command(text.as_bytes()), command.as_bytes(), "{text}");
        }
    }
}
