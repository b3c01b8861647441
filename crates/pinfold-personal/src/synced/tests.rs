use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode};

use super::{Refused, collect};

/// What is a store in these tests, since /tmp is for everybody to write to.
const STORE: &str = "/run";

/// A home with a configuration.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".pi/agent/agents")).unwrap();
        Self(home)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(".pi/agent").join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Returns the names of what comes in, and of what does not, with the reason.
    fn read(&self) -> Result<(Vec<String>, Vec<String>), Refused> {
        let home = fs::canonicalize(self.0.path()).unwrap();
        let store = [Path::new(STORE)];
        let (files, left_out) =
            collect(&home.join(".pi/agent"), Path::new(".pi/agent"), &home, &store);
        Ok((files?.keys().map(|path| path.display().to_string()).collect(), left_out))
    }
}

#[test]
fn whole_directory_comes_in_without_logins_and_conversations() {
    let home = Home::new();
    for name in ["settings.json", "mcp.json", "AGENTS.md", "agents/review.md", "auth.json"] {
        home.write(name, "{}");
    }
    fs::create_dir(home.path("sessions")).unwrap();
    home.write("sessions/secret.jsonl", "x");
    let (files, left_out) = home.read().unwrap();
    assert_eq!(files, ["AGENTS.md", "agents/review.md", "mcp.json", "settings.json"]);
    assert_eq!(left_out, ["auth.json (a secret by its name)", "sessions (no configuration)"]);
    let nobody = Path::new("/nonexistent");
    assert_eq!(collect(&nobody.join("x"), Path::new("x"), nobody, &[]).0, Ok(Default::default()));
}

#[test]
fn links_pipes_sockets_and_devices_stay_out_unopened() {
    let home = Home::new();
    home.write("settings.json", "{}");
    symlink("/etc/shadow", home.path("a")).unwrap();
    symlink("settings.json", home.path("b")).unwrap();
    symlink("/proc/self/environ", home.path("c")).unwrap();
    symlink("/proc/1/environ", home.path("d")).unwrap();
    symlink("/tmp", home.path("e")).unwrap();
    symlink("/", home.path("f")).unwrap();
    rustix::fs::mknodat(CWD, home.path("g"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(home.path("h")).unwrap();
    let (files, left_out) = home.read().unwrap();
    assert_eq!(files, ["settings.json"]);
    assert_eq!(left_out.len(), 8, "{left_out:?}");
}

#[test]
fn links_into_a_store_of_roots_are_followed_as_far_as_they_stay_in_one() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED links_into_a_store_of_roots: needs root");
        return;
    }
    let store = tempfile::Builder::new().prefix("pf-store-").tempdir_in(STORE).unwrap();
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(store.path(), 0o1775);
    let at = |name: &str| store.path().join(name);
    fs::create_dir_all(at("hm/agents")).unwrap();
    for (name, bits) in [("settings", 0o444), ("secret", 0o400), ("hm/agents/a.md", 0o444)] {
        fs::write(at(name), "{}").unwrap();
        mode(&at(name), bits);
    }
    symlink(at("settings"), at("hm/settings.json")).unwrap();
    symlink("../../settings", at("hm/agents/b.md")).unwrap();
    symlink("/etc/shadow", at("hm/agents/c.md")).unwrap();
    fs::write(at("hm/agents/d.md"), "").unwrap();
    mode(&at("hm/agents/d.md"), 0o666);

    let home = Home::new();
    fs::remove_dir(home.path("agents")).unwrap();
    symlink(at("hm/settings.json"), home.path("settings.json")).unwrap();
    symlink(at("hm/agents"), home.path("agents")).unwrap();
    symlink(at("secret"), home.path("secret")).unwrap();
    let (files, left_out) = home.read().unwrap();
    assert_eq!(files, ["agents/a.md", "agents/b.md", "settings.json"]);
    let expected = ["agents/c.md (a link)", "agents/d.md (not root's alone)", "secret (a link)"];
    assert_eq!(left_out, expected);
}

#[test]
fn what_is_too_large_too_many_or_too_deep_does_not_come_in_at_all() {
    let home = Home::new();
    let large = fs::File::create(home.path("large")).unwrap();
    large.set_len(1 << 30).unwrap();
    assert_eq!(home.read().unwrap_err(), Refused::TooMuch);
    fs::remove_file(home.path("large")).unwrap();

    for number in 0..=super::Configuration::MOST_FILES {
        home.write(&format!("agents/{number}"), "");
    }
    assert_eq!(home.read().unwrap_err(), Refused::TooMuch);
    fs::remove_dir_all(home.path("agents")).unwrap();
    home.read().unwrap();

    fs::create_dir_all(home.path(&"d/".repeat(super::DEEPEST + 1))).unwrap();
    assert_eq!(home.read().unwrap_err(), Refused::TooMuch);
}

/// What was looked at is what is read, whatever somebody puts in its place.
#[test]
fn file_that_is_swapped_while_it_is_read_gives_nothing_of_anothers() {
    let home = Home::new();
    let secret = home.0.path().join("secret");
    fs::write(&secret, "SECRET").unwrap();
    let (done, path) = (AtomicBool::new(false), home.path("settings.json"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = fs::remove_file(&path);
                let _ = symlink(&secret, &path);
                let _ = fs::remove_file(&path);
                let _ = fs::write(&path, "{}");
            }
        });
        let real = fs::canonicalize(home.0.path()).unwrap();
        for _ in 0..300 {
            let (files, _) = collect(&real.join(".pi/agent"), Path::new(".pi/agent"), &real, &[]);
            for file in files.unwrap_or_default().into_values() {
                assert!(["", "{}"].contains(&str::from_utf8(&file.content).unwrap()));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
