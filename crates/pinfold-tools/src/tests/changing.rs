//! Writing and editing.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::thread;

use super::{kind, place};
use crate::{Edit, ErrorKind, Replacement, Roots, Tools, Write, serve};

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
    // A process that had it open sees what it was.
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
    assert_eq!(names, 3, "only script, a and link are left");
}

#[test]
fn a_file_that_is_replaced_keeps_its_access_list() {
    const NAME: &str = "system.posix_acl_access";
    let place = place();
    let path = place.file("listed", "old");
    // user::rw-, user:4711:rw-, group::r--, mask::rw-, other::r-- (linux/posix_acl_xattr.h)
    let entries = [
        (1_u16, 6_u16, u32::MAX),
        (2, 6, 4711),
        (4, 4, u32::MAX),
        (16, 6, u32::MAX),
        (32, 4, u32::MAX),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let set = rustix::fs::setxattr(&path, NAME, &list, rustix::fs::XattrFlags::empty());
    if set == Err(rustix::io::Errno::OPNOTSUPP) {
        return eprintln!("SKIPPED: the file system of temporary files has no access lists");
    }
    set.expect("a list");
    assert!(place.write("listed", "new").expect("written").atomic);
    let mut kept = vec![0; 256];
    let length = rustix::fs::getxattr(&path, NAME, &mut kept[..]).expect("a list");
    assert_eq!(kept[..length], list);
    assert_eq!(fs::read_to_string(&path).expect("a file"), "new");
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
    let linked = Write { path: all.path().join("two").as_path().into(), ..Write::default() };
    assert_eq!(kind(tools.write(linked, b"x")), ErrorKind::Escapes);
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
fn line_ends_are_the_files_for_a_line_that_becomes_several() {
    let place = place();
    let path = place.file("crlf", "one\r\ntwo\r\n");
    place.edit("crlf", &[("one", "1\n1b")]).expect("edited");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "1\r\n1b\r\ntwo\r\n");
    // Of several kinds those that were given, where they are there.
    let path = place.file("mixed", "one\r\ntwo\nthree\n");
    place.edit("mixed", &[("two\nthree", "2\n3")]).expect("edited");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "one\r\n2\n3\n");
    // Lines that are given with their ends are changed as given.
    let path = place.file("plain", "one\ntwo\n");
    place.edit("plain", &[("one\ntwo\n", "one\r\ntwo\r\n")]).expect("edited");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "one\r\ntwo\r\n");
    let path = place.file("none", "one");
    place.edit("none", &[("one", "1\r\n2")]).expect("edited");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "1\r\n2");
}

#[test]
fn a_text_that_begins_again_within_itself_is_there_more_than_once() {
    let place = place();
    let path = place.file("f", "xaaay");
    assert_eq!(kind(place.edit("f", &[("aa", "b")])), ErrorKind::Ambiguous);
    assert_eq!(fs::read_to_string(&path).expect("a file"), "xaaay");
    let all = Replacement { old: "aa".to_owned(), new: "b".to_owned(), all: true };
    let done = place.tools.edit(Edit { path: "f".into(), edits: vec![all] }).expect("edited");
    assert_eq!(done.replaced, 1);
    assert_eq!(fs::read_to_string(&path).expect("a file"), "xbay");
}

#[test]
fn an_edit_that_makes_too_much_of_a_file_is_refused_before_it_is_made() {
    let place = place();
    let all = |new: String| {
        let edits = vec![Replacement { old: "x".to_owned(), new, all: true }];
        place.tools.edit(Edit { path: "f".into(), edits })
    };
    let path = place.file("f", &"x".repeat((1 << 20) + 1));
    assert_eq!(kind(all("y".to_owned())), ErrorKind::TooLarge);
    place.file("f", &"x".repeat(1 << 20));
    // Would be a tebibyte.
    assert_eq!(kind(all("y".repeat(1 << 20))), ErrorKind::TooLarge);
    assert_eq!(fs::metadata(&path).expect("a file").len(), 1 << 20);
    assert_eq!(all("yy".to_owned()).expect("edited").replaced, 1 << 20);
    assert_eq!(fs::metadata(&path).expect("a file").len(), 2 << 20);
}

#[test]
fn a_file_that_cannot_be_written_over_to_the_end_is_as_it_was() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let file = memfd_create("file", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
    let file = fs::File::from(file.expect("a file"));
    std::os::unix::fs::FileExt::write_all_at(&file, b"old content", 0).expect("content");
    let holds = |content: &[u8]| {
        let mut buffer = vec![0; 64];
        let count = std::os::unix::fs::FileExt::read_at(&file, &mut buffer, 0).expect("content");
        assert_eq!(&buffer[..count], content);
    };
    crate::write::overwrite(&file, b"other text and more").expect("longer");
    crate::write::overwrite(&file, b"old content").expect("shorter");
    holds(b"old content");
    // As if there were no room: it may not grow, and then not end sooner either.
    fcntl_add_seals(&file, SealFlags::GROW).expect("sealed");
    crate::write::overwrite(&file, b"more than there is room for").expect_err("no room");
    holds(b"old content");
    fcntl_add_seals(&file, SealFlags::SHRINK).expect("sealed");
    crate::write::overwrite(&file, b"less").expect_err("no end");
    holds(b"old content");
}

#[test]
fn a_path_with_a_slash_at_its_end_names_no_file() {
    let place = place();
    for path in ["new/", "new/.", "above/new/"] {
        for parents in [false, true] {
            let write = Write { path: path.into(), parents, new: false };
            assert_eq!(kind(place.tools.write(write, b"x")), ErrorKind::IsDirectory, "{path}");
        }
    }
    assert_eq!(fs::read_dir(&place.granted).expect("a directory").count(), 0);
}
