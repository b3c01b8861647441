//! Bundles that are made to break a program that reads them.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use super::{guard, stage, text};

#[test]
fn file_that_ends_the_parser_is_refused_and_the_rest_is_read() {
    let (_, stage) = stage();
    let deep = [
        ("parentheses", "(".repeat(300_000)),
        ("operators", format!("x = {}1", "!".repeat(2_000_000))),
        ("statements", "for(;;)".repeat(300_000)),
        ("sums", format!("x = {}1", "a+".repeat(2_000_000))),
        ("arrows", "a=>".repeat(500_000)),
        ("types", format!("type A = {}", "A<".repeat(500_000))),
        ("templates", "`${".repeat(300_000)),
        ("elements", "<a>".repeat(300_000)),
    ];
    for (name, code) in deep {
        stage.write(&format!("other/deep/{name}.tsx"), code);
    }
    stage.write("other/deep/z.js", "require('child_process')");
    let began = Instant::now();
    let output = guard(&stage, "other/deep", &[]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("parentheses.tsx:1:") && said.contains("z.js:1:9: child_process"),
        "{said}"
    );
    assert_eq!(text(&output.stderr), "");
    assert!(began.elapsed() < Duration::from_secs(180), "{:?}", began.elapsed());
}

#[test]
fn files_that_are_none_links_that_lead_out_and_bytes_that_are_no_text_are_refused() {
    let (_, stage) = stage();
    stage.write("other/odd/a.js", "1");
    stage.write("other/elsewhere.js", "require('child_process')");
    let path = |name: &str| stage.path("other/odd").join(name);
    std::os::unix::fs::symlink("../elsewhere.js", path("out.js")).unwrap();
    std::os::unix::fs::symlink("/", path("root")).unwrap();
    std::os::unix::fs::symlink(".", path("loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", path("dangling.js")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo.js"), mode).unwrap();
    stage.write("other/odd/latin.js", b"x = '\xe9'");
    stage.write("other/odd/large.js", vec![b' '; (16 << 20) + 1]);
    let name = std::ffi::OsStr::from_bytes(b"\xff\x1b[2J.js");
    fs::write(stage.path("other/odd").join(name), "require('cluster')").unwrap();
    let output = guard(&stage, "other/odd", &[]);
    let said = text(&output.stdout);
    for expected in [
        "out.js:1:1: a link that leads out",
        "root:1:1: a link that leads out",
        "fifo.js:1:1: a name of code that is no file",
        "latin.js:1:1: text that is not UTF-8",
        "large.js:1:1: a file of more than 16777216 bytes",
        "cluster by require",
        "refused: 6 findings",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(!said.contains('\x1b') && text(&output.stderr).is_empty(), "{said}");
    let json = guard(&stage, "other/odd", &["--json"]);
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&json.stdout).unwrap()["clean"], false);
}

#[test]
fn a_directory_without_code_or_that_is_not_there_is_not_clean() {
    let (_, stage) = stage();
    stage.write("other/empty/readme.md", "nothing");
    for directory in ["other/empty", "other/nowhere"] {
        let output = guard(&stage, directory, &[]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("error"));
    }
}
