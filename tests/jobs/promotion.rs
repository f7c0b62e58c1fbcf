//! A foreground command that takes too long becomes a job; what is a job already does not.

use crate::support::{Sandbox, Status, records, stands_in, wait_for_records};

/// `run --wait` stays for its job however long that takes: it is one job, and not a second one.
#[test]
fn a_job_that_is_waited_for_is_not_promoted() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let ended = sandbox
        .call("agent-sh")
        .args(["run", "--wait", "--", "sh", "-c", "sleep 1; exit 7"])
        .env("AGENT_SH_PROMOTE_AFTER", "50ms")
        .run();
    assert_eq!(ended.status, Status::Exited(7), "{ended:?}");
    wait_for_records(&sandbox, 1);
    let how: Vec<String> = records(&sandbox)
        .iter()
        .map(|record| record.how().to_owned())
        .collect();
    assert_eq!(how, ["run"]);
}
