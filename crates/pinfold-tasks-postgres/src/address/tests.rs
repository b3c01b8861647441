use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn address(text: &str) -> Address {
    Address::of_url(text, Path::new("/nonexistent")).unwrap()
}

fn refusal(text: &str) -> String {
    Address::of_url(text, Path::new("/nonexistent")).unwrap_err().to_string()
}

#[test]
fn url_is_read_as_libpq_reads_it() {
    let read = address("postgresql://me%40x:p%3aw@db.example.com:6000/tasks");
    assert_eq!((read.user.as_str(), read.database.as_str()), ("me@x", "tasks"));
    assert_eq!(read.servers[0].password.as_deref().map(String::as_str), Some("p:w"));
    assert_eq!(read.servers[0].port, 6000);
    assert_eq!(read.to_string(), "\"tasks\" at db.example.com:6000");
    let read = address("postgres://me@%2Frun%2Fpg/tasks");
    assert_eq!(read.servers[0].host, Host::Socket("/run/pg".into()));
    let read = address("postgres:///tasks?host=/run/pg&port=7000&user=me");
    assert_eq!((read.servers[0].port, read.user.as_str()), (7000, "me"));
    let read = address("postgres://me@[::1]:7,b:8/");
    let hosts: Vec<_> = read.servers.iter().map(|each| (each.host.clone(), each.port)).collect();
    assert_eq!(hosts, [(Host::Name("::1".into()), 7), (Host::Name("b".into()), 8)]);
    assert_eq!(read.database, "me");
}

#[test]
fn connection_to_another_machine_is_verified_unless_the_url_says_otherwise() {
    let mode = |text: &str| address(text).tls;
    assert_eq!(mode("postgres://me@db.example.com/x"), TlsMode::VerifyFull);
    assert_eq!(mode("postgres://me@127.0.0.1,db.example.com/x"), TlsMode::VerifyFull);
    // Not this machine: a name that only begins like it.
    assert_eq!(mode("postgres://me@localhost.example.com/x"), TlsMode::VerifyFull);
    assert_eq!(mode("postgres://me@localhost/x"), TlsMode::Disable);
    assert_eq!(mode("postgres://me@%2Frun/x"), TlsMode::Disable);
    assert_eq!(mode("postgres://me@h/x?sslmode=require"), TlsMode::Require);
    assert_eq!(mode("postgres://me@h/x?sslmode=require&sslrootcert=/ca"), TlsMode::VerifyCa);
    for mode in ["prefer", "allow"] {
        let said = refusal(&format!("postgres://me@h/x?sslmode={mode}"));
        assert!(said.contains("does not protect"), "{said}");
    }
}

#[test]
fn no_form_of_an_address_or_its_error_shows_the_password() {
    let read = address("postgres://me:hush@h/x");
    assert!(!format!("{read} {read:?}").contains("hush"));
    for text in [
        "postgres://me:hush/hush@h/x",
        "postgres://me:1/hush@h/x",
        "postgres://me:hush@h:hush/x",
        "postgres://me:hush%@h/x",
        "postgres://me:hush@h/x?sslmode=hush",
        "postgres://me:hush@h/x?password",
        "postgres://me:hush@h/x?unknown=hush",
        "postgres://me:hush#@h/x",
        "postgres://me:1?hush=hush@h/x",
        "postgres://me:hush@[h/x",
    ] {
        let error = Address::of_url(text, Path::new("/")).unwrap_err();
        assert!(!format!("{error} {error:?} {:?}", error.hint()).contains("hush"), "{text}");
    }
}

#[test]
fn password_file_has_the_password_of_the_first_line_that_fits() {
    let read = address("postgres://me@h:6000/tasks");
    let find = |lines: &str| {
        password_file::find(lines, &read.servers[0], "tasks", "me").map(|found| found.to_string())
    };
    assert_eq!(
        find("# h:6000:tasks:me:no\nh:5432:tasks:me:no\nh:6000:*:me:a\\:b\\\\c"),
        Some("a:b\\c".into())
    );
    assert_eq!(find("*:*:*:*:with:colons"), Some("with:colons".into()));
    assert_eq!(find("h:6000:tasks:other:x\nh:6000\n"), None);
    let read = address("postgres://me@%2Frun%2Fpg/tasks");
    let find = |lines: &str| password_file::find(lines, &read.servers[0], "tasks", "me").is_some();
    assert!(find("/run/pg:5432:tasks:me:x") && find("localhost:*:*:*:x") && !find("h:*:*:*:x"));
}

#[test]
fn password_file_that_others_can_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(".pgpass");
    assert!(password_file::read(&path).unwrap().is_none());
    fs::write(&path, "*:*:*:*:hush").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let error = password_file::read(&path).unwrap_err();
    assert!(matches!(error, AddressError::Readable { mode: 0o640, .. }), "{error}");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert!(password_file::read(&path).unwrap().is_some());
}
