use std::os::unix::fs::PermissionsExt as _;

use super::*;

#[test]
fn way_of_a_path_is_followed_through_dots_as_the_kernel_does() {
    let directory = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(directory.path()).unwrap();
    fs::create_dir_all(base.join("real/below")).unwrap();
    fs::write(base.join("real/ca.crt"), "").unwrap();
    std::os::unix::fs::symlink("real/below", base.join("link")).unwrap();
    std::os::unix::fs::symlink("round", base.join("round")).unwrap();
    let way = |name: &str| resolve(&base.join(name));
    let end = |name: &str| way(name).end;
    assert_eq!(end("link/../ca.crt"), Some(base.join("real/ca.crt")));
    assert_eq!(way("link/../ca.crt").links, [base.join("link")]);
    assert_eq!(end("real/below/../../ca.crt"), Some(base.join("ca.crt")));
    let missing = way("new/../real/ca.crt");
    assert_eq!(
        (missing.left, missing.end),
        (vec![base.join("new")], Some(base.join("real/ca.crt")))
    );
    assert_eq!(end("round/ca.crt"), None);
    assert!(way("round/ca.crt").links.contains(&base.join("round")));
}

#[test]
fn links_in_a_directory_of_certificates_are_kept_where_they_lead() {
    let directory = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(directory.path()).unwrap();
    fs::create_dir(base.join("trusted")).unwrap();
    fs::write(base.join("ca.crt"), "").unwrap();
    std::os::unix::fs::symlink("../ca.crt", base.join("trusted/0.0")).unwrap();
    let mut protect = Protect::new(vec![(base.clone(), true)]);
    let trusted: Vec<Trusted> = Trusted::directories(base.join("trusted").into()).collect();
    keep(&mut protect, &trusted, &Own::default(), |_| false);
    let kept: HashSet<&Path> = protect.restrictions().map(|(path, ..)| path).collect();
    for name in ["trusted", "trusted/0.0", "ca.crt"] {
        assert!(kept.contains(&*base.join(name)), "{name}");
    }
    fs::hard_link(base.join("ca.crt"), base.join("other")).unwrap();
    assert_eq!(
        with_several_names(&trusted),
        linked_inode(&base.join("other")).into_iter().collect()
    );
}

#[test]
fn what_no_sandbox_writes_is_not_looked_through() {
    let one = |list: &str| Trusted::directories(list.into()).next().unwrap();
    assert_eq!(one("/etc/ssl").names(), [Path::new("/etc/ssl")]);
    assert!(one("/etc/ssl").files().is_empty());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.crt");
    fs::write(&file, "").unwrap();
    fs::hard_link(&file, directory.path().join("other")).unwrap();
    let trusted = [Trusted::file(&file).unwrap()];
    // Its owner may make it writable.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(with_several_names(&trusted).len(), 1);
}
