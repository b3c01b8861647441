use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode};
use tempfile::TempDir;

use super::Mailbox;

struct Scene {
    root: TempDir,
    mailbox: Mailbox,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("data/ipc/dev/tasks")).unwrap();
        let mailbox = Mailbox::open(root.path(), "dev").unwrap().unwrap();
        Self { root, mailbox }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("data/ipc/dev").join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path("tasks").join(name), text).unwrap();
    }

    /// Reads what is there; sets aside what is no request, and returns the reason.
    fn sweep(&self) -> Vec<(OsString, Result<String, String>)> {
        let names = self.mailbox.names(100).unwrap();
        let read = names.into_iter().filter_map(|name| {
            let read = match self.mailbox.read(&name) {
                Ok(read) => Ok(read?.request.brief),
                Err(reason) => {
                    let reason = reason.to_string();
                    self.mailbox.set_aside(&name, &reason).unwrap();
                    Err(reason)
                }
            };
            Some((name, read))
        });
        read.collect()
    }
}

const GOOD: &str = r#"{"brief": "work"}"#;

#[test]
fn requests_are_read_in_the_order_of_their_names_and_unfinished_ones_not_at_all() {
    let scene = Scene::new();
    assert!(Mailbox::open(scene.root.path(), "other").unwrap().is_none());
    for name in ["2.json", "1.json", ".3.json", "4.json.tmp", "5"] {
        scene.write(name, GOOD);
    }
    let swept = scene.sweep();
    let names: Vec<&OsStr> = swept.iter().map(|(name, _)| name.as_os_str()).collect();
    assert_eq!(names, ["1.json", "2.json"]);
    assert!(swept.iter().all(|(_, read)| read.as_deref() == Ok("work")));
    scene.mailbox.remove(OsStr::new("1.json")).unwrap();
    scene.mailbox.remove(OsStr::new("1.json")).unwrap();
    assert_eq!(scene.sweep().len(), 1);
    assert!(scene.mailbox.read(OsStr::new("1.json")).unwrap().is_none());
}

#[test]
fn digest_is_of_the_name_and_the_content() {
    let scene = Scene::new();
    for (name, text) in [("1.json", GOOD), ("2.json", GOOD), ("3.json", r#"{"brief": "w"}"#)] {
        scene.write(name, text);
    }
    let digest = |name: &str| scene.mailbox.read(OsStr::new(name)).unwrap().unwrap().digest;
    assert_ne!(digest("1.json"), digest("2.json"));
    assert_ne!(digest("2.json"), digest("3.json"));
    assert_eq!(digest("1.json"), digest("1.json"));
}

#[test]
fn what_is_no_request_is_set_aside_with_the_reason_and_nothing_else_is_touched() {
    let scene = Scene::new();
    let outside = scene.root.path().join("outside");
    fs::write(&outside, GOOD).unwrap();
    let tasks = scene.path("tasks");
    symlink(&outside, tasks.join("link.json")).unwrap();
    rustix::fs::mkfifoat(CWD, tasks.join("fifo.json"), Mode::from(0o600)).unwrap();
    fs::create_dir_all(tasks.join("directory.json/deep")).unwrap();
    let _socket = UnixListener::bind(tasks.join("socket.json")).unwrap();
    scene.write("large.json", " ".repeat(100_000));
    scene.write("wrong.json", r#"{"brief": "x", "verify": []}"#);
    scene.write("..json", GOOD);
    fs::write(tasks.join(OsStr::from_bytes(b"\x1b[31m\xff.json")), GOOD).unwrap();
    fs::write(tasks.join(format!("{}.json", "a".repeat(200))), GOOD).unwrap();
    let swept = scene.sweep();
    assert_eq!(swept.len(), 8);
    assert!(swept.iter().all(|(_, read)| read.is_err()), "{swept:?}");
    assert!(scene.sweep().is_empty());
    // Twice the same, and a directory that another one is in the way of.
    fs::create_dir_all(tasks.join("directory.json/deep")).unwrap();
    scene.write("large.json", "");
    assert_eq!(scene.sweep().len(), 2);
    assert!(scene.sweep().is_empty());
    let reason = |name: &str| fs::read_to_string(scene.path("errors").join(name)).unwrap();
    assert_eq!(reason("link.json.reason"), "the file is a symbolic link\n");
    assert_eq!(reason("fifo.json.reason"), "the file is not a regular file\n");
    assert!(reason("wrong.json.reason").contains("unknown field `verify`"));
    assert_eq!(fs::read_to_string(&outside).unwrap(), GOOD);
    let kept = fs::read_dir(scene.path("errors")).unwrap();
    let names = kept.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| name.is_ascii() && name.len() < 120));
}

#[test]
fn links_of_a_sandbox_lead_nowhere() {
    let scene = Scene::new();
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("file");
    fs::write(&file, "mine").unwrap();
    // Reasons go into no file, and errors into no directory, that a link names.
    scene.write("1.json", "");
    fs::create_dir(scene.path("errors")).unwrap();
    symlink(&file, scene.path("errors/1.json.reason")).unwrap();
    scene.sweep();
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    fs::remove_dir_all(scene.path("errors")).unwrap();
    symlink(outside.path(), scene.path("errors")).unwrap();
    scene.write("2.json", "");
    scene.sweep();
    assert!(scene.sweep().is_empty());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    // Nor are requests read where a link leads.
    fs::remove_dir_all(scene.path("tasks")).unwrap();
    fs::write(outside.path().join("3.json"), GOOD).unwrap();
    symlink(outside.path(), scene.path("tasks")).unwrap();
    assert!(scene.mailbox.names(9).is_err());
    assert!(scene.mailbox.read(OsStr::new("3.json")).is_err());
    assert!(scene.mailbox.remove(OsStr::new("3.json")).is_err());
    assert!(outside.path().join("3.json").exists());
    // Nor another group's.
    symlink("dev", scene.root.path().join("data/ipc/evil")).unwrap();
    assert!(Mailbox::open(scene.root.path(), "evil").is_err());
}
