//! Our shell files mean what they seem to mean.

use std::process::Command;

use super::root;
use crate::support::{has, has_on_path};

fn passes(checker: &str, args: &[&str], files: &[&str]) {
    let mut command = Command::new(checker);
    let output = command.args(args).args(files).current_dir(root()).output();
    let output = output.unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{checker}:\n{said}");
}

#[test]
fn shellcheck_has_nothing_to_say() {
    if has_on_path("shellcheck") {
        let files = [
            "src/rewrite/prelude.bash",
            "src/rewrite/prelude.sh",
            "tests/run",
            "tests/fresh-debian",
            ".ci/run",
            "shims/demo",
        ];
        passes("shellcheck", &[], &files);
    }
}

/// shellcheck does not know zsh; that shell can say itself whether it can read a text.
#[test]
fn zsh_can_read_its_function() {
    if has("zsh") {
        passes("zsh", &["-n"], &["src/rewrite/prelude.zsh"]);
    }
}
