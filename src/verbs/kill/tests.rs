//! Whose a process is, and how signals are named.

use std::collections::HashMap;

use super::tree::Process;
use super::*;

fn process(pid: i32, ppid: i32, pgid: i32, sid: i32) -> Process {
    Process {
        pid,
        ppid,
        pgid,
        sid,
        starttime: 1000 + pid as u64,
    }
}

fn tree(has_session: bool) -> Tree {
    Tree {
        leader: (100, 1100),
        has_session,
        has_group: has_session,
        known: HashMap::from([(100, 1100)]),
        spared: [900, 90],
        home: None,
    }
}

fn pids(living: &[Process]) -> Vec<i32> {
    living.iter().map(|p| p.pid).collect()
}

#[test]
fn session_group_and_descendants() {
    let table = [
        process(1, 0, 1, 1),
        process(90, 1, 90, 90),
        process(100, 90, 100, 100),
        process(101, 100, 100, 100),
        process(102, 101, 102, 102),
        process(103, 90, 103, 100),
        process(200, 90, 200, 200),
        process(900, 102, 102, 102),
    ];
    assert_eq!(pids(&tree(true).living(&table)), [100, 101, 102, 103]);
    assert_eq!(pids(&tree(false).living(&table)), [100, 101, 102]);
}

#[test]
fn children_are_found_after_their_parents_went() {
    let mut tree = tree(false);
    let before = [process(100, 90, 50, 50), process(101, 100, 50, 50)];
    assert_eq!(pids(&tree.living(&before)), [100, 101]);
    let after = [process(101, 1, 50, 50), process(102, 101, 50, 50)];
    assert_eq!(pids(&tree.living(&after)), [101, 102]);
}

#[test]
fn a_reused_pid_is_a_stranger() {
    let mut stranger = process(100, 1, 100, 100);
    stranger.starttime = 7;
    let child = process(300, 100, 100, 100);
    assert_eq!(pids(&tree(true).living(&[stranger, child])), [0; 0]);
}

#[test]
fn signals_as_every_kill_takes_them() {
    for (words, wanted) in [
        ("agent-sh kill -9 7f3k", "agent-sh kill --signal=9 7f3k"),
        (
            "agent-sh kill -KILL 7f3k",
            "agent-sh kill --signal=KILL 7f3k",
        ),
        (
            "agent-sh kill 7f3k -SIGTERM",
            "agent-sh kill 7f3k --signal=SIGTERM",
        ),
        ("agent-sh kill -USR1 a b", "agent-sh kill --signal=USR1 a b"),
        ("agent-sh kill -s 9 a", "agent-sh kill -s 9 a"),
        ("agent-sh kill -- -9", "agent-sh kill -- -9"),
        ("agent-sh kill -99 a", "agent-sh kill -99 a"),
        ("agent-sh kill -NONE a", "agent-sh kill -NONE a"),
        ("agent-sh kill -h", "agent-sh kill -h"),
    ] {
        let words = words.split(' ').map(OsString::from).collect();
        let wanted: Vec<OsString> = wanted.split(' ').map(OsString::from).collect();
        assert_eq!(readable(words), wanted);
    }
}

#[test]
fn init_and_ourselves_are_never_inside() {
    let mut tree = tree(true);
    tree.known.insert(1, 1001);
    let table = [process(1, 100, 100, 100), process(900, 100, 100, 100)];
    assert_eq!(pids(&tree.living(&table)), [0; 0]);
}

#[test]
fn ends_that_came_before() {
    for (now, before) in [
        ("exited with 0 after 2s", "already exited with 0 after 2s"),
        ("was signaled (KILL)", "was already signaled (KILL)"),
        ("is lost (reboot)", "was already lost (reboot)"),
    ] {
        assert_eq!(already(now), before);
    }
}
