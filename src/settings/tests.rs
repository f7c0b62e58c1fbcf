//! Settings from environment, file and defaults.

use super::*;

fn read(pairs: &[(&str, &str)], file: Option<&str>) -> Settings {
    Settings::read(
        |name| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        },
        file,
        Checks::NONE,
    )
}

#[test]
fn environment_over_file_over_default() {
    assert_eq!(read(&[], None), Settings::default());
    let file = "announce = false\nkeep = \"2d\"\ntranscript_cap = \"1M\"\nnotify = [\"auto\", \"dir:/x\"]\npromote_after = 100";
    let settings = read(
        &[("AGENT_SH_KEEP", "3h"), ("AGENT_SH_ON_TERM", "promote")],
        Some(file),
    );
    assert!(!settings.announce);
    assert_eq!(settings.keep, Duration::from_secs(3 * 3600));
    assert_eq!(settings.transcript_cap, MIB);
    assert_eq!(settings.notify, ["auto", "dir:/x"]);
    assert_eq!(settings.promote_after, Some(Duration::from_secs(100)));
    assert_eq!(settings.on_term, OnTerm::Promote);
    assert!(settings.check(None).is_ok() && settings.ignored.is_empty());
}

#[test]
fn a_bad_value_is_put_aside_and_named() {
    for (variable, value) in [
        ("AGENT_SH_STATE", "relative"),
        ("AGENT_SH_SHELL", "bin/bash"),
        ("AGENT_SH_ANNOUNCE", "maybe"),
        ("AGENT_SH_PROMOTE_AFTER", "soon"),
        ("AGENT_SH_PROMOTE_AFTER", "-3"),
        ("AGENT_SH_PROMOTE_AFTER", "1e99"),
        ("AGENT_SH_PROMOTE_AFTER", "NaN"),
        ("AGENT_SH_ON_TERM", "die"),
        ("AGENT_SH_LINGER", "perhaps"),
        ("AGENT_SH_TRANSCRIPT_CAP", "64X"),
        ("AGENT_SH_TRANSCRIPT_CAP", "99999999999T"),
        ("AGENT_SH_KEEP", "99999999999d"),
        ("AGENT_SH_MAX_BYTES", "much"),
        ("AGENT_SH_CAPTURE", "tape"),
        ("AGENT_SH_RECORD_COMMAND", "none"),
    ] {
        let settings = read(&[(variable, value)], None);
        assert_eq!(settings.ignored.len(), 1, "{variable}={value}");
        let error = settings.check(None).unwrap_err().to_string();
        assert!(error.contains(variable) && error.contains(value), "{error}");
        let clean = Settings {
            set_by: Vec::new(),
            ignored: Vec::new(),
            bad: Vec::new(),
            ..settings
        };
        assert_eq!(clean, Settings::default(), "{variable}={value}");
    }
}

#[test]
fn unknown_keys_name_the_nearest() {
    for (key, meant) in [
        ("anounce", Some("announce")),
        ("promote-after", Some("promote_after")),
        ("AGENT_SH_KEEP", Some("keep")),
        ("transcriptcap", Some("transcript_cap")),
        ("colour_of_bikeshed", None),
    ] {
        assert_eq!(nearest(key), meant, "{key}");
        let settings = read(&[], Some(&format!("{key} = 1")));
        assert!(settings.check(None).is_ok(), "{key} stops nothing");
        let error = settings.unknown(None).next().unwrap();
        assert_eq!(
            meant.is_some_and(|meant| error.to_string().contains(meant)),
            meant.is_some()
        );
    }
    assert!(read(&[], Some("this is = = no toml")).check(None).is_err());
    assert!(
        read(&[], Some("keep = [\"1d\", \"2d\"]"))
            .check(None)
            .is_err()
    );
}

/// The table of docs/settings.md is this one. `agent-sh doctor --settings-table` prints it.
#[test]
fn the_readme_has_the_table() {
    let readme = include_str!("../../docs/settings.md");
    assert!(readme.contains(&markdown()), "{}", markdown());
    for setting in SETTINGS {
        let upper = format!("AGENT_SH_{}", setting.name.to_ascii_uppercase());
        assert_eq!(setting.variable, upper);
    }
}

#[test]
fn where_a_value_came_from() {
    let settings = read(
        &[("AGENT_SH_KEEP", "3h"), ("AGENT_SH_LINGER", "x")],
        Some("keep = \"2d\"\nannounce = false\nlinger = \"always\""),
    );
    assert_eq!(settings.origin("keep"), Some(Origin::Environment));
    assert_eq!(settings.origin("announce"), Some(Origin::File));
    // A bad value leaves the one below it.
    assert_eq!(settings.origin("linger"), Some(Origin::File));
    assert_eq!(settings.linger, Linger::Always);
    assert_eq!(settings.origin("capture"), None);
    let file = Path::new("/c/config.toml");
    for (text, wanted) in [
        (
            "anounce = 1",
            "setting anounce='1' in '/c/config.toml': unknown setting; did you mean 'announce'?",
        ),
        (
            "keep = \"1d\"\n= 3",
            "setting config.toml in '/c/config.toml': line 2: ",
        ),
        (
            "keep = \"soon\"",
            "setting keep='soon' in '/c/config.toml': expected a duration",
        ),
    ] {
        let settings = read(&[], Some(text));
        let error = settings.check(Some(file)).err();
        let error = error.or(settings.unknown(Some(file)).next()).unwrap();
        assert!(error.to_string().starts_with(wanted), "{error}");
    }
}

#[test]
fn variables_that_nobody_reads() {
    let names = [
        "AGENT_SH_KEEP",
        "AGENT_SH_ANOUNCE",
        "AGENT_SH_JOB",
        "PATH",
        "AGENT_SH_COLOUR_OF_BIKESHED",
    ];
    assert_eq!(
        unknown_variables(names.into_iter()),
        [
            ("AGENT_SH_ANOUNCE", Some("AGENT_SH_ANNOUNCE")),
            ("AGENT_SH_COLOUR_OF_BIKESHED", None),
        ]
    );
}

#[test]
fn durations_and_sizes() {
    for (text, seconds) in [
        ("100s", 100),
        ("100", 100),
        ("2m", 120),
        ("1h 30m", 5400),
        (" 7d ", 604_800),
    ] {
        assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
    for (text, bytes) in [
        ("0", 0),
        ("64M", 64 * MIB),
        ("64MiB", 64 * MIB),
        ("8 KB", 8192),
        ("1g", 1 << 30),
        ("7b", 7),
    ] {
        assert_eq!(size(text), Ok(bytes), "{text}");
    }
    for bad in ["", "M", "1.5M", "-1", "1x", "1i", "1ib"] {
        assert!(size(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_config_file_is_found_by_absolute_paths_only() {
    let path = |pairs: &[(&str, &str)]| {
        config_path(|name| {
            pairs
                .iter()
                .find(|(k, _)| *k == name)
                .map(|(_, v)| OsString::from(v))
        })
    };
    assert_eq!(
        path(&[("HOME", "/h")]),
        Some("/h/.config/agent-sh/config.toml".into())
    );
    assert_eq!(
        path(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]),
        Some("/x/agent-sh/config.toml".into())
    );
    assert_eq!(
        path(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "x")]),
        Some("/h/.config/agent-sh/config.toml".into())
    );
    assert_eq!(path(&[]), None);
}

/// No text in the file, and no value, ends the process that reads it; what is said of it stays short.
#[test]
fn no_file_is_too_strange() {
    let deep = format!("a = {}", "[".repeat(100_000));
    let dots = format!("{} = 1", vec!["a"; 50_000].join("."));
    let many: String = (0..5_000).map(|n| format!("unknown{n} = {n}\n")).collect();
    let long = format!("{} = 1", "x".repeat(200_000));
    for text in [deep, dots, many, long] {
        let read = Settings::read(|_| None, Some(&text), Checks::NONE);
        let said: usize = read.ignored.iter().map(String::len).sum();
        assert!(!read.ignored.is_empty() && said < 10_000, "{said}");
    }
    for value in [
        "18446744073709551615",
        "18446744073709551616",
        "9223372036854775807G",
        "1e999",
        "-1",
        "nan",
        "inf",
        "999999999999999999999y",
        "\u{e9}5m",
        "5\u{e9}",
    ] {
        for name in [
            "AGENT_SH_KEEP",
            "AGENT_SH_TRANSCRIPT_CAP",
            "AGENT_SH_PROMOTE_AFTER",
        ] {
            let env = |wanted: &str| (wanted == name).then(|| value.into());
            let read = Settings::read(env, None, Checks::NONE);
            assert!(
                read.keep <= Duration::from_secs(36_500 * 86_400),
                "{name}={value}"
            );
            assert!(read.transcript_cap <= i64::MAX as u64, "{name}={value}");
        }
    }
    let long = "s\u{1b}".repeat(5_000);
    let env = |wanted: &str| (wanted == "AGENT_SH_SESSION").then(|| long.clone().into());
    let session = Settings::read(env, None, Checks::NONE).session.unwrap();
    assert!(session.len() <= 200 && !session.contains('\u{1b}'));
}
