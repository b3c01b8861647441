use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use pinfold_policy::path::InsidePath;
use pinfold_runner::policy::Policy;
use serde_json::{Value, json};

use super::super::{Configuration, ConfigurationFile};
use super::{alias, entries, remember, variables_of};
use crate::plan::{Entry, Identity, Landlock, LaunchPlan, Place, ResourceLimits};

fn plan(files: &[(&str, &str)]) -> LaunchPlan {
    let path = |path: &str| InsidePath::new(path).unwrap();
    let entry = |(name, content): &(&str, &str)| {
        let content = content.as_bytes().to_vec();
        Entry { path: path(name), place: Place::File { content, mode: 0o600, keep: true } }
    };
    LaunchPlan {
        tree: files.iter().map(entry).collect(),
        identity: Identity { uid: 1000, gid: 1000, home: path("/home/agent") },
        hostname: "host".to_owned(),
        doors: Vec::new(),
        limits: ResourceLimits::default(),
        landlock: Landlock::BestEffort,
        nested: false,
        leaves_nothing: false,
    }
}

fn configuration(files: &[(&str, &str)]) -> Configuration {
    let file = |(name, content): &(&str, &str)| {
        let content = content.as_bytes().to_vec();
        (PathBuf::from(name), ConfigurationFile { content, is_executable: false })
    };
    Configuration { target: ".pi/agent".into(), files: files.iter().map(file).collect() }
}

fn written(
    plan: &mut LaunchPlan,
    configuration: Option<Configuration>,
    managed: Value,
) -> BTreeMap<String, String> {
    let Value::Object(managed) = managed else { panic!("no object") };
    let entries = entries(plan, configuration, managed).unwrap();
    let text = |entry: Entry| match entry.place {
        Place::File { content, .. } => {
            (entry.path.to_string(), String::from_utf8(content).unwrap())
        }
        other => panic!("{other:?}"),
    };
    entries.into_iter().map(text).collect()
}

const SETTINGS: &str = "/home/agent/.pi/agent/settings.json";

#[test]
fn managed_settings_count_before_the_users_own() {
    let users = r#"{"theme": "light", "models": {"a": 1, "b": 2}, "packages": ["x"]}"#;
    let managed = json!({"models": {"b": 3}, "packages": []});
    let all = written(&mut plan(&[]), Some(configuration(&[("settings.json", users)])), managed);
    let expected = json!({"theme": "light", "models": {"a": 1, "b": 3}, "packages": []});
    assert_eq!(serde_json::from_str::<Value>(&all[SETTINGS]).unwrap(), expected);
    // Without settings of the user's, and with invalid ones.
    for users in [None, Some(configuration(&[("settings.json", "[] no JSON")]))] {
        let all = written(&mut plan(&[]), users, json!({"a": {"b": 1}}));
        assert_eq!(serde_json::from_str::<Value>(&all[SETTINGS]).unwrap(), json!({"a": {"b": 1}}));
    }
    // Nothing is managed: the user's own are not even parsed.
    let users = configuration(&[("settings.json", "// as it is"), ("a/b.md", "text")]);
    let all = written(&mut plan(&[]), Some(users), json!({}));
    assert_eq!(all[SETTINGS], "// as it is");
    assert_eq!(all["/home/agent/.pi/agent/a/b.md"], "text");
    assert_eq!(written(&mut plan(&[]), None, json!({})), BTreeMap::new());
}

#[test]
fn pinfolds_own_files_stay_and_its_settings_are_merged() {
    let models = "/home/agent/.pi/agent/models.json";
    let mut plan = plan(&[(SETTINGS, r#"{"theme": "own", "a": 1}"#), (models, "gateway")]);
    plan.tree.push(Entry {
        path: InsidePath::new("/home/agent/.pi/agent/skills").unwrap(),
        place: Place::ReadOnly(pinfold_policy::path::HostPath::new("/x").unwrap()),
    });
    let users = configuration(&[
        ("settings.json", r#"{"theme": "light", "b": 2}"#),
        ("models.json", "the user's"),
        ("skills/a.md", "in a mount"),
    ]);
    let all = written(&mut plan, Some(users), json!({"a": 3}));
    assert_eq!(all.keys().collect::<Vec<_>>(), [SETTINGS]);
    let expected = json!({"theme": "own", "a": 3, "b": 2});
    assert_eq!(serde_json::from_str::<Value>(&all[SETTINGS]).unwrap(), expected);
    assert!(!plan.tree.iter().any(|entry| entry.path.as_path() == Path::new(SETTINGS)));
}

#[test]
fn what_cannot_be_read_leaves_the_configuration_of_an_earlier_session() {
    let directory = tempfile::tempdir().unwrap();
    let opened: OwnedFd = fs::File::open(directory.path()).unwrap().into();
    assert_eq!(remember(&opened, None).unwrap(), None);
    let first = configuration(&[("settings.json", "{}")]);
    // What a session left that was killed while it wrote.
    fs::write(directory.path().join("configuration.next"), "torn").unwrap();
    assert_eq!(remember(&opened, Some(first.clone())).unwrap(), Some(first.clone()));
    assert_eq!(remember(&opened, None).unwrap(), Some(first));
    let second = configuration(&[]);
    assert_eq!(remember(&opened, Some(second.clone())).unwrap(), Some(second.clone()));
    assert_eq!(remember(&opened, None).unwrap(), Some(second));
    fs::write(directory.path().join("configuration"), "torn").unwrap();
    assert_eq!(remember(&opened, None).unwrap(), None);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn link_of_a_project_is_the_same_for_the_same_path_alone() {
    assert_eq!(alias(Path::new("/home/alice/work/proj")), "proj-79531324");
    assert_ne!(alias(Path::new("/srv/proj")), alias(Path::new("/srv/x/proj")));
}

#[test]
fn settings_that_change_their_kind_are_replaced() {
    let mut below = json!({"a": {}, "b": 1, "c": {"d": 1}});
    super::merge(&mut below, json!({"a": 5, "b": {"x": 1}, "c": {"e": null}}));
    assert_eq!(below, json!({"a": 5, "b": {"x": 1}, "c": {"d": 1, "e": null}}));
}

#[test]
fn variables_are_all_there_or_the_session_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.env");
    let policy = |more: &str| {
        let text = format!(
            r#"{{"user": "agent", "stateDir": "/var/lib/x", "hostUsers": {{}}, "environment": {{"A": "1", "B": "2"}} {more}}}"#
        );
        Policy::parse(text.as_bytes()).unwrap()
    };
    let with = policy(&format!(r#", "environmentFiles": ["{}"]"#, path.display()));
    let read = |policy: &Policy, content: &str| {
        fs::write(&path, content).unwrap();
        let file = OwnedFd::from(fs::File::open(&path).unwrap());
        let all = variables_of(policy, vec![file], "/home/agent").ok()?;
        Some(all.into_iter().map(|it| String::from_utf8(it).unwrap()).collect::<Vec<_>>())
    };
    let expected = ["A=1", "B=3", "GOMODCACHE=/home/agent/.cache/go-mod"];
    assert_eq!(read(&with, "B=3\n").unwrap()[..3], expected);
    // What the runner opened belongs to another policy by now.
    assert_eq!(read(&policy(""), "B=3\n"), None);
    assert!(variables_of(&with, Vec::new(), "/home/agent").is_err());
    assert_eq!(read(&with, &format!("B=3\n#{}\n", "x".repeat(1 << 20))), None);
    assert_eq!(read(&with, "B=3\nwrong\n"), None);
}
