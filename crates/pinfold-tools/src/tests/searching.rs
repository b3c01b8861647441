//! Finding files and lines, and watching them.

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::{kind, place};
use crate::frame::{self, Frame};
use crate::operation::{Answer, Operation};
use crate::{Change, ErrorKind, Find, Grep, GrepMode, List, Read, Roots, Watch, serve};

#[test]
fn files_are_found_as_gitignore_has_globs() {
    let place = place();
    for name in ["a.rs", "src/b.rs", "src/deep/c.rs", "d.txt", ".hidden.rs", "target/e.rs"] {
        place.file(name, "");
    }
    place.file(".git/x.rs", "");
    place.file(".gitignore", "target\n");
    assert_eq!(place.find("*.rs"), [".hidden.rs", "a.rs", "src/b.rs", "src/deep/c.rs"]);
    assert_eq!(place.find("src/*.rs"), ["src/b.rs"]);
    assert_eq!(place.find("/*.rs"), [".hidden.rs", "a.rs"]);
    assert_eq!(place.find("**/deep/**"), ["src/deep/c.rs"]);
    assert_eq!(place.find("{d,a}.*"), ["a.rs", "d.txt"]);
    assert_eq!(place.find("deep"), ["src/deep"]);
    let find = Find { pattern: "[".to_owned(), path: ".".into(), ..Find::default() };
    assert_eq!(kind(place.tools.find(find)), ErrorKind::Pattern);
    let ignored = Find { ignored: true, pattern: "e.rs".to_owned(), path: ".".into(), limit: None };
    assert_eq!(place.tools.find(ignored).expect("entries").entries.len(), 1);
    let few = Find { limit: Some(2), pattern: "*.rs".into(), path: ".".into(), ignored: false };
    let few = place.tools.find(few).expect("entries");
    assert_eq!((few.entries.len(), few.truncated), (2, true));
}

#[test]
fn lines_are_found_as_ripgrep_finds_them() {
    let place = place();
    place.file("a.rs", "fn One() {}\n// two\nfn three() {}\n");
    place.file("b/c.txt", "one\nfn one\n");
    place.file("binary", "fn \0 one\n");
    place.file(".git/config", "fn one\n");
    place.file("ignored/x", "fn one\n");
    place.file(".gitignore", "ignored\n");
    let grep = |pattern: &str| Grep { pattern: pattern.to_owned(), ..Grep::default() };
    assert_eq!(
        place.grep(grep("^fn")),
        ["a.rs:1:fn One() {}", "a.rs:3:fn three() {}", "b/c.txt:2:fn one"]
    );
    assert_eq!(
        place.grep(Grep { ignore_case: true, word: true, ..grep("one") }),
        ["a.rs:1:fn One() {}", "b/c.txt:1:one", "b/c.txt:2:fn one"]
    );
    assert_eq!(place.grep(Grep { literal: true, ..grep("() {}") }).len(), 2);
    assert_eq!(
        place.grep(Grep { before: 1, ..grep("three") }),
        ["a.rs-2-// two", "a.rs:3:fn three() {}"]
    );
    let globs = vec!["*.txt".to_owned()];
    assert_eq!(place.grep(Grep { globs, ..grep("fn") }), ["b/c.txt:2:fn one"]);
    assert_eq!(place.grep(Grep { mode: GrepMode::Files, ..grep("fn") }), ["a.rs:0:", "b/c.txt:0:"]);
    assert_eq!(place.grep(Grep { mode: GrepMode::Count, ..grep("fn") }), ["a.rs:2:", "b/c.txt:1:"]);
    assert_eq!(
        place.grep(Grep { multiline: true, ..grep(r"two\nfn") }),
        ["a.rs:2:// two", "a.rs:3:fn three() {}"]
    );
    assert_eq!(place.grep(grep(r"\x20$")), Vec::<String>::new());
    let bad = Grep { path: ".".into(), ..grep("(") };
    assert_eq!(kind(place.tools.grep(bad)), ErrorKind::Pattern);
    let one = Grep { path: "b/c.txt".into(), ..grep("fn") };
    assert_eq!(place.tools.grep(one).expect("lines").lines[0].path, "c.txt".into());
}

#[test]
fn a_limit_cuts_the_same_answer_short_each_time() {
    let place = place();
    for number in 0..600 {
        place.file(&format!("d{}/f{number}", number % 7), "match\nmatch\nno\n");
    }
    let grep = |limit| Grep {
        pattern: "^match".to_owned(),
        path: ".".into(),
        limit,
        after: 1,
        ..Grep::default()
    };
    let whole = place.tools.grep(grep(Some(5000))).expect("lines");
    assert_eq!((whole.matches, whole.truncated, whole.lines.len()), (1200, false, 1800));
    for limit in [1, 3, 4, 501] {
        let some = place.tools.grep(grep(Some(limit))).expect("lines");
        assert_eq!((some.matches, some.truncated), (limit, true));
        assert_eq!(some.lines[..], whole.lines[..some.lines.len()], "{limit}");
    }
    let long = "x".repeat(5000);
    place.file("long", &format!("match {long}"));
    let line = Grep { path: "long".into(), line_length: Some(9), ..grep(None) };
    let line = place.tools.grep(line).expect("lines").lines.remove(0);
    assert_eq!((line.text.to_text().as_ref(), line.cut), ("match xxx", true));
}

#[test]
fn running_request_can_be_cancelled_and_others_do_not_wait_for_it() {
    let place = place();
    let path = place.file("huge", "");
    // Sparse: there is nothing to find for a long time.
    fs::File::options().write(true).open(&path).expect("a file").set_len(1 << 40).expect("a size");
    let mut file = fs::OpenOptions::new().append(true).open(&path).expect("a file");
    file.write_all(b"end").expect("an end");
    place.file("small", "here\n");
    let grep = Grep { pattern: "x".repeat(50), multiline: false, ..Grep::default() };
    let watch = place.tools.watch(Watch { path: ".".into(), recursive: true }).expect("a call");
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let operation = crate::Operation::Grep(Grep { path: ".".into(), ..grep.clone() });
            place.tools.call(&operation, &[]).expect("a call")
        })
        .collect();
    assert_eq!(place.read("small").expect("content"), b"here\n");
    for call in calls {
        call.cancel();
        let answer = call.lines();
        assert!(
            answer.as_ref().is_err_and(|error| error.kind == ErrorKind::Cancelled)
                || answer.is_ok_and(|done| done.lines.is_empty())
        );
    }
    drop(watch);
    assert_eq!(place.read("small").expect("content"), b"here\n");
}

#[test]
fn changes_are_reported_in_new_directories_too() {
    let place = place();
    place.file("old/file", "");
    let watch = Watch { path: ".".into(), recursive: true };
    let mut watch = place.tools.watch(watch).expect("a call");
    let next = |watch: &mut crate::Call<'_>| {
        let event = watch.event().expect("an event");
        let path = event.path.as_path().strip_prefix(&place.granted);
        (event.change, path.unwrap_or(Path::new("")).to_string_lossy().into_owned())
    };
    assert_eq!(next(&mut watch).0, Change::Ready);
    let until = |watch: &mut crate::Call<'_>, change, path: &str| {
        while next(watch) != (change, path.to_owned()) {}
    };
    place.file("old/file", "more");
    until(&mut watch, Change::Modified, "old/file");
    // Whatever was reported is watched by then, however soon it changes.
    for _ in 0..200 {
        place.file("new/deep/file", "");
        until(&mut watch, Change::Created, "new/deep/file");
        place.file("new/deep/file", "later");
        until(&mut watch, Change::Modified, "new/deep/file");
        fs::remove_dir_all(place.granted.join("new")).expect("removed");
        until(&mut watch, Change::Removed, "new");
    }
    fs::remove_dir_all(&place.granted).expect("removed");
    loop {
        match watch.event() {
            Ok(_) => {}
            Err(error) => break assert_eq!(error.kind, ErrorKind::Gone),
        }
    }
}

/// Otherwise a watch that is added to the directory comes too late for what is created in it.
#[test]
fn an_unsorted_walk_reads_a_directory_after_returning_it() {
    let place = place();
    // Deeper than the ten directories that the walk keeps open.
    let deepest = "a/".repeat(15);
    fs::create_dir_all(place.granted.join(deepest)).expect("directories");
    let mut late = 0;
    for entry in crate::walk::walk_unsorted(&place.granted) {
        let entry = entry.expect("an entry");
        if entry.file_type().is_some_and(|kind| kind.is_dir()) {
            fs::write(entry.path().join("late"), "").expect("a file");
        }
        late += u32::from(entry.file_name() == "late");
    }
    assert_eq!(late, 16);
}

/// The kernel drops events when its queue is full, the creation of a directory among them.
#[test]
fn after_an_overflow_every_directory_is_watched() {
    let place = place();
    place.file("a", "");
    let (mut own, theirs) = UnixStream::pair().expect("a pair");
    own.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    let roots = Roots::new(vec![place.granted.clone()], place.granted.clone());
    thread::spawn(move || serve(theirs.into(), roots));
    let watch = Operation::Watch(Watch { path: ".".into(), recursive: true });
    frame::send(&mut own, 1, Some(&watch), &[]).expect("a request");
    let mut next = || match frame::receive::<Answer>(&mut own).expect("an answer") {
        Some(Frame { header: Some(Answer::Event(event)), .. }) => event,
        answer => panic!("{answer:?}"),
    };
    assert_eq!(next().change, Change::Ready);
    // Nobody reads, so the server waits for room in the socket, and the queue fills up.
    let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("a limit");
    let (one, other) = (place.granted.join("a"), place.granted.join("b"));
    for _ in 0..queue.trim().parse::<u32>().expect("a number") {
        fs::rename(&one, &other).expect("moved");
        fs::rename(&other, &one).expect("moved");
    }
    fs::create_dir(place.granted.join("new")).expect("a directory");
    while next().change != Change::Overflow {}
    let path = place.file("new/file", "");
    while next().path.as_path() != path {}
}

#[test]
fn names_and_content_that_are_no_text_are_as_good() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = place();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9\n");
    fs::write(place.granted.join(name), b"\xff line\n").expect("a file");
    let list = place.tools.list(List { path: ".".into(), limit: None }).expect("entries");
    let listed = &list.entries[0].name;
    assert_eq!(listed.as_slice(), b"caf\xe9\n");
    let read = Read { path: listed.clone(), range: None };
    assert_eq!(place.tools.read(read).expect("content").1, b"\xff line\n");
    let found = place.grep(Grep { pattern: "line".to_owned(), ..Grep::default() });
    assert_eq!(found.len(), 1);
}

#[test]
fn one_file_that_is_named_says_why_nothing_of_it_is_shown() {
    let place = place();
    place.file("binary", "before\n\0 needle\n");
    place.file("text", "needle\n");
    let grep = |path: &str| {
        let pattern = "needle".to_owned();
        place.tools.grep(Grep { pattern, path: path.into(), ..Grep::default() })
    };
    let found = grep("binary").expect("an answer");
    assert_eq!((found.matches, found.binary), (0, true));
    assert!(!grep("text").expect("an answer").binary);
    // As one of many it is skipped.
    let found = grep(".").expect("an answer");
    assert_eq!((found.matches, found.binary), (1, false));
    use std::os::unix::fs::PermissionsExt as _;
    let path = place.granted.join("text");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("a mode");
    // Root reads it all the same.
    if fs::File::open(&path).is_err() {
        assert_eq!(kind(grep("text")), ErrorKind::Denied);
    }
}

#[test]
fn ripgreps_own_rules_count_and_a_slash_at_the_end_means_directories() {
    let place = place();
    place.file("kept.txt", "needle\n");
    place.file("left.txt", "needle\n");
    place.file(".rgignore", "left.*\n");
    assert_eq!(place.find("*.txt"), ["kept.txt"]);
    let grep = Grep { pattern: "needle".to_owned(), ..Grep::default() };
    assert_eq!(place.grep(grep.clone()), ["kept.txt:1:needle"]);
    assert_eq!(place.grep(Grep { ignored: true, ..grep }).len(), 2);
    place.file("a/cnt/file", "");
    place.file("b/cnt", "");
    assert_eq!(place.find("cnt/"), ["a/cnt"]);
    assert_eq!(place.find("cnt"), ["a/cnt", "b/cnt"]);
}

#[test]
fn ignored_or_moved_directory_is_not_watched() {
    let place = place();
    place.file(".git/HEAD", "");
    place.file(".gitignore", "target/\n");
    place.file("sub/deep/file", "");
    let watch = Watch { path: ".".into(), recursive: true };
    let mut watch = place.tools.watch(watch).expect("a call");
    assert_eq!(watch.event().expect("an event").change, Change::Ready);
    let mut turn = 0;
    // All events until one of a file of this turn.
    let mut events_of_turn = |place: &super::Place| {
        turn += 1;
        let last = format!("turn-{turn}");
        let mut events = Vec::new();
        place.file(&last, "");
        loop {
            let event = watch.event().expect("an event");
            let path = event
                .path
                .as_path()
                .strip_prefix(&place.granted)
                .unwrap_or(Path::new(""))
                .to_string_lossy()
                .into_owned();
            if path == last {
                break events;
            }
            events.push((event.change, path));
        }
    };
    events_of_turn(&place);
    fs::create_dir(place.granted.join("target")).expect("a directory");
    events_of_turn(&place);
    place.file("target/debug/file", "");
    let ignored = events_of_turn(&place);
    assert!(ignored.iter().all(|(_, path)| !path.starts_with("target/")), "{ignored:?}");
    fs::rename(place.granted.join("sub"), place.outside.join("sub")).expect("moved out");
    assert!(events_of_turn(&place).contains(&(Change::Removed, "sub".to_owned())));
    fs::write(place.outside.join("sub/deep/file"), "elsewhere").expect("a file");
    fs::write(place.outside.join("sub/new"), "elsewhere").expect("a file");
    let elsewhere = events_of_turn(&place);
    assert!(elsewhere.iter().all(|(_, path)| !path.starts_with("sub")), "{elsewhere:?}");
    // What comes back is watched where it is now.
    fs::rename(place.outside.join("sub"), place.granted.join("back")).expect("moved in");
    events_of_turn(&place);
    place.file("back/deep/file", "here");
    let here = events_of_turn(&place);
    assert!(here.contains(&(Change::Modified, "back/deep/file".to_owned())), "{here:?}");
}
