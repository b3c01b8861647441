use ring::digest::{Context, SHA256};

use super::copy::names_a_login;
use super::users::{groups, users};

use super::*;

#[test]
fn addresses_with_a_login_are_recognised() {
    for text in [
        "deb https://me:secret@packages.example.org/debian stable main",
        "URIs: https://deb.example.org/ http://token@packages.example.org",
        "Acquire::x \"https://me@packages.example.org\";",
    ] {
        assert!(names_a_login(text), "{text}");
    }
    for text in [
        "deb https://packages.example.org/debian stable main # mail me@example.org",
        "deb https://packages.example.org/@scope/debian ./",
        "deb [signed-by=/etc/apt/keyrings/x.gpg] http://packages.example.org/ ./",
    ] {
        assert!(!names_a_login(text), "{text}");
    }
}

#[test]
fn users_of_the_system_are_kept_and_people_are_not() {
    let passwd = "root:x:0:0:The Boss:/root:/bin/bash\n_apt:secret:42:65534::/nonexistent:/bin/false\n\
                  ann:x:1000:1000:Ann,,,:/home/ann:/bin/zsh\nnobody:x:65534:65534:nobody:/x:/bin/false\n";
    let (users, shadow) = users(passwd);
    assert_eq!(
        users,
        "root:x:0:0::/root:/bin/bash\n_apt:x:42:65534::/nonexistent:/bin/false\n\
         nobody:x:65534:65534::/x:/bin/false\n"
    );
    assert_eq!(shadow.lines().count(), 3);
    assert!(shadow.lines().all(|line| line.contains(":*:")));
    let (groups, gshadow) = groups("root:x:0:\nsudo:x:27:ann,bob\nann:x:1000:\n");
    assert_eq!(
        (groups.as_str(), gshadow.as_str()),
        ("root:x:0:\nsudo:x:27:\n", "root:*::\nsudo:*::\n")
    );
}

#[test]
fn nothing_that_holds_a_secret_is_copied() {
    let all: Vec<PathBuf> = copied().collect();
    for secret in
        ["/etc/apt/auth.conf", "/etc/apt/auth.conf.d/x", "/etc/shadow", "/etc/npmrc", "/root/x"]
    {
        assert!(!all.iter().any(|path| Path::new(secret).starts_with(path)), "{secret}");
    }
    assert!(all.iter().all(|path| path.starts_with("/etc") || path.starts_with("/var/lib")));
}

#[test]
fn version_changes_with_files_links_and_directories() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("a/b")).unwrap();
    fs::write(root.path().join("a/b/file"), "one").unwrap();
    let digest = || {
        let mut context = Context::new(&SHA256);
        identity::take(root.path(), 3, false, &mut context).unwrap();
        context.finish().as_ref().to_owned()
    };
    let mut seen = vec![digest()];
    assert_eq!(digest(), seen[0]);
    let mut changed = |what: &str| {
        let now = digest();
        assert!(!seen.contains(&now), "{what}");
        seen.push(now);
    };
    fs::write(root.path().join("a/b/file"), "longer").unwrap();
    changed("a file");
    symlink("file", root.path().join("a/b/link")).unwrap();
    changed("a new link");
    fs::create_dir(root.path().join("a/c")).unwrap();
    changed("a new directory");
    assert!(is_id(&id().unwrap()));
}
