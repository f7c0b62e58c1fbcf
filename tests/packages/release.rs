//! What `shims/package` makes of a program: an archive, checksums, a bill of materials, and the files of the package
//! for Debian.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::static_program;
use crate::support::{Sandbox, has};

/// Whether one of these files is meant by an asset's path; only its last part may have a `*`.
fn is_there(root: &Path, pattern: &str) -> bool {
    let (dir, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let Some((before, after)) = name.split_once('*') else {
        return root.join(pattern).exists();
    };
    let entries = fs::read_dir(root.join(dir)).into_iter().flatten();
    let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.any(|name| name.starts_with(before) && name.ends_with(after))
}

#[test]
fn a_release_is_whole() {
    if !has("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let Some(program) = static_program(&sandbox) else {
        return;
    };
    // Without the tables for debuggers, which take long to be packed.
    let small = sandbox.path("agent-sh");
    let strip = sandbox
        .real_call("strip")
        .arg("-o")
        .args([&small, &program]);
    assert!(strip.run().succeeded());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = sandbox.path("out");
    let path = std::env::var("PATH").unwrap();
    let mut call = sandbox.real_call("python3");
    call = call
        .arg(root.join("shims/package"))
        .arg("--program")
        .arg(&small);
    call = call
        .arg("--out")
        .arg(&out)
        .env("PATH", path)
        .env("CARGO_NET_OFFLINE", "true");
    for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = std::env::var_os(name) {
            call = call.env(name, value);
        }
    }
    let made = call.run();
    assert!(made.succeeded(), "{made:?}");
    let sums = sandbox
        .real_call("sha256sum")
        .args(["-c", "SHA256SUMS"])
        .cwd(&out)
        .run();
    assert!(sums.succeeded(), "{sums:?}");
    let archive = made.text().lines().next().unwrap().to_owned();
    let unpacked = sandbox.path("unpacked");
    fs::create_dir(&unpacked).unwrap();
    let tar = sandbox
        .real_call("tar")
        .args(["-xzf", &archive, "--strip-components=1", "-C"]);
    assert!(tar.arg(&unpacked).run().succeeded());
    for name in [
        "agent-sh",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "man/agent-sh-ci-report.1.gz",
        "completions/bash-completion/completions/agent-sh",
    ] {
        assert!(unpacked.join(name).exists(), "{name}");
    }
    let texts = fs::read_to_string(unpacked.join("THIRD-PARTY.txt")).unwrap();
    let lock = fs::read_to_string(root.join("Cargo.lock")).unwrap();
    let bill = fs::read(out.join("agent-sh.cdx.json")).unwrap();
    let bill: Value = serde_json::from_slice(&bill).unwrap();
    let components = bill["components"].as_array().unwrap();
    assert!(components.len() > 50, "{}", components.len());
    for component in components {
        let (name, version) = (&component["name"], &component["version"]);
        assert!(
            lock.contains(&format!("name = {name}\nversion = {version}\n")),
            "{component}"
        );
        let checksum = component["hashes"][0]["content"].as_str().unwrap();
        assert!(
            lock.contains(&format!("checksum = \"{checksum}\"")),
            "{component}"
        );
        let owner = format!("{} {} (", name.as_str().unwrap(), version.as_str().unwrap());
        assert!(texts.contains(&owner), "no licence of {component}");
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let deb = &manifest["package"]["metadata"]["deb"];
    for asset in deb["assets"].as_array().unwrap() {
        let path = asset[0].as_str().unwrap();
        assert!(is_there(root, path), "nothing for the asset '{path}'");
    }
}
