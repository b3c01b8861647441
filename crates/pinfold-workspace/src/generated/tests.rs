use std::os::unix::fs::symlink;
use std::time::SystemTime;

use pinfold_policy::authority::{Root, RootId, Subject};
use tempfile::TempDir;

use super::*;

fn inside(path: impl AsRef<Path>) -> InsidePath {
    InsidePath::new(path).unwrap()
}

fn grant(kind: RootKind, host: &Path, path: &str, access: Access) -> Grant {
    let root = Root {
        id: RootId::new(format!("test {path}")),
        kind,
        host: HostPath::new(host).unwrap(),
        inside: inside(path),
    };
    Grant::new(root, access, Origin::Flag { name: "--write" })
}

fn authority(grant: Grant) -> Authority {
    Authority::builder(Subject::Core).grant(grant).build(SystemTime::now()).unwrap()
}

fn file(path: &str, keep: bool) -> Entry {
    let place = Place::File { content: b"generated".to_vec(), mode: 0o600, keep };
    Entry { path: inside(path), place }
}

fn directory() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

fn paths(tree: &[Entry]) -> Vec<String> {
    tree.iter().map(|entry| entry.path.to_string()).collect()
}

const CONFIG_TOML: &str = "/home/agent/.codex/config.toml";

#[test]
fn a_file_in_a_persons_grant_is_put_over_it_from_a_private_place() {
    let (_dir, host) = directory();
    fs::write(host.join("config.toml"), "mine").unwrap();
    for access in [Access::FULL, Access::READ_ONLY] {
        let grant = grant(RootKind::Knowledge, &host, "/home/agent/.codex", access);
        let mut tree = vec![file("/home/agent/other", false), file(CONFIG_TOML, false)];
        let made = Generated::take_out(&mut tree, &authority(grant), None).unwrap();
        assert_eq!(paths(&tree), ["/home/agent/other", "/run/pinfold/generated/0"]);
        let stage = PathBuf::from("/run/pinfold/generated/0");
        assert_eq!(made.0, [Mask { host: host.join("config.toml"), stage, is_missing: false }]);
    }
}

#[test]
fn a_file_that_is_to_stay_as_it_is_stays_the_users() {
    let (_dir, host) = directory();
    let path = "/home/agent/.claude/.claude.json";
    let granted = authority(grant(RootKind::Knowledge, &host, "/home/agent/.claude", Access::FULL));
    let mut tree = vec![file(path, true)];
    let made = Generated::take_out(&mut tree, &granted, None).unwrap();
    assert!(made.0[0].is_missing, "it is not made in the user's directory");
    fs::write(host.join(".claude.json"), "mine").unwrap();
    let mut tree = vec![file(path, true)];
    assert_eq!(Generated::take_out(&mut tree, &granted, None).unwrap().0, []);
    assert_eq!(paths(&tree), Vec::<String>::new());
}

#[test]
fn pinfolds_own_state_of_an_agent_takes_files_as_they_are() {
    let (_dir, host) = directory();
    let grant = grant(RootKind::AgentState, &host, "/home/agent/.codex", Access::FULL);
    let mut tree = vec![file(CONFIG_TOML, true)];
    let made = Generated::take_out(&mut tree, &authority(grant), None).unwrap();
    assert_eq!((paths(&tree), made.0), (vec![CONFIG_TOML.to_owned()], Vec::new()));
}

#[test]
fn file_that_can_neither_lie_nor_be_mounted_there_is_refused_by_name() {
    let (_dir, host) = directory();
    fs::create_dir_all(host.join("directory/config.toml")).unwrap();
    fs::create_dir(host.join("real")).unwrap();
    symlink("real", host.join("link")).unwrap();
    let knowledge = |path: &str, access| {
        authority(grant(RootKind::Knowledge, &host.join(path), "/home/agent/.codex", access))
    };
    let refused = |authority: &Authority, path: &str, view: Option<&HostPath>| {
        let made = Generated::take_out(&mut vec![file(path, false)], authority, view);
        match made.unwrap_err() {
            GuardError::Refused(refusal) => {
                (refusal.to_string(), refusal.hint().unwrap().to_owned())
            }
            other => panic!("{other}"),
        }
    };
    let (what, hint) = refused(&knowledge("real", Access::READ_ONLY), CONFIG_TOML, None);
    assert!(what.contains(CONFIG_TOML) && what.contains("by --write"), "{what}");
    assert!(hint.contains("--state persistent"), "{hint}");
    let (what, _) = refused(&knowledge("directory", Access::FULL), CONFIG_TOML, None);
    assert!(what.contains("it is a directory"), "{what}");
    let below = "/home/agent/.codex/link/config.toml";
    let (what, _) = refused(&knowledge("", Access::FULL), below, None);
    assert!(what.contains("a link is on the way"), "{what}");
    // In a view a placeholder would be a change of the session's.
    let root = HostPath::new(host.join("real")).unwrap();
    refused(&knowledge("real", Access::FULL), CONFIG_TOML, Some(&root));
    let mut tree = vec![file(CONFIG_TOML, false)];
    let made = Generated::take_out(&mut tree, &knowledge("real", Access::FULL), None).unwrap();
    assert!(made.0[0].is_missing);
}

#[test]
fn settings_that_the_users_files_cannot_hold_go_to_other_git_configuration() {
    let (_dir, host) = directory();
    fs::create_dir_all(host.join(".config/git")).unwrap();
    let config = "/home/agent/.config/git/config";
    let ignore = "/home/agent/.config/git/ignore";
    let own = "/home/agent/.gitconfig";
    let stage = "/run/pinfold/generated/gitignore";
    let knowledge =
        |host: &Path, path: &str| authority(grant(RootKind::Knowledge, host, path, Access::FULL));
    let below = knowledge(&host.join(".config"), "/home/agent/.config");
    let made = |files: &[&str], authority: &Authority| {
        let mut tree: Vec<Entry> = files.iter().map(|path| file(path, *path != own)).collect();
        assert_eq!(Generated::take_out(&mut tree, authority, None).unwrap().0, []);
        let text = tree.iter().filter_map(|entry| match &entry.place {
            Place::File { content, .. } => Some(String::from_utf8_lossy(content).into_owned()),
            _ => None,
        });
        (paths(&tree), text.collect::<String>())
    };
    let (all, text) = made(&[config, ignore], &below);
    assert_eq!(all, [stage, own]);
    assert!(text.contains(stage) && text.matches("generated").count() == 3, "{text}");
    // What says more about the session comes last.
    let (all, text) = made(&[config, ignore, own], &below);
    assert_eq!(all, [own, stage]);
    assert!(text.find(stage) < text.rfind("generated"), "{text}");
    let whole = knowledge(&host, "/home/agent");
    assert_eq!(made(&[config, ignore, own], &whole).0, [stage, OF_THE_MACHINE]);
    // What the host has stays in force, also where it names other patterns.
    fs::write(host.join(".config/git/config"), "[core]\nexcludesFile = ~/x\n").unwrap();
    assert_eq!(made(&[config, ignore], &below).0, Vec::<String>::new());
    fs::write(host.join(".config/git/config"), "").unwrap();
    assert_eq!(made(&[config, ignore], &below).0, [stage, own]);
    fs::write(host.join(".config/git/ignore"), "mine").unwrap();
    assert_eq!(made(&[config, ignore], &below).0, Vec::<String>::new());
}

#[test]
fn grants_above_or_in_what_sessions_have_of_their_own_are_refused() {
    let host = Path::new("/srv");
    for path in
        ["/", "/run", "/run/pinfold", "/run/pinfold/x", "/proc", "/proc/1", "/dev", "/home", "/var"]
    {
        let granted = authority(grant(RootKind::Knowledge, host, path, Access::READ_ONLY));
        assert!(refuse(&granted).is_err(), "{path}");
    }
    for path in
        ["/run/user/1000", "/dev/kvm", "/home/agent", "/home/agentx", "/home/other", "/etc", "/tmp"]
    {
        let granted = authority(grant(RootKind::Knowledge, host, path, Access::READ_ONLY));
        refuse(&granted).unwrap();
    }
}
