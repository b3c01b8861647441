//! The commands as a user gives them, against a real store and a real terminal.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::mpsc;

use clap::Parser;
use pinfold_secrets::{CommandOutput, Entry, RunCommand, Secret, SecretId, Store};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use tempfile::TempDir;

use super::{SecretCommand, SecretError, prompt, run};

/// The command line as `pinfold secret …` will mount it.
#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: SecretCommand,
}

/// A host on which only `printer` is installed.
struct Host;

impl RunCommand for Host {
    fn run(&self, argv: &[String], _: Option<&Secret>) -> io::Result<CommandOutput> {
        if argv[0] != "printer" {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(CommandOutput { code: Some(0), stdout: b"hidden\n".to_vec().into(), stderr: Vec::new() })
    }
}

fn store() -> (TempDir, Store) {
    let root = TempDir::new().unwrap();
    let store = Store::new(root.path().join("secrets"));
    (root, store)
}

fn pinfold_secret(store: &Store, line: &str) -> (String, Result<(), SecretError>) {
    let words = std::iter::once("secret").chain(line.split(' '));
    let command = Line::try_parse_from(words).unwrap().command;
    let mut out = Vec::new();
    let outcome = run(command, store, &Host, &mut out);
    (String::from_utf8(out).unwrap(), outcome)
}

#[test]
fn a_check_says_what_was_looked_at_and_never_the_value() {
    let (root, store) = store();
    let file = root.path().join("secrets/gh");
    let (out, outcome) = pinfold_secret(&store, "check gh");
    assert_eq!(out, format!("gh: file {}: no such file, or empty\n", file.display()));
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("pinfold secret set gh"), "{error}");

    pinfold_secret(&store, "set gh --from-command printer --plain").1.unwrap();
    let (out, outcome) = pinfold_secret(&store, "check gh");
    outcome.unwrap();
    assert_eq!(out, "gh: command printer --plain: found, api_key, usable\n");
}

#[test]
fn dashes_before_a_command_are_no_part_of_it() {
    let (_root, store) = store();
    for (line, kept) in [
        ("set gh --from-command -- printer --plain", "printer --plain"),
        ("set gh --auth gateway --from-command -- printer -- x", "printer -- x"),
        ("set gh --from-command printer -- x", "printer -- x"),
    ] {
        pinfold_secret(&store, line).1.unwrap();
        let (out, _) = pinfold_secret(&store, "check gh");
        assert!(out.contains(&format!("command {kept}: found")), "{line}: {out}");
    }
    let error = pinfold_secret(&store, "set other --from-command --").1.unwrap_err();
    assert!(matches!(error, SecretError::NoCommand));
    assert!(pinfold_secret(&store, "check other").1.is_err(), "nothing is kept");
}

#[test]
fn a_check_in_json_says_the_same() {
    let (_root, store) = store();
    pinfold_secret(&store, "set a --auth oauth --from-command absent").1.unwrap();
    let (out, outcome) = pinfold_secret(&store, "check a --json");
    assert!(matches!(outcome, Err(SecretError::Unusable { .. })));
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["found"]["source"], "command");
    assert_eq!(value["found"]["auth_mode"], "oauth");
    assert_eq!(value["usable"], false);
    assert!(value["error"].as_str().unwrap().contains("cannot run `absent`"));
}

#[test]
fn a_list_names_sources_and_a_removed_secret_is_gone() {
    let (root, store) = store();
    let id = SecretId::new("mine").unwrap();
    let value = Secret::from_bytes(b"hidden-value".to_vec()).unwrap_or_else(|e| panic!("{e}"));
    store.set(&id, Entry::Value(value), None, &Host).unwrap();
    pinfold_secret(&store, "set lost --from-env PINFOLD_TEST_NO_SUCH_VARIABLE").1.unwrap();
    let (out, outcome) = pinfold_secret(&store, "ls");
    outcome.unwrap();
    let file = root.path().join("secrets/mine");
    assert!(out.contains(&format!("mine\tapi_key\tfile {}\n", file.display())), "{out}");
    assert!(out.contains("lost\tnot set\tenv PINFOLD_TEST_NO_SUCH_VARIABLE\n"), "{out}");
    let (out, _) = pinfold_secret(&store, "ls --json");
    assert!(serde_json::from_str::<serde_json::Value>(&out).unwrap().is_array());
    assert!(!out.contains("hidden-value"));

    pinfold_secret(&store, "rm mine").1.unwrap();
    assert!(!file.exists());
    assert!(matches!(pinfold_secret(&store, "rm mine").1, Err(SecretError::Store(_))));
}

#[test]
fn an_import_takes_one_credential_and_refuses_what_is_no_login() {
    let (root, store) = store();
    let import = |words: &str, content: Option<&str>| {
        let file = root.path().join("auth.json");
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let line = format!("import {words} --from {}", file.display());
        pinfold_secret(&store, &line).1.map_err(|error| error.to_string())
    };
    let missing = import("codex", None).unwrap_err();
    assert!(missing.contains("/auth.json") && missing.contains("with --from"), "{missing}");
    let broken = import("codex", Some(r#"{"tokens":"hush"}"#)).unwrap_err();
    assert!(broken.contains("no access_token") && !broken.contains("hush"), "{broken}");
    let both = r#"{"openai":{"type":"api_key","key":"k-1"},
        "openai-codex":{"type":"oauth","access":"a","refresh":"r","expires":1}}"#;
    let unclear = import("pi", Some(both)).unwrap_err();
    assert!(unclear.contains("choose one with --provider"), "{unclear}");
    let unknown = import("pi --provider nobody", None).unwrap_err();
    assert!(unknown.contains("it has no provider nobody; it has openai"), "{unknown}");
    assert_eq!(pinfold_secret(&store, "ls").0, "");
    import("pi --provider openai", None).unwrap();
    let (list, _) = pinfold_secret(&store, "ls");
    assert!(list.starts_with("openai\tapi_key\tfile "), "{list}");
    assert_eq!(std::fs::read_to_string(root.path().join("auth.json")).unwrap(), both);
}

#[test]
fn sources_exclude_each_other_and_ids_are_checked() {
    for line in ["set a --from-env X --keyring", "set a --keyring --from-command x", "set A"] {
        let words = std::iter::once("secret").chain(line.split(' '));
        assert!(Line::try_parse_from(words).is_err(), "{line}");
    }
}

#[test]
fn piped_value_is_taken_whole_except_one_newline() {
    let piped = |bytes: &[u8]| {
        let (read, write) = io::pipe().unwrap();
        (&write).write_all(bytes).unwrap();
        drop(write);
        prompt::read_from(read.as_fd(), &SecretId::new("a").unwrap())
    };
    assert_eq!(piped(b"value\n").unwrap_or_else(|e| panic!("{e}")).expose(), "value");
    for bad in [&b""[..], b"\n", b"two\nlines\n"] {
        assert!(matches!(piped(bad).err(), Some(SecretError::Invalid(_))));
    }
}

/// Types into a new terminal while a secret is read from it. Gives the outcome, and what the
/// terminal showed.
fn typed(keys: &[u8]) -> (Result<Secret, SecretError>, String) {
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let name = ptsname(&keyboard, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let terminal: OwnedFd = rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).unwrap();
    let before = tcgetattr(&terminal).unwrap();
    let (report, outcome) = mpsc::channel();
    let reader = terminal.try_clone().unwrap();
    std::thread::spawn(move || {
        let id = SecretId::new("a").unwrap();
        report.send(prompt::read_from(reader.as_fd(), &id)).unwrap();
    });
    // What is typed before the echo is off is thrown away, so wait until it is.
    while tcgetattr(&terminal).unwrap().local_modes.contains(LocalModes::ECHO) {
        std::thread::yield_now();
    }
    let mut keyboard = std::fs::File::from(keyboard);
    keyboard.write_all(keys).unwrap();
    let outcome = outcome.recv().unwrap();
    let after = tcgetattr(&terminal).unwrap();
    assert_eq!(after.local_modes, before.local_modes, "the terminal is as before");
    (&std::fs::File::from(terminal)).write_all(b"end").unwrap();
    let mut shown = [0; 100];
    let length = keyboard.read(&mut shown).unwrap();
    (outcome, String::from_utf8_lossy(&shown[..length]).into_owned())
}

#[test]
fn a_typed_value_is_not_shown() {
    let (outcome, shown) = typed(b"hiddem\x7fn\n");
    assert_eq!(outcome.unwrap_or_else(|e| panic!("{e}")).expose(), "hidden");
    assert!(!shown.contains("hidde"), "{shown}");
}

#[test]
fn ctrl_c_ends_the_reading_and_keeps_nothing() {
    let (outcome, _) = typed(b"hidd\x03");
    assert!(matches!(outcome.err(), Some(SecretError::Io { .. })));
}
