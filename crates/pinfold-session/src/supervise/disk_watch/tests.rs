use std::fs;

use rustix::event::{PollFd, PollFlags};

use super::*;

fn waits_for(disk_watch: &DiskWatch) -> Option<LimitReached> {
    let mut ready = [PollFd::from_borrowed_fd(disk_watch.waiting(), PollFlags::IN)];
    rustix::event::poll(&mut ready, None).unwrap();
    disk_watch.reached()
}

#[test]
fn full_directory_is_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let bound = Bound { dir: dir.path().to_owned(), most: ByteSize::from_bytes(1 << 20) };
    assert_eq!(bound.look().unwrap(), None);
    let disk_watch = DiskWatch::watch(bound.clone()).unwrap();
    fs::write(dir.path().join("file"), vec![1; 2 << 20]).unwrap();
    assert_eq!(waits_for(&disk_watch), Some(LimitReached::Build));
    assert_eq!(disk_watch.reached(), None);
    assert_eq!(bound.look().unwrap(), Some(LimitReached::Build));
}

#[test]
fn a_count_is_due_when_half_of_the_room_may_be_used() {
    let last = |took| Count { bytes: 100, used: 1000, at: Instant::now(), took };
    let quick = last(Duration::ZERO);
    assert!(is_due(None, 0, 1));
    assert!(!is_due(Some(&quick), 1000 + 449, 1000));
    assert!(is_due(Some(&quick), 1000 + 450, 1000));
    assert!(!is_due(Some(&last(LONGEST)), 1000 + 450, 1000), "it took long");
    let old = Count { at: Instant::now() - LONGEST, ..quick };
    assert!(is_due(Some(&old), 0, 1000), "others may have freed some");
}
