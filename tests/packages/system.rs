//! `setup system`: login shells, in a mount namespace with an `/etc/shells` of its own.

use std::fs;

use crate::support::{Call, Sandbox, Status};

/// A call in which `/etc/shells` and `/etc/passwd` are copies.
fn call<'a>(sandbox: &'a Sandbox, words: &[&str]) -> Call<'a> {
    let enter = "mount --bind \"$1\" /etc/shells && mount --bind \"$2\" /etc/passwd || exit 99; shift 2; exec \"$@\"";
    sandbox
        .unshare(&["--mount"])
        .args(["sh", "-c", enter, "sh"])
        .arg(sandbox.path("shells"))
        .arg(sandbox.path("passwd"))
        .arg(sandbox.link("agent-sh"))
        .args(["setup", "system", "--dir"])
        .arg(sandbox.path("bin"))
        .args(words)
}

#[test]
fn links_and_entries_come_and_go() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let (shells, passwd) = (sandbox.path("shells"), sandbox.path("passwd"));
    let before = "# /etc/shells\n/bin/sh\n/bin/bash";
    fs::write(&shells, before).unwrap();
    fs::write(&passwd, "root:x:0:0:root:/root:/bin/bash\n").unwrap();
    let link = sandbox.path("bin/agent-sh-bash");
    let printed = call(&sandbox, &["--print"]).run();
    assert!(printed.succeeded(), "{printed:?}");
    assert!(printed.text().contains("/agent-sh-bash\n"), "{printed:?}");
    assert_eq!(fs::read_to_string(&shells).unwrap(), before);
    for _ in 0..2 {
        let made = call(&sandbox, &[]).run();
        assert!(made.succeeded(), "{made:?}");
        let list = fs::read_to_string(&shells).unwrap();
        assert!(list.starts_with(&format!("{before}\n")), "{list}");
        assert_eq!(list.matches("/agent-sh-bash\n").count(), 1, "{list}");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
    // As login does it: by a name with a dash.
    let login = Call::argv0(sandbox.real_call("env"), "env");
    let ended = login.arg(&link).args(["-c", "echo $BASH_VERSION"]).run();
    assert!(ended.succeeded() && ended.text().len() > 1, "{ended:?}");
    // Nobody is locked out.
    let user = format!("ann:x:9:9::/home/ann:{}\n", link.display());
    fs::write(&passwd, user).unwrap();
    let refused = call(&sandbox, &["--undo"]).run();
    assert_eq!(refused.status, Status::Exited(125), "{refused:?}");
    assert!(refused.errors().contains("user 'ann'"), "{refused:?}");
    assert!(link.exists());
    fs::write(&passwd, "").unwrap();
    for _ in 0..2 {
        let undone = call(&sandbox, &["--undo"]).run();
        assert!(undone.succeeded(), "{undone:?}");
        let list = fs::read_to_string(&shells).unwrap();
        assert_eq!(list, format!("{before}\n"));
        assert!(fs::symlink_metadata(&link).is_err());
    }
}

#[test]
fn a_file_in_the_way_stays() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    for name in ["shells", "passwd"] {
        fs::write(sandbox.path(name), "").unwrap();
    }
    fs::create_dir(sandbox.path("bin")).unwrap();
    fs::write(sandbox.path("bin/agent-sh-bash"), "mine").unwrap();
    let ended = call(&sandbox, &[]).run();
    assert_eq!(ended.status, Status::Exited(125), "{ended:?}");
    assert_eq!(
        fs::read(sandbox.path("bin/agent-sh-bash")).unwrap(),
        b"mine"
    );
    assert_eq!(fs::read(sandbox.path("shells")).unwrap(), b"");
    let left = fs::read_dir(sandbox.path("bin")).unwrap().count();
    assert_eq!(left, 1);
}
