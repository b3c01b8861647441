//! Every tool over a real socket, on real files.

use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

use tempfile::TempDir;

use crate::{
    Change, ContentKind, Edit, EntryKind, ErrorKind, Find, Grep, GrepMode, LineKind, List,
    MakeDirectory, Range, Read, Replacement, Roots, Stat, ToolError, Tools, Watch, Write, serve,
};

/// A directory that is granted, beside one that is not, and tools for it.
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
fn what_lies_outside_every_grant_escapes_however_it_is_named() {
    let place = place();
    let secret = place.outside.join("secret");
    let secret = secret.to_str().expect("text");
    symlink(secret, place.granted.join("link")).expect("a link");
    symlink(&place.outside, place.granted.join("directory")).expect("a link");
    symlink("../outside/none", place.granted.join("dangling")).expect("a link");
    for path in [
        secret,
        "../outside/secret",
        "link",
        "directory/secret",
        "directory/new",
        "dangling",
        "dangling/further",
        "../outside/new",
        "../new",
        "/etc/passwd",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/no/such/directory",
        "..",
        "/",
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
    assert_eq!(fs::read(secret).expect("a file"), b"secret");
    assert_eq!(fs::read_dir(&place.outside).expect("a directory").count(), 1);
    symlink("none", place.granted.join("inside")).expect("a link");
    symlink("loop", place.granted.join("loop")).expect("a link");
    assert_eq!(kind(place.write("inside", "x")), ErrorKind::NotFound);
    assert!(place.write("loop", "x").is_err());
    assert_eq!(kind(place.read("")), ErrorKind::Request);
    assert_eq!(kind(place.read("a\0b")), ErrorKind::Request);
    assert_eq!(kind(place.read("none")), ErrorKind::NotFound);
}

#[test]
fn a_link_that_changes_while_it_is_used_leads_nowhere_else() {
    let place = place();
    place.file("inside/secret", "harmless");
    let (link, spare) = (place.granted.join("link"), place.granted.join("spare"));
    symlink("inside", &link).expect("a link");
    let outside = place.outside.clone();
    let swapped = link.clone();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let swap = thread::spawn(move || {
        let mut targets = [outside.as_path(), Path::new("inside")].into_iter().cycle();
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            symlink(targets.next().expect("a target"), &spare).expect("a link");
            fs::rename(&spare, &swapped).expect("a swap");
        }
    });
    let mut seen = (0, 0);
    for turn in 0..3000 {
        match place.read("link/secret") {
            Ok(content) => {
                assert_eq!(content, b"harmless");
                seen.0 += 1;
            }
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Escapes);
                seen.1 += 1;
            }
        }
        // Whatever becomes of it, it is not outside.
        let _ = place.write(&format!("link/new{}", turn % 7), "x");
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    swap.join().expect("a thread");
    assert!(seen.0 > 0 && seen.1 > 0, "both were met: {seen:?}");
    assert_eq!(fs::read_dir(&place.outside).expect("a directory").count(), 1);
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
fn content_is_told_by_what_it_is_and_not_by_its_name() {
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
fn what_is_no_regular_file_is_refused_and_nobody_waits_for_it() {
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
fn a_write_replaces_the_whole_file_and_keeps_its_mode() {
    let place = place();
    let path = place.file("script", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).expect("a mode");
    let mut open = fs::File::open(&path).expect("a file");
    let done = place.write("script", "new content").expect("written");
    assert_eq!((done.size, done.created, done.atomic), (11, false, true));
    assert_eq!(fs::read_to_string(&path).expect("a file"), "new content");
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o750);
    // Who had it open sees what it was.
    let mut before = String::new();
    std::io::Read::read_to_string(&mut open, &mut before).expect("content");
    assert_eq!(before, "old");
    assert_eq!(kind(place.write("a/b/c", "x")), ErrorKind::NotFound);
    let write = Write { path: "a/b/c".into(), parents: true, new: true };
    assert!(place.tools.write(write.clone(), b"x").expect("written").created);
    assert_eq!(kind(place.tools.write(write, b"y")), ErrorKind::Exists);
    symlink("a/b/c", place.granted.join("link")).expect("a link");
    place.write("link", "through").expect("written");
    assert_eq!(fs::read_to_string(place.granted.join("a/b/c")).expect("a file"), "through");
    assert!(place.granted.join("link").is_symlink());
    let names = fs::read_dir(&place.granted).expect("a directory").count();
    assert_eq!(names, 3, "nothing is left beside script, a and link");
}

#[test]
fn a_file_that_is_granted_by_itself_is_written_in_place() {
    let all = tempfile::tempdir().expect("a directory");
    let path = all.path().canonicalize().expect("a path").join("one");
    fs::write(&path, "old and longer").expect("a file");
    let (own, theirs) = UnixStream::pair().expect("a pair");
    let roots = Roots::new(vec![path.clone()], "/".into());
    thread::spawn(move || serve(OwnedFd::from(theirs), roots));
    let tools = Tools::new(OwnedFd::from(own)).expect("tools");
    let write = Write { path: path.as_path().into(), ..Write::default() };
    tools.write(write, b"new").expect("written");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "new");
    let beside = Write { path: all.path().join("two").as_path().into(), ..Write::default() };
    assert_eq!(kind(tools.write(beside, b"x")), ErrorKind::Escapes);
}

#[test]
fn edits_are_made_all_or_none_and_only_where_they_are_clear() {
    let place = place();
    let path = place.file("f", "fn a() {}\nfn b() {}\nfn a2() {}\n");
    let done = place.edit("f", &[("fn b", "fn c"), ("a2", "d")]).expect("edited");
    assert_eq!((done.replaced, done.first_line), (2, 2));
    let text = || fs::read_to_string(&path).expect("a file");
    assert_eq!(text(), "fn a() {}\nfn c() {}\nfn d() {}\n");
    for (edits, expected) in [
        (&[("fn c", "x"), ("none", "y")][..], ErrorKind::NoMatch),
        (&[("fn ", "x")], ErrorKind::Ambiguous),
        (&[("fn a()", "x"), ("a() {}", "y")], ErrorKind::Request),
        (&[("", "x")], ErrorKind::Request),
        (&[("fn a", "fn a")], ErrorKind::Request),
        (&[], ErrorKind::Request),
    ] {
        assert_eq!(kind(place.edit("f", edits)), expected, "{edits:?}");
        assert_eq!(text(), "fn a() {}\nfn c() {}\nfn d() {}\n");
    }
    let all = Replacement { old: "fn ".to_owned(), new: "let ".to_owned(), all: true };
    let done = place.tools.edit(Edit { path: "f".into(), edits: vec![all] }).expect("edited");
    assert_eq!(done.replaced, 3);
    assert_eq!(text(), "let a() {}\nlet c() {}\nlet d() {}\n");
}

#[test]
fn an_edit_keeps_the_line_ends_of_the_file() {
    let place = place();
    let path = place.file("crlf", "one\r\ntwo\r\nthree\r\n");
    place.edit("crlf", &[("one\ntwo", "1\n2\n2b")]).expect("edited");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "1\r\n2\r\n2b\r\nthree\r\n");
    let path = place.file("lf", "one\ntwo\n");
    place.edit("lf", &[("one\r\ntwo", "1\r\n2")]).expect("edited");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "1\n2\n");
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
fn what_goes_on_can_be_taken_back_and_others_do_not_wait_for_it() {
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
fn changes_are_told_also_in_directories_that_are_new() {
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
    place.file("new/deep/file", "");
    until(&mut watch, Change::Created, "new/deep/file");
    place.file("new/deep/file", "later");
    until(&mut watch, Change::Modified, "new/deep/file");
    fs::remove_dir_all(place.granted.join("new")).expect("removed");
    until(&mut watch, Change::Removed, "new");
    fs::remove_dir_all(&place.granted).expect("removed");
    loop {
        match watch.event() {
            Ok(_) => {}
            Err(error) => break assert_eq!(error.kind, ErrorKind::Gone),
        }
    }
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

mod hostile;
