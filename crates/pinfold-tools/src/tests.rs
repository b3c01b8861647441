//! Every tool over a real socket, on real files.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;

use tempfile::TempDir;

use crate::{
    ContentKind, Edit, EntryKind, ErrorKind, Find, Grep, LineKind, List, MakeDirectory, Range,
    Read, Replacement, Roots, Stat, ToolError, Tools, Watch, Write, serve,
};

/// A directory that is granted, next to one that is not, and tools for it.
struct Place {
    _all: TempDir,
    granted: PathBuf,
    outside: PathBuf,
    tools: Tools,
}

fn place() -> Place {
    let all = tempfile::tempdir().expect("a directory");
    let base = all.path().canonicalize().expect("a path");
    let (granted, outside) = (base.join("granted"), base.join("outside"));
    fs::create_dir(&granted).expect("a directory");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("secret"), "secret").expect("a file");
    let (own, theirs) = UnixStream::pair().expect("a pair");
    let roots = Roots::new(vec![granted.clone()], granted.clone());
    thread::spawn(move || serve(OwnedFd::from(theirs), roots));
    let tools = Tools::new(OwnedFd::from(own)).expect("tools");
    Place { _all: all, granted, outside, tools }
}

impl Place {
    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.granted.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, content).expect("a file");
        path
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, ToolError> {
        self.tools.read(Read { path: path.into(), range: None }).map(|(_, content)| content)
    }

    fn write(&self, path: &str, content: &str) -> Result<crate::WriteDone, ToolError> {
        let write = Write { path: path.into(), ..Write::default() };
        self.tools.write(write, content.as_bytes())
    }

    fn edit(&self, path: &str, edits: &[(&str, &str)]) -> Result<crate::EditDone, ToolError> {
        let replacement = |(old, new): &(&str, &str)| Replacement {
            old: (*old).to_owned(),
            new: (*new).to_owned(),
            all: false,
        };
        let edits = edits.iter().map(replacement).collect();
        self.tools.edit(Edit { path: path.into(), edits })
    }

    fn grep(&self, grep: Grep) -> Vec<String> {
        let done = self.tools.grep(Grep { path: ".".into(), ..grep }).expect("an answer");
        let line = |line: crate::GrepLine| {
            let mark = if line.kind == LineKind::Match { ':' } else { '-' };
            format!("{}{mark}{}{mark}{}", line.path.to_text(), line.line, line.text.to_text())
        };
        done.lines.into_iter().map(line).collect()
    }

    fn find(&self, pattern: &str) -> Vec<String> {
        let find = Find { pattern: pattern.to_owned(), path: ".".into(), ..Find::default() };
        let done = self.tools.find(find).expect("an answer");
        done.entries.iter().map(|entry| entry.name.to_text().into_owned()).collect()
    }
}

fn kind<T>(result: Result<T, ToolError>) -> ErrorKind {
    result.map(|_| ()).expect_err("an error").kind
}

#[test]
fn a_missing_path_outside_every_root_escapes_however_it_is_named() {
    let place = place();
    symlink(&place.outside, place.granted.join("directory")).expect("a link");
    symlink("../outside/none", place.granted.join("dangling")).expect("a link");
    let absolute = place.outside.join("none");
    for path in [
        absolute.to_str().expect("text"),
        "../outside/none",
        "directory/none",
        "dangling",
        "dangling/further",
        "../new",
        "/no/such/directory",
        "/proc/self/root/no/such",
    ] {
        let escapes = format!("path escapes workspace: {path}");
        assert_eq!(place.read(path).expect_err("an error").to_string(), escapes);
        assert_eq!(place.write(path, "x").expect_err("an error").to_string(), escapes);
        assert_eq!(place.edit(path, &[("a", "b")]).expect_err("an error").to_string(), escapes);
        let list = List { path: path.into(), limit: None };
        assert_eq!(kind(place.tools.list(list)), ErrorKind::Escapes, "{path}");
        let make = MakeDirectory { path: format!("{path}/new").as_str().into() };
        assert_eq!(kind(place.tools.make_directory(make)), ErrorKind::Escapes, "{path}");
        let write =
            Write { path: format!("{path}/a/b").as_str().into(), parents: true, new: false };
        assert_eq!(kind(place.tools.write(write, b"x")), ErrorKind::Escapes, "{path}");
        let grep = Grep { pattern: "x".to_owned(), path: path.into(), ..Grep::default() };
        assert_eq!(kind(place.tools.grep(grep)), ErrorKind::Escapes, "{path}");
        let find = Find { pattern: "*".to_owned(), path: path.into(), ..Find::default() };
        assert_eq!(kind(place.tools.find(find)), ErrorKind::Escapes, "{path}");
        let watch = Watch { path: path.into(), recursive: true };
        let mut watch = place.tools.watch(watch).expect("a call");
        assert_eq!(kind(watch.event()), ErrorKind::Escapes, "{path}");
        let stat = Stat { path: path.into(), link: false };
        assert_eq!(kind(place.tools.stat(stat)), ErrorKind::Escapes, "{path}");
    }
    assert_eq!(fs::read_dir(&place.outside).expect("a directory").count(), 1);
}

#[test]
fn an_existing_path_outside_every_root_is_used_as_a_command_would() {
    let place = place();
    symlink(&place.outside, place.granted.join("directory")).expect("a link");
    for path in ["../outside/secret", "directory/secret"] {
        assert_eq!(place.read(path).expect("content"), b"secret");
    }
    place.write("directory/secret", "new").expect("written");
    assert_eq!(fs::read(place.outside.join("secret")).expect("a file"), b"new");
    assert!(place.tools.list(List { path: "/".into(), limit: None }).is_ok());
}

#[test]
fn a_missing_path_below_a_root_is_missing() {
    let place = place();
    symlink("none", place.granted.join("inside")).expect("a link");
    symlink("loop", place.granted.join("loop")).expect("a link");
    assert_eq!(kind(place.write("inside", "x")), ErrorKind::NotFound);
    assert!(place.write("loop", "x").is_err());
    assert_eq!(kind(place.read("")), ErrorKind::Request);
    assert_eq!(kind(place.read("a\0b")), ErrorKind::Request);
    assert_eq!(kind(place.read("none")), ErrorKind::NotFound);
}

#[test]
fn files_are_read_whole_by_bytes_and_by_lines() {
    let place = place();
    place.file("text", "one\ntwo\nthree");
    assert_eq!(place.read("text").expect("content"), b"one\ntwo\nthree");
    let part = |range| {
        let (done, content) =
            place.tools.read(Read { path: "text".into(), range: Some(range) }).expect("content");
        assert_eq!((done.size, done.kind), (13, ContentKind::Text));
        (String::from_utf8(content).expect("text"), done.lines)
    };
    assert_eq!(part(Range::Bytes { offset: 4, length: 3 }), ("two".to_owned(), None));
    assert_eq!(part(Range::Bytes { offset: 99, length: 3 }), (String::new(), None));
    assert_eq!(part(Range::Lines { first: 2, count: 1 }), ("two\n".to_owned(), Some(3)));
    assert_eq!(part(Range::Lines { first: 3, count: 9 }), ("three".to_owned(), Some(3)));
    assert_eq!(part(Range::Lines { first: 4, count: 9 }), (String::new(), Some(3)));
    place.file("empty", "");
    let lines = Range::Lines { first: 1, count: 5 };
    let (done, _) =
        place.tools.read(Read { path: "empty".into(), range: Some(lines) }).expect("content");
    assert_eq!((done.lines, done.kind), (Some(0), ContentKind::Text));
}

#[test]
fn content_is_recognised_by_its_bytes_and_not_by_its_name() {
    let place = place();
    let kinds: [(&[u8], ContentKind, Option<&str>); 6] = [
        (b"\x89PNG\r\n\x1a\nrest", ContentKind::Image, Some("image/png")),
        (b"\xff\xd8\xff\xe0", ContentKind::Image, Some("image/jpeg")),
        (b"GIF89a", ContentKind::Image, Some("image/gif")),
        (b"RIFF\0\0\0\0WEBPVP8 ", ContentKind::Image, Some("image/webp")),
        (b"nul\0", ContentKind::Binary, None),
        (b"latin \xe9 1", ContentKind::Binary, None),
    ];
    for (content, expected, mime) in kinds {
        fs::write(place.granted.join("f.txt"), content).expect("a file");
        let (done, read) =
            place.tools.read(Read { path: "f.txt".into(), range: None }).expect("content");
        assert_eq!((done.kind, done.mime.as_deref()), (expected, mime));
        assert_eq!(read, content);
    }
    // A character that the look cuts in two is one all the same.
    place.file("f.txt", &format!("{}é{}", "x".repeat(8191), "y".repeat(100)));
    let (done, _) = place.tools.read(Read { path: "f.txt".into(), range: None }).expect("content");
    assert_eq!(done.kind, ContentKind::Text);
}

#[test]
fn special_file_is_refused_and_nobody_waits_for_it() {
    let place = place();
    let fifo = place.granted.join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600))
        .expect("a fifo");
    assert_eq!(kind(place.read("fifo")), ErrorKind::Special);
    assert_eq!(kind(place.write("fifo", "x")), ErrorKind::Special);
    assert_eq!(kind(place.edit("fifo", &[("a", "b")])), ErrorKind::Special);
    assert_eq!(kind(place.read(".")), ErrorKind::IsDirectory);
    assert_eq!(kind(place.write(".", "x")), ErrorKind::IsDirectory);
    let list = List { path: "fifo".into(), limit: None };
    assert_eq!(kind(place.tools.list(list)), ErrorKind::NotDirectory);
}

#[test]
fn directories_are_listed_in_order_with_what_their_entries_are() {
    let place = place();
    place.file("b", "12345");
    place.file("a/x", "");
    symlink("nowhere", place.granted.join("c")).expect("a link");
    let list = |limit| {
        let done = place.tools.list(List { path: ".".into(), limit }).expect("entries");
        let entry =
            |entry: crate::Entry| (entry.name.to_text().into_owned(), entry.kind, entry.size);
        (done.entries.into_iter().map(entry).collect::<Vec<_>>(), done.truncated)
    };
    let all = vec![
        ("a".to_owned(), EntryKind::Directory, None),
        ("b".to_owned(), EntryKind::File, Some(5)),
        ("c".to_owned(), EntryKind::Link, None),
    ];
    assert_eq!(list(None), (all.clone(), false));
    assert_eq!(list(Some(2)), (all[..2].to_vec(), true));
    let stat =
        |path: &str, link| place.tools.stat(Stat { path: path.into(), link }).expect("an answer");
    let about = stat("b", false);
    assert_eq!((about.kind, about.size, about.writable), (EntryKind::File, 5, true));
    assert_eq!(stat("c", true).target, Some("nowhere".into()));
    assert_eq!(stat("a", false).kind, EntryKind::Directory);
}

mod changing;
mod hostile;
mod searching;
mod workspace;
