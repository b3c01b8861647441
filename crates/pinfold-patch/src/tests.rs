use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Printer, plain, quoted};

fn hunks(before: &str, after: &str) -> String {
    let mut out = Vec::new();
    let mut printer = Printer { out: &mut out, is_terminal: false, colours: false };
    printer.hunks(before.as_bytes(), after.as_bytes()).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn hunks_are_as_diff_u_writes_them() {
    let before: String = (1..=20).map(|number| format!("{number}\n")).collect();
    let after = before.replace("\n5\n", "\nfive\n").replace("20\n", "20");
    let expected = "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n@@ -17,4 +17,4 @@\n 17\n \
                    18\n 19\n-20\n+20\n\\ No newline at end of file\n";
    assert_eq!(hunks(&before, &after), expected);
    assert_eq!(hunks("", "a\n"), "@@ -0,0 +1 @@\n+a\n");
    assert_eq!(hunks("a\nb\n", ""), "@@ -1,2 +0,0 @@\n-a\n-b\n");
}

#[test]
fn nothing_that_a_session_wrote_drives_a_terminal() {
    assert_eq!(plain(b"a\tb\x1b[2J\x07\xff"), "a\tb\\u{1b}[2J\\u{7}\\xff");
    assert_eq!(plain("if a\u{202e} {".as_bytes()), "if a\\u{202e} {");
    assert_eq!(plain("\u{9b}31m".as_bytes()), "\\u{9b}31m");
    assert_eq!(plain(b"C:\\dir"), "C:\\dir");
}

#[test]
fn names_are_quoted_as_git_quotes_them() {
    let name = |bytes: &[u8]| quoted("a/", Path::new(OsStr::from_bytes(bytes)));
    assert_eq!(name(b"plain name"), "a/plain name");
    assert_eq!(name("für".as_bytes()), "a/für");
    assert_eq!(name(b"x\ny\"z"), "\"a/x\\ny\\\"z\"");
    assert_eq!(name(b"\x1b[0m\xff"), "\"a/\\033[0m\\377\"");
}
