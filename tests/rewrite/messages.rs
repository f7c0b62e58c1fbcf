//! What a shell says of a job that cannot run: its own words, with its own name and line.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::compared::{compare, shells};
use crate::support::Sandbox;

/// Commands that cannot run, or not as they are.
const COMMANDS: &[&str] = &[
    "nosuch a",
    "\"no such\"",
    "./nosuch",
    "./dir",
    "./plain",
    "./badint",
    "./garbage",
    "./script q",
    "./empty",
    "/etc/passwd/x",
    "\"\"",
    "no/such\\ dir/x",
    "$none a",
    "A=1 nosuch",
    "nosuch >out",
    "nosuch </nosuchfile",
    "nohup nosuch",
    "kill 99999999",
    "printf %d x",
    "[ a -b c ]",
    "cd /nosuch",
    "eval \"(\"",
    "exec nosuch",
    "command nosuch",
    "nosuch | cat",
    "( nosuch )",
    "{ nosuch; }",
    "true && nosuch",
];

fn prepare(sandbox: &Sandbox) {
    let work = sandbox.work();
    fs::create_dir(work.join("dir")).unwrap();
    let files: [(&str, &[u8], u32); 5] = [
        ("plain", b"x\n", 0o644),
        ("badint", b"#!/no/such/interpreter\n", 0o755),
        ("garbage", b"\x7fELFgarbage\0\0", 0o755),
        ("script", b"echo \"script $0 $1\"\n", 0o755),
        ("empty", b"", 0o755),
    ];
    for (name, content, mode) in files {
        let path = work.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

#[test]
fn a_job_that_cannot_run_is_reported_as_by_the_shell() {
    let mut cases = Vec::new();
    for command in COMMANDS {
        for text in [
            format!("w=wait; none=nosuch; {command} & $w $!; echo $?"),
            format!("w=wait; none=nosuch\n:\n{command} & $w $!; echo $?"),
            format!("w=wait; none=nosuch\nf() {{\n  :\n  {command} &\n}}\nf; $w $!; echo $?"),
            format!("w=wait; none=nosuch\neval '\n{command} & $w $!; echo $?'"),
        ] {
            cases.extend(shells("bdz").map(|shell| (shell, text.clone())));
        }
    }
    compare(&cases, prepare);
}

#[test]
fn a_job_that_cannot_run_is_no_job() {
    let sandbox = Sandbox::new();
    for shell in shells("bdz") {
        let call = sandbox.call(shell).c("w=wait; nosuch & $w $!");
        drop(call.run());
    }
    assert_eq!(sandbox.agent_sh(["ps", "-a", "--json"]).text().trim(), "[]");
    sandbox.assert_no_survivors();
}
