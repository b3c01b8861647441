//! What a store promises, with real files and a runner that only pretends to run programs.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::sync::Mutex;

use pinfold_secrets::{
    AuthMode, CommandOutput, Entry, EnvName, Error, InvalidSecret, Login, Place, RunCommand,
    Secret, SecretId, Store, default_dir, env_is_set, fallbacks_for,
};
use tempfile::TempDir;

const VALUE: &str = "sk-test-0123456789";

/// Answers every program with the same output and remembers what it was asked.
struct Scripted {
    code: Option<i32>,
    stdout: &'static str,
    asked: Mutex<Vec<(Vec<String>, Option<String>)>>,
}

impl Scripted {
    fn new(code: i32, stdout: &'static str) -> Self {
        Self { code: Some(code), stdout, asked: Mutex::default() }
    }

    fn programs(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(argv, _)| argv[..2].join(" ")).collect()
    }
}

impl RunCommand for Scripted {
    fn run(&self, argv: &[String], stdin: Option<&Secret>) -> io::Result<CommandOutput> {
        let stdin = stdin.map(|secret| secret.expose().to_owned());
        self.asked.lock().unwrap().push((argv.to_vec(), stdin));
        let stderr = if self.code == Some(0) { Vec::new() } else { b"no luck\n".to_vec() };
        Ok(CommandOutput {
            code: self.code,
            stdout: self.stdout.as_bytes().to_vec().into(),
            stderr,
        })
    }
}

/// A machine on which nothing is installed.
struct Bare;

impl RunCommand for Bare {
    fn run(&self, _: &[String], _: Option<&Secret>) -> io::Result<CommandOutput> {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn store() -> (TempDir, Store, PathBuf) {
    let root = TempDir::new().unwrap();
    let dir = root.path().join("config/secrets");
    (root, Store::new(dir.clone()), dir)
}

fn id(name: &str) -> SecretId {
    SecretId::new(name).unwrap()
}

fn secret(value: &str) -> Secret {
    Secret::from_bytes(value.as_bytes().to_vec()).unwrap_or_else(|error| panic!("{error}"))
}

fn failure<T>(outcome: Result<T, Error>) -> Error {
    outcome.err().expect("it should fail")
}

#[test]
fn a_value_comes_back_and_is_private() {
    let (_root, store, dir) = store();
    let found = store.set(&id("k"), Entry::Value(secret(VALUE)), None, &Bare).unwrap();
    assert_eq!(found.place, Place::File(dir.join("k")));
    assert_eq!(found.auth, AuthMode::ApiKey);
    let resolved = store.resolve(&id("k"), &Bare).unwrap();
    assert_eq!(resolved.secret.expose(), VALUE);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join("k")), 0o600);
    assert_eq!(mode(&dir.join(".sources")), 0o700);
    assert_eq!(mode(&dir.join(".sources/k")), 0o600);
}

#[test]
fn the_kind_shows_in_the_shape_and_can_be_overridden() {
    let (_root, store, _) = store();
    let token = || Entry::Value(secret("sk-ant-oat01-x"));
    store.set(&id("a"), token(), None, &Bare).unwrap();
    assert_eq!(store.check(&id("a")).unwrap().found.unwrap().auth, AuthMode::Oauth);
    store.set(&id("a"), token(), Some(AuthMode::ApiKey), &Bare).unwrap();
    assert_eq!(store.check(&id("a")).unwrap().found.unwrap().auth, AuthMode::ApiKey);
}

#[test]
fn file_that_others_may_read_is_refused_with_a_hint() {
    let (_root, store, dir) = store();
    store.set(&id("k"), Entry::Value(secret(VALUE)), None, &Bare).unwrap();
    fs::set_permissions(dir.join("k"), fs::Permissions::from_mode(0o640)).unwrap();
    for error in [failure(store.check(&id("k"))), failure(store.resolve(&id("k"), &Bare))] {
        let hint = format!("run `chmod 600 {}`", dir.join("k").display());
        assert!(error.to_string().contains(&hint), "{error}");
        assert!(!error.to_string().contains(VALUE));
    }
}

#[test]
fn directory_that_others_may_enter_is_refused_with_a_hint() {
    let (_root, store, dir) = store();
    store.set(&id("k"), Entry::Value(secret(VALUE)), None, &Bare).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let error = failure(store.resolve(&id("k"), &Bare)).to_string();
    assert!(error.contains(&format!("run `chmod 700 {}`", dir.display())), "{error}");
}

#[test]
fn links_and_pipes_are_not_followed_and_do_not_hang() {
    let (root, store, dir) = store();
    store.set(&id("k"), Entry::Value(secret(VALUE)), None, &Bare).unwrap();
    let elsewhere = root.path().join("elsewhere");
    fs::rename(dir.join("k"), &elsewhere).unwrap();
    symlink(&elsewhere, dir.join("k")).unwrap();
    assert!(matches!(failure(store.resolve(&id("k"), &Bare)), Error::WrongKind { .. }));

    fs::remove_file(dir.join("k")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, dir.join("k"), kind, mode, 0).unwrap();
    assert!(matches!(failure(store.resolve(&id("k"), &Bare)), Error::WrongKind { .. }));

    let linked = Store::new(root.path().join("link"));
    symlink(&dir, root.path().join("link")).unwrap();
    assert!(matches!(failure(linked.check(&id("k"))), Error::WrongKind { .. }));
}

#[test]
fn leftovers_of_a_killed_writer_are_swept_and_never_listed() {
    let (_root, store, dir) = store();
    store.set(&id("k"), Entry::Value(secret(VALUE)), None, &Bare).unwrap();
    fs::write(dir.join(".new-k"), "half").unwrap();
    let names: Vec<_> = store.list().unwrap().into_iter().map(|r| r.id.to_string()).collect();
    assert!(names.contains(&"k".to_owned()) && !names.iter().any(|name| name.contains("new")));
    store.set(&id("k"), Entry::Value(secret("other")), None, &Bare).unwrap();
    assert!(!dir.join(".new-k").exists());
    assert_eq!(store.resolve(&id("k"), &Bare).unwrap().secret.expose(), "other");
}

#[test]
fn writers_at_once_leave_one_whole_value() {
    let (_root, store, _) = store();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let store = &store;
            scope.spawn(move || {
                let value = format!("value-{n}").repeat(50);
                store.set(&id("k"), Entry::Value(secret(&value)), None, &Bare).unwrap();
            });
        }
    });
    let resolved = store.resolve(&id("k"), &Bare).unwrap();
    assert_eq!(resolved.secret.expose().len(), "value-0".len() * 50);
}

#[test]
fn a_command_is_run_at_each_use_and_leaves_no_value_behind() {
    let (_root, store, dir) = store();
    store.set(&id("gh"), Entry::Value(secret(VALUE)), None, &Bare).unwrap();
    let argv: Vec<String> = ["gh", "auth", "token"].map(str::to_owned).to_vec();
    store.set(&id("gh"), Entry::Command(argv.clone()), None, &Bare).unwrap();
    assert!(!dir.join("gh").exists(), "the earlier value is gone");
    let runner = Scripted::new(0, "gho_abc\n");
    assert_eq!(store.check(&id("gh")).unwrap().found.unwrap().place, Place::Command(argv));
    assert!(runner.programs().is_empty(), "a check runs nothing");
    assert_eq!(store.resolve(&id("gh"), &runner).unwrap().secret.expose(), "gho_abc");
    assert_eq!(runner.programs(), ["gh auth"]);
}

#[test]
fn a_failing_command_says_so() {
    let (_root, store, _) = store();
    let argv = vec!["gh".to_owned(), "auth".to_owned()];
    store.set(&id("gh"), Entry::Command(argv), None, &Bare).unwrap();
    let error = failure(store.resolve(&id("gh"), &Scripted::new(4, "gho_partial"))).to_string();
    assert_eq!(error, "`gh auth` gave no secret: it exited with 4, saying: no luck");
    assert!(matches!(failure(store.resolve(&id("gh"), &Bare)), Error::CommandStart { .. }));
    let two_lines = store.resolve(&id("gh"), &Scripted::new(0, "one\ntwo\n"));
    let Error::Unusable { cause, .. } = failure(two_lines) else { panic!("another error") };
    assert_eq!(cause, InvalidSecret::ControlCharacter);
    let empty = store.set(&id("gh"), Entry::Command(Vec::new()), None, &Bare);
    assert!(matches!(failure(empty), Error::EmptyCommand { .. }));
}

#[test]
fn the_keyring_is_spoken_to_through_secret_tool() {
    let (_root, store, dir) = store();
    let runner = Scripted::new(0, VALUE);
    store.set(&id("k"), Entry::Keyring(secret(VALUE)), None, &runner).unwrap();
    assert!(!dir.join("k").exists());
    assert_eq!(store.resolve(&id("k"), &runner).unwrap().secret.expose(), VALUE);
    assert_eq!(store.remove(&id("k"), &runner).unwrap(), [Place::Keyring]);
    assert_eq!(runner.programs(), ["secret-tool store", "secret-tool lookup", "secret-tool clear"]);
    let asked = runner.asked.lock().unwrap();
    assert!(asked.iter().all(|(argv, _)| !argv.join(" ").contains(VALUE)), "not in arguments");
    assert_eq!(asked[0].1.as_deref(), Some(VALUE));
}

#[test]
fn without_a_keyring_the_error_names_another_way() {
    let (_root, store, _) = store();
    let error = failure(store.set(&id("k"), Entry::Keyring(secret(VALUE)), None, &Bare));
    assert!(error.to_string().contains("pinfold secret set k"), "{error}");
    assert!(store.check(&id("k")).unwrap().found.is_none());
}

#[test]
fn a_chosen_source_that_is_empty_is_not_replaced_by_another() {
    let (_root, store, dir) = store();
    let name = EnvName::new("PINFOLD_TEST_NO_SUCH_VARIABLE").unwrap();
    store.set(&id("k"), Entry::Env(name.clone()), None, &Bare).unwrap();
    fs::write(dir.join("k"), VALUE).unwrap();
    fs::set_permissions(dir.join("k"), fs::Permissions::from_mode(0o600)).unwrap();
    let report = store.check(&id("k")).unwrap();
    assert_eq!(report.found, None);
    assert_eq!(report.looked[0].place, Place::Env(name));
    assert!(matches!(failure(store.resolve(&id("k"), &Bare)), Error::Missing { .. }));
}

#[test]
fn a_variable_is_found_and_read() {
    // Every test runner sets PATH, and no test may edit the environment.
    let (_root, store, _) = store();
    let name = EnvName::new("PATH").unwrap();
    assert!(env_is_set("PATH") && !env_is_set("PINFOLD_TEST_NO_SUCH_VARIABLE"));
    store.set(&id("p"), Entry::Env(name.clone()), None, &Bare).unwrap();
    assert_eq!(store.check(&id("p")).unwrap().found.unwrap().place, Place::Env(name));
    let resolved = store.resolve(&id("p"), &Bare).unwrap();
    assert_eq!(resolved.secret.expose(), std::env::var("PATH").unwrap());
}

#[test]
fn missing_secret_names_every_place_with_a_hint() {
    let (_root, store, dir) = store();
    let report = store.check(&id("nobody")).unwrap();
    assert_eq!(report.looked[0].place, Place::File(dir.join("nobody")));
    assert!(!dir.exists(), "a check makes nothing");
    let error = failure(store.resolve(&id("nobody"), &Bare)).to_string();
    assert!(error.contains("pinfold secret set nobody"), "{error}");
    assert!(error.contains(&dir.join("nobody").display().to_string()), "{error}");
    assert!(matches!(failure(store.remove(&id("nobody"), &Bare)), Error::Missing { .. }));
}

#[test]
fn fallbacks_know_each_kind_of_anthropic_credential() {
    let kinds: Vec<_> = fallbacks_for("anthropic").map(|f| (f.name, f.auth)).collect();
    assert_eq!(kinds[0], ("ANTHROPIC_API_KEY", AuthMode::ApiKey));
    assert_eq!(kinds[1], ("ANTHROPIC_AUTH_TOKEN", AuthMode::Gateway));
    assert!(kinds[2..].iter().all(|(_, auth)| *auth == AuthMode::Oauth) && kinds.len() == 4);
}

#[test]
fn a_damaged_record_is_an_error_and_not_a_default() {
    let (_root, store, dir) = store();
    store.set(&id("k"), Entry::Value(secret(VALUE)), None, &Bare).unwrap();
    for content in ["", "{}", r#"{"source":{"from":"file","x":1},"auth":"api_key"}"#] {
        fs::write(dir.join(".sources/k"), content).unwrap();
        assert!(matches!(failure(store.check(&id("k"))), Error::BadRecord { .. }), "{content}");
    }
}

#[test]
fn removing_forgets_the_value_of_an_interrupted_write() {
    let (_root, store, dir) = store();
    store.set(&id("k"), Entry::Value(secret(VALUE)), None, &Bare).unwrap();
    fs::write(dir.join(".new-k"), VALUE).unwrap();
    store.remove(&id("k"), &Bare).unwrap();
    assert!(!dir.join(".new-k").exists());
}

#[test]
fn removing_forgets_the_value_and_the_record() {
    let (_root, store, dir) = store();
    store.set(&id("k"), Entry::Value(secret(VALUE)), None, &Bare).unwrap();
    assert_eq!(store.remove(&id("k"), &Bare).unwrap(), [Place::File(dir.join("k"))]);
    assert!(!dir.join("k").exists() && !dir.join(".sources/k").exists());
}

#[test]
fn values_are_checked() {
    let invalid = |bytes: &[u8]| Secret::from_bytes(bytes.to_vec()).err();
    assert_eq!(invalid(b""), Some(InvalidSecret::Empty));
    assert_eq!(invalid(b"\n"), Some(InvalidSecret::Empty));
    assert_eq!(invalid(b"{\n  \"a\": \"b\"\n}\n"), None, "a JSON object is put on one line");
    assert_eq!(invalid(b"{\"a\nb\": 1}"), Some(InvalidSecret::ControlCharacter));
    assert_eq!(invalid(b"a\nb"), Some(InvalidSecret::ControlCharacter));
    assert_eq!(invalid(b"a\n\n"), Some(InvalidSecret::ControlCharacter));
    assert_eq!(invalid(b"a\x7f"), Some(InvalidSecret::ControlCharacter));
    assert_eq!(invalid(b" a"), Some(InvalidSecret::OuterSpace));
    assert_eq!(invalid(b"\xff"), Some(InvalidSecret::NotText));
    assert_eq!(invalid(&vec![b'a'; 70_000]), Some(InvalidSecret::TooLong));
    assert_eq!(secret("a\r\n").expose(), "a");
}

#[test]
fn ids_are_file_names_that_cannot_hide_or_escape() {
    for good in ["a", "0", "anthropic", "gh.enterprise_1-x"] {
        assert!(SecretId::new(good).is_ok(), "{good}");
    }
    let long = "a".repeat(65);
    for bad in ["", ".", "..", ".sources", "-a", "A", "a/b", "a\0", "ä", "a b", &long] {
        assert!(SecretId::new(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_directory_follows_the_base_directory_specification() {
    let dir = |xdg: Option<&str>, home: Option<&str>| {
        default_dir(xdg.map(Into::into), home.map(Into::into)).ok()
    };
    assert_eq!(dir(Some("/x"), Some("/h")), Some("/x/pinfold/secrets".into()));
    assert_eq!(dir(Some("x"), Some("/h")), Some("/h/.config/pinfold/secrets".into()));
    assert_eq!(dir(Some(""), None), None);
}

/// A login as the store keeps it.
fn login(turn: u8) -> Login {
    let secret = |name: &str| Secret::from_bytes(format!("{name}-{turn}").into()).ok().unwrap();
    let (access, refresh) = (secret("access"), Some(secret("refresh")));
    let account = Some("account".to_owned());
    Login { access, refresh, expires_at: Some(1), refreshed_at: None, account }
}

#[test]
fn a_login_is_kept_apart_and_replaced_only_while_it_is_there() {
    let (_root, store, dir) = store();
    let id = id("anthropic");
    let key = Secret::from_bytes(VALUE.into()).ok().unwrap();
    store.set(&id, Entry::Value(key), None, &Bare).unwrap();
    let found = store.set(&id, Entry::Login(login(1)), None, &Bare).unwrap();
    let file = dir.join(".logins/anthropic");
    assert_eq!((found.place, found.auth), (Place::Login(file.clone()), AuthMode::Oauth));
    assert!(!dir.join("anthropic").exists(), "the key is gone");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(store.resolve(&id, &Bare).unwrap().secret.expose(), "access-1");
    let kept = store.login(&id).unwrap().unwrap();
    assert!(kept.is_same(&login(1)) && kept.account.as_deref() == Some("account"));

    let stamp = store.stamp(&id);
    let lock = store.lock_login(&id).unwrap();
    assert!(store.replace_login(&id, &login(1), &login(2), &lock).unwrap());
    assert_ne!(store.stamp(&id), stamp);
    assert!(!store.replace_login(&id, &login(1), &login(3), &lock).unwrap(), "another is there");
    assert!(store.login(&id).unwrap().unwrap().is_same(&login(2)));
    assert_eq!(store.remove(&id, &Bare).unwrap(), [Place::Login(file)]);
    assert!(!store.replace_login(&id, &login(2), &login(3), &lock).unwrap(), "none is there");
    assert!(!store.keeps(&id).unwrap() && store.login(&id).unwrap().is_none());

    store.set(&id, Entry::Login(login(4)), None, &Bare).unwrap();
    store.set(&id, Entry::Env(EnvName::new("X").unwrap()), None, &Bare).unwrap();
    assert!(store.login(&id).unwrap().is_none() && !dir.join(".logins/anthropic").exists());
}

#[test]
fn broken_login_is_reported_and_not_quoted() {
    let (_root, store, dir) = store();
    let id = id("anthropic");
    store.set(&id, Entry::Login(login(1)), None, &Bare).unwrap();
    fs::write(dir.join(".logins/anthropic"), "{\"access\": \"hush\"").unwrap();
    let error = store.resolve(&id, &Bare).err().unwrap().to_string();
    assert!(error.contains("pinfold secret import") && !error.contains("hush"), "{error}");
}
