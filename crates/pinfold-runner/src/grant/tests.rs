use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::{Allowed, is_in, open};
use crate::accounts::Account;
use crate::caller::Caller;
use crate::request::Wanted;

#[test]
fn path_with_a_root_as_its_beginning_alone_is_in_no_project() {
    let roots = [PathBuf::from("/home/alice/work")];
    let is_given = |path: &str| is_in(&roots, Path::new(path));
    assert!(is_given("/home/alice/work") && is_given("/home/alice/work/a/b"));
    for path in ["/home/alice/workshop", "/home/alice", "/home/alice/wor", "/", "/etc"] {
        assert!(!is_given(path), "{path}");
    }
}

/// Returns a caller of this process's own user: the tests that need another one are end-to-end.
fn own() -> Caller {
    let kind = SocketType::SEQPACKET;
    let (one, _other) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    Caller::of_socket(one.as_fd()).unwrap()
}

#[test]
fn file_is_handed_over_only_by_its_own_name_without_links() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED file_is_handed_over_only_by_its_own_name_without_links: needs root");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(base.path()).unwrap().join("root");
    fs::create_dir(&base).unwrap();
    let path = |name: &str| base.join(name);
    for name in ["a", "b"] {
        fs::create_dir(path(name)).unwrap();
        fs::write(path(name).join("file"), name).unwrap();
    }
    symlink("a", path("link")).unwrap();
    symlink("/etc", path("out")).unwrap();
    let _socket = UnixListener::bind(path("socket")).unwrap();

    let caller = own();
    let account = Account { name: "alice".to_owned(), uid: 0, gid: 0, home: base.clone() };
    let directories = [base.clone()];
    let allowed = Allowed { caller: &caller, account: &account, directories: &directories };
    let hand = |name: &str, theirs: &Path| {
        let wanted = Wanted { path: path(name), is_writable: true };
        allowed.open(&wanted, open(theirs).unwrap()).map(drop).map_err(|refusal| refusal.what)
    };
    assert_eq!(hand("a", &path("a")), Ok(()));
    assert_eq!(hand("a/file", &path("a/file")), Ok(()));
    let other = |name: &str, theirs: &Path| hand(name, theirs).unwrap_err();
    assert!(other("a", &path("b")).ends_with("is not the file that was handed over"));
    assert!(other("a", Path::new("/etc")).ends_with("is not the file that was handed over"));
    assert!(other("link", &path("a")).starts_with("a symbolic link is on the path"));
    assert!(other("link/file", &path("a/file")).starts_with("a symbolic link is on the path"));
    assert!(
        other("out/passwd", Path::new("/etc/passwd")).starts_with("a symbolic link is on the path")
    );
    assert!(other("gone", &path("a")).contains("No such file"));
    assert!(other("socket", &path("socket")).ends_with("is neither a file nor a directory"));
    let outside = Wanted { path: PathBuf::from("/etc"), is_writable: false };
    let refusal = allowed.open(&outside, open(Path::new("/etc")).unwrap()).unwrap_err();
    assert_eq!(refusal.what, "/etc is in no project of alice");
    assert_eq!(refusal.hint, Some(format!("the administrator gives: {}", base.display())));
}

#[test]
fn caller_reaches_nothing_by_the_runner_that_it_cannot_reach_itself() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED caller_reaches_nothing_by_the_runner: needs root");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let base = fs::canonicalize(base.path()).unwrap();
    let (closed, inner) = (base.join("closed"), base.join("closed/inner"));
    fs::create_dir_all(&inner).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    chown(&base, Some(1234), Some(1234)).unwrap();

    let caller = Caller::of_ids(1234, 1234);
    let account = Account { name: "alice".to_owned(), uid: 1234, gid: 1234, home: base.clone() };
    let directories = [base.clone()];
    let allowed = Allowed { caller: &caller, account: &account, directories: &directories };
    let wanted = Wanted { path: inner.clone(), is_writable: true };
    let refusal = allowed.open(&wanted, open(&inner).unwrap()).unwrap_err();
    assert!(refusal.what.contains("Permission denied"), "{refusal}");
    // It is root's again.
    open(&inner).unwrap();
    chown(&closed, Some(1234), Some(1234)).unwrap();
    allowed.open(&wanted, open(&inner).unwrap()).unwrap();
}
