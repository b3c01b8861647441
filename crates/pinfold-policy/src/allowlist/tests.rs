use std::path::Path;

use super::*;

fn read(text: &str) -> Result<Allowlist, FileError> {
    let home = HostPath::new("/home/p").unwrap();
    let file = SettingsFile { path: Path::new("mount-allowlist.toml"), bytes: text.as_bytes() };
    Allowlist::read(file, Some(&home))
}

const LIST: &str = r#"
non_admin_read_only = true
blocked_patterns = ["password"]
[[allowed_roots]]
path = "~/projects"
allow_read_write = true
description = "Development projects"
[[allowed_roots]]
path = "/srv/docs"
"#;

#[test]
fn the_format_is_pynchys() {
    let list = read(LIST).unwrap();
    assert!(list.non_admin_read_only);
    let roots: Vec<(String, bool)> =
        list.roots.iter().map(|root| (root.path.to_string(), root.allow_read_write)).collect();
    assert_eq!(roots, [("/home/p/projects".to_owned(), true), ("/srv/docs".to_owned(), false)]);
}

#[test]
fn names_of_credentials_are_blocked_whatever_the_file_says() {
    let list = read(LIST).unwrap();
    let blocks = |path: &str| list.blocks(&HostPath::new(path).unwrap()).map(str::to_owned);
    assert_eq!(blocks("/home/p/projects/a"), None);
    assert_eq!(blocks("/home/p/projects/my-passwords"), Some("password".to_owned()));
    assert_eq!(blocks("/home/p/.ssh"), Some(".ssh".to_owned()));
    assert_eq!(blocks("/srv/docs/.env.local"), Some(".env".to_owned()));
    assert_eq!(blocks("/srv/docs/a\nid_rsa"), Some("id_rsa".to_owned()));
}

#[test]
fn a_file_that_leaves_something_open_is_refused() {
    for missing in ["non_admin_read_only", "blocked_patterns", "path = \"/srv"] {
        let text: Vec<&str> = LIST.lines().filter(|line| !line.starts_with(missing)).collect();
        assert!(read(&text.join("\n")).is_err(), "{missing}");
    }
    for wrong in ["allowed_root = []", "non_admin_read_only = 1", "blocked_patterns = [\"\"]"] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    assert!(read(&LIST.replace("/srv/docs", "srv/docs")).is_err());
    assert!(read(&LIST.replace("/srv/docs", "/srv/../etc")).is_err());
}
