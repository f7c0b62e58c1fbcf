//! Every dependency's licence is one that we allow, and comes from the registry.
//!
//! This stands in for `cargo deny check licenses sources`, which takes minutes to compile. It reads the
//! same list, `.cargo/deny.toml`.

use std::process::Command;

use serde_json::Value;

use super::root;

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// What is built for this machine; the packages of other systems need not even be downloaded.
fn packages() -> Vec<Value> {
    let version = output(&std::env::var("RUSTC").unwrap_or("rustc".into()), &["-vV"]);
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap();
    let args = [
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--offline",
        "--filter-platform",
        host,
    ];
    let text = output(env!("CARGO"), &args);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn allowed() -> Vec<String> {
    let text = std::fs::read_to_string(root().join(".cargo/deny.toml")).unwrap();
    let settings: toml::Table = text.parse().unwrap();
    let list = settings["licenses"]["allow"].as_array().unwrap();
    list.iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

/// Whether an SPDX expression can be met with these licences. AND binds tighter than OR.
fn met(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any(&words, &mut at, allowed);
    met && at == words.len()
}

fn any(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(words, at, allowed);
    }
    met
}

fn all(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allowed);
    }
    met
}

fn one(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let Some(&word) = words.get(*at) else {
        return false;
    };
    *at += 1;
    if word == "(" {
        let met = any(words, at, allowed);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return met && closed;
    }
    // An exception only grants more.
    if words.get(*at) == Some(&"WITH") {
        *at += 2;
    }
    allowed.iter().any(|name| name == word)
}

#[test]
fn expressions_are_understood() {
    let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT OR GPL-3.0", true),
        ("MIT AND GPL-3.0", false),
        ("MIT/Apache-2.0", true),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("GPL-3.0 OR MIT AND Apache-2.0", true),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("(MIT", false),
        ("", false),
    ] {
        assert_eq!(met(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn every_licence_is_allowed() {
    let allowed = allowed();
    for package in packages() {
        let (name, licence) = (&package["name"], package["license"].as_str());
        let fine = licence.is_some_and(|expression| met(expression, &allowed));
        assert!(fine, "{name} is under {licence:?}");
    }
}

#[test]
fn everything_comes_from_the_registry() {
    for package in packages() {
        let source = package["source"].as_str();
        let registry = "registry+https://github.com/rust-lang/crates.io-index";
        assert!(
            source.is_none_or(|source| source == registry),
            "{}: {source:?}",
            package["name"]
        );
    }
}
