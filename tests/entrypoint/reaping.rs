//! Orphans.

use super::Init;
use crate::support::{Sandbox, Status};

/// Makes a thousand orphans, then looks until no ended one is left, for at most half a minute.
const ORPHANS: &str = r#"
i=0
while [ $i -lt 1000 ]; do (true &); i=$((i + 1)); done
for try in $(seq 600); do
    [ "$(ps -o stat= --ppid $PPID | grep -c Z)" = 0 ] && exit 0
    sleep 0.05
done
ps -ef; exit 1
"#;

#[test]
fn a_thousand_orphans_leave_no_zombie() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    for init in Init::all() {
        let ended = init.as_pid_1(&sandbox, &[], &["sh", "-c", ORPHANS]).run();
        assert_eq!(
            ended.status,
            Status::Exited(0),
            "{init:?}: {}",
            ended.text()
        );
    }
    for init in Init::pair() {
        let ended = init.below(&sandbox, &[], &["sh", "-c", ORPHANS]).run();
        assert_eq!(
            ended.status,
            Status::Exited(0),
            "{init:?} -s: {}",
            ended.text()
        );
    }
}

#[test]
fn without_the_reapers_role_it_says_so() {
    let sandbox = Sandbox::new();
    let ended = sandbox.agent_sh(["entrypoint", "--", "true"]);
    assert!(ended.succeeded(), "{ended:?}");
    assert!(ended.errors().contains("not PID 1"), "{ended:?}");
}
