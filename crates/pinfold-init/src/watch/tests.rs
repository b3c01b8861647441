use std::time::Instant;

use pinfold_wire::Bounds;

use super::processes::Usage;
use super::{CLOSE, Misnamed, PartWatch, Watch, Watched};

/// More than any machine has.
const ENOUGH: u64 = 1 << 60;

/// A number that no process has: the highest is 4194304 (proc(5), `pid_max`).
const GONE: u32 = u32::MAX;

#[test]
fn a_process_whose_name_is_not_utf_8_is_counted() {
    let process = Misnamed::start();
    let usage = Usage::of([process.pid()], true, true).unwrap();
    assert_eq!((usage.tasks, usage.pids), (1, vec![process.pid()]));
    assert!(usage.memory > 0);
}

#[test]
fn a_process_that_has_gone_uses_nothing() {
    let process = Misnamed::start();
    let usage = Usage::of([GONE, process.pid()], true, true).unwrap();
    assert_eq!(usage.pids, [process.pid()]);
    assert!(Usage::of([GONE], true, true).unwrap().pids.is_empty());
}

#[test]
fn no_limit_is_reached_while_a_process_has_a_name_that_is_not_utf_8() {
    let process = Misnamed::start();
    let limits = Watched { memory: Some(ENOUGH), pids: Some(ENOUGH), ..Watched::default() };
    let mut watch = Watch::new(limits);
    watch.due = Instant::now();
    assert_eq!(watch.look(), None);

    let bounds = Bounds { memory: Some(ENOUGH), pids: Some(ENOUGH), ..Bounds::default() };
    let mut part = PartWatch::new(bounds).unwrap().unwrap();
    assert!(part.patience() <= CLOSE);
    assert_eq!(part.look(|| Some(vec![process.pid()])), None);
}
