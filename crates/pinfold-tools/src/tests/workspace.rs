//! Workspaces made to hurt a program that searches them, and requests that ask for everything.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{Place, place};
use crate::{Edit, ErrorKind, Find, Grep, GrepMode, List, Range, Read, Replacement, Watch};

fn fifo(place: &Place, name: &str) {
    let path = place.granted.join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
}

fn grep(pattern: &str) -> Grep {
    Grep { pattern: pattern.to_owned(), path: ".".into(), ..Grep::default() }
}

fn find(pattern: &str) -> Find {
    Find { pattern: pattern.to_owned(), path: ".".into(), ..Find::default() }
}

/// What it does while another thread does the other, which is reported when it is over.
fn while_other_runs(other: impl Fn() + Send + Sync, what: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                other();
            }
        });
        what();
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn endless_ignore_rules_are_an_error_and_can_be_disregarded() {
    for rules in [".gitignore", ".ignore", "below/.gitignore", ".git/info/exclude"] {
        let place = place();
        place.file("a.txt", "text");
        fifo(&place, rules);
        let shown = |error: crate::ToolError| (error.kind, error.path.expect("a path"));
        let path = place.granted.join(rules).as_path().into();
        let wanted = (ErrorKind::Special, path);
        assert_eq!(shown(place.tools.find(find("*.txt")).expect_err(rules)), wanted);
        assert_eq!(shown(place.tools.grep(grep("text")).expect_err(rules)), wanted);
        let watch = Watch { path: ".".into(), recursive: true };
        let event = place.tools.watch(watch).expect("a call").event();
        assert_eq!(shown(event.expect_err(rules)), wanted);
        let all = Grep { ignored: true, ..grep("text") };
        assert_eq!(place.tools.grep(all).expect(rules).matches, 1);
        let all = Find { ignored: true, ..find("*.txt") };
        assert_eq!(place.tools.find(all).expect(rules).entries.len(), 1);
    }
    let place = place();
    place.file("a.txt", "text");
    symlink("/dev/zero", place.granted.join(".gitignore")).expect("a link");
    assert_eq!(place.tools.grep(grep("text")).expect_err("no end").kind, ErrorKind::Special);
    fs::remove_file(place.granted.join(".gitignore")).expect("no link");
    File::create(place.granted.join(".gitignore"))
        .and_then(|file| file.set_len(1 << 40))
        .expect("");
    assert_eq!(place.tools.grep(grep("text")).expect_err("too large").kind, ErrorKind::Special);
    // Nothing is left out by that.
    fs::remove_file(place.granted.join(".gitignore")).expect("no file");
    symlink("/dev/null", place.granted.join(".gitignore")).expect("a link");
    assert_eq!(place.tools.grep(grep("text")).expect("found").matches, 1);
}

#[test]
fn a_file_that_becomes_something_else_is_not_searched() {
    let place = place();
    place.file("b", "text");
    let path = place.granted.join("a");
    let swap = || {
        let _ = fs::remove_file(&path);
        fifo(&place, "a");
        fs::remove_file(&path).expect("a FIFO");
        symlink(place.outside.join("secret"), &path).expect("a link");
        fs::remove_file(&path).expect("a link");
        fs::write(&path, "text").expect("a file");
    };
    while_other_runs(swap, || {
        for _ in 0..300 {
            let found = place.tools.grep(grep("text|secret")).expect("an answer");
            assert!(found.lines.iter().all(|line| line.text == "text".into()), "{found:?}");
        }
    });
}

#[test]
fn a_directory_that_becomes_a_link_is_not_searched() {
    let place = place();
    place.file("a/secret", "text");
    let (path, kept) = (place.granted.join("a"), place.granted.join("kept"));
    let swap = || {
        fs::rename(&path, &kept).expect("renamed");
        symlink(&place.outside, &path).expect("a link");
        fs::remove_file(&path).expect("a link");
        fs::rename(&kept, &path).expect("renamed back");
    };
    while_other_runs(swap, || {
        for _ in 0..300 {
            let found = place.tools.grep(grep("text|secret")).expect("an answer");
            assert!(found.lines.iter().all(|line| line.text == "text".into()), "{found:?}");
        }
    });
}

#[test]
fn rules_that_cannot_be_read_end_an_answer_only_where_it_comes_to_them() {
    let place = place();
    for name in 0..200 {
        place.file(&format!("{name:03}/file"), "text");
    }
    fifo(&place, "100/.gitignore");
    let some = |limit| place.tools.grep(Grep { limit: Some(limit), ..grep("text") });
    for limit in [1, 50, 99, 100] {
        let some = some(limit).expect("enough before");
        assert_eq!((some.matches, some.truncated), (limit, true));
    }
    for limit in [101, 1_000] {
        assert_eq!(some(limit).expect_err("not enough").kind, ErrorKind::Special);
    }
}

#[test]
fn files_without_an_end_in_sight_keep_nobody_waiting() {
    let place = place();
    let began = Instant::now();
    let sparse = File::create(place.granted.join("sparse")).expect("a file");
    sparse.write_all_at(b"one\ntwo\n", 0).expect("text");
    sparse.set_len(1 << 40).expect("a size");
    let lines = |first, count| {
        let range = Some(Range::Lines { first, count });
        place.tools.read(Read { path: "sparse".into(), range })
    };
    let (done, content) = lines(1, 2).expect("two lines");
    assert_eq!((done.lines, content.as_slice()), (None, &b"one\ntwo\n"[..]));
    assert_eq!(lines(1, 3).expect_err("too much").kind, ErrorKind::TooLarge);
    assert_eq!(lines(u64::MAX, u64::MAX).expect_err("too far").kind, ErrorKind::TooLarge);
    let two = Replacement { old: "two".into(), new: "2".into(), all: false };
    let edit = place.tools.edit(Edit { path: "sparse".into(), edits: vec![two] });
    assert_eq!(edit.expect_err("too large").kind, ErrorKind::TooLarge);
    // It is binary.
    assert_eq!(place.tools.grep(grep("two")).expect("an answer").matches, 0);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn search_for_everything_is_cut_and_says_that_there_is_more() {
    let place = place();
    place.file("many", &"x\n".repeat(1 << 20));
    let all = Grep {
        before: u32::MAX,
        after: u32::MAX,
        limit: Some(u64::MAX),
        line_length: Some(u32::MAX),
        ..grep("x")
    };
    let after = Grep { limit: Some(1), before: 0, ..all.clone() };
    let whole = Grep { multiline: true, ..all.clone() };
    for asked in [all.clone(), after, Grep { pattern: "(?s).*".into(), ..whole }] {
        let found = place.tools.grep(asked.clone()).expect("an answer");
        assert!(found.truncated, "{asked:?}");
        assert!((1..100_000).contains(&found.lines.len()), "{asked:?}: {}", found.lines.len());
    }
    let none = Grep { limit: Some(0), line_length: Some(0), ..all };
    let found = place.tools.grep(none).expect("an answer");
    assert_eq!((found.lines.len(), found.truncated), (0, true));
    let count = Grep { mode: GrepMode::Count, ..grep("x") };
    assert_eq!(place.tools.grep(count).expect("an answer").lines[0].line, 1 << 20);
    // Not searched is not the same as not found.
    place.file("long", &"y".repeat(40 << 20));
    assert!(place.tools.grep(grep("z")).expect("an answer").truncated);
}

#[test]
fn patterns_that_explode_are_refused_in_few_words() {
    let place = place();
    place.file("a", "text");
    let began = Instant::now();
    let long = "a".repeat(10 << 20);
    let nested = "(".repeat(30_000);
    for pattern in [long.as_str(), "((a{1000}){1000}){1000}", nested.as_str(), "[", "\\p{No}{9999}"]
    {
        let error = place.tools.grep(grep(pattern)).expect_err("no pattern");
        assert_eq!(error.kind, ErrorKind::Pattern);
        assert!(error.message.len() < 10_000, "{}", error.message.len());
    }
    let literal = Grep { literal: true, ..grep(&long) };
    assert_eq!(place.tools.grep(literal).expect_err("too long").kind, ErrorKind::Pattern);
    assert_eq!(place.tools.find(find(&long)).expect_err("too long").kind, ErrorKind::Pattern);
    let globs = Grep { globs: vec!["*".to_owned(); 100_000], ..grep("text") };
    assert_eq!(place.tools.grep(globs).expect_err("too many").kind, ErrorKind::Pattern);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(place.tools.grep(grep("te.t")).expect("found").matches, 1);
}

#[test]
fn names_and_trees_of_every_shape_are_listed_exactly() {
    let place = place();
    let names: [&[u8]; 4] = [b"a\nb", b"\x1b[2J", b"\xff\xfe", "\u{202e}x".as_bytes()];
    for name in names {
        let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name);
        fs::write(place.granted.join(name), "needle").expect("a file");
    }
    let list = List { path: ".".into(), limit: None };
    let listed = place.tools.list(list).expect("a list").entries;
    assert!(names.iter().all(|name| listed.iter().any(|entry| entry.name.as_slice() == *name)));
    assert_eq!(place.tools.grep(grep("needle")).expect("found").matches, 4);
    let deep = "d/".repeat(1_000);
    place.file(&format!("{deep}deepest"), "needle");
    assert_eq!(place.tools.find(find("deepest")).expect("found").entries.len(), 1);
    assert_eq!(place.tools.grep(grep("needle")).expect("found").matches, 5);
    fs::create_dir(place.granted.join("wide")).expect("a directory");
    for name in 0..20_000 {
        File::create(place.granted.join(format!("wide/{name}"))).expect("a file");
    }
    let wide = |limit| place.tools.list(List { path: "wide".into(), limit }).expect("a list");
    assert_eq!((wide(None).entries.len(), wide(None).truncated), (10_000, true));
    assert_eq!(wide(Some(u64::MAX)).entries.len(), 20_000);
    let all = Find { limit: Some(u64::MAX), ..find("[0-9]*") };
    assert_eq!(place.tools.find(all).expect("found").entries.len(), 20_000);
}

#[test]
fn a_search_is_taken_back_within_one_file() {
    let place = place();
    // Longer to search than it takes to think better of it.
    place.file("large", &"no needle here, however long one looks\n".repeat(4_000_000));
    let operation = crate::Operation::Grep(grep("(needle|line)s? (there|gone)+x"));
    let call = place.tools.call(&operation, &[]).expect("a call");
    call.cancel();
    assert_eq!(call.lines().expect_err("taken back").kind, ErrorKind::Cancelled);
}
