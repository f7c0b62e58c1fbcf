//! Whose a process is.

use std::collections::HashMap;

use super::*;
use crate::kill::tree::Process;

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
fn init_and_ourselves_are_never_inside() {
    let mut tree = tree(true);
    tree.known.insert(1, 1001);
    let table = [process(1, 100, 100, 100), process(900, 100, 100, 100)];
    assert_eq!(pids(&tree.living(&table)), [0; 0]);
}
