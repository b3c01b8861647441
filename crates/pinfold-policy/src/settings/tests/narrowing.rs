use std::path::Path;

use crate::document::{Key, SettingsFile, Shape};
use crate::network::NetworkRule;
use crate::settings::keys::{CEILING, NARROWING, PROJECT, USER, sub_keys};
use crate::settings::{FlagLimits, Flags, Layers, Narrowing, Settings};

fn resolved(user: &str, policy: &str) -> Settings {
    let narrowing = Narrowing::from_json(policy).unwrap();
    let again = Narrowing::from_json(&narrowing.to_json().to_string()).unwrap();
    assert_eq!(narrowing, again, "{policy}");
    let file = SettingsFile { path: Path::new("config.toml"), bytes: user.as_bytes() };
    let flags = Flags { narrowing: Some(narrowing), ..Flags::default() };
    Settings::resolve(Layers { user: Some(file), flags, ..Layers::default() }).unwrap()
}

fn hosts(settings: &Settings) -> Vec<String> {
    settings.network.allow.iter().map(|rule| rule.value.to_string()).collect()
}

#[test]
fn policy_of_a_task_lowers_limits_and_raises_none() {
    let user = "[resources]\nmemory = \"4G\"\npids = 100\n";
    let policy = r#"{"resources": {"memory": "1G", "pids": 5000, "timeout": "10m", "cpus": 0.5}}"#;
    let limits = resolved(user, policy).limits;
    assert_eq!(limits.memory.unwrap().value.to_string(), "1G");
    assert_eq!(limits.pids.unwrap().value, 100);
    assert_eq!(limits.timeout.unwrap().value.to_string(), "10m");
    assert_eq!(limits.cpus.unwrap().value.to_string(), "0.5");
}

#[test]
fn policy_of_a_task_keeps_hosts_that_both_name() {
    let user = "[network]\nallow = [\"*.example.com\", \"one.test\", \"two.test:8080\"]\n\
                requests = [{ host = \"three.test\", methods = [\"GET\"] }]\n";
    let all = r#"["api.example.com", "one.test", "two.test", "three.test", "evil.test", "*"]"#;
    let kept =
        |list: &str| hosts(&resolved(user, &format!(r#"{{"network": {{"hosts": {list}}}}}"#)));
    assert_eq!(kept("[]"), Vec::<String>::new());
    assert_eq!(kept(r#"["evil.test"]"#), Vec::<String>::new());
    assert_eq!(kept(r#"["api.example.com"]"#), ["api.example.com"]);
    assert_eq!(kept(r#"["two.test"]"#), Vec::<String>::new(), "another port");
    assert_eq!(kept(r#"["three.test"]"#), ["three.test GET"], "the rule stays as it is");
    assert!(kept(all).iter().all(|rule| !rule.contains("evil") && rule != "*"), "{:?}", kept(all));
}

#[test]
fn host_that_a_task_left_out_does_not_come_back() {
    let settings = resolved("", r#"{"network": {"hosts": ["one.test"]}}"#);
    let rule: NetworkRule = "two.test".parse().unwrap();
    let origin = crate::origin::Origin::Flag { name: "--allow-host" };
    assert!(settings.ceiling.check_host(&crate::origin::Valued::new(rule, origin)).is_err());
}

#[test]
fn policy_of_a_task_makes_modes_stricter() {
    let user = "landlock = \"best-effort\"\n[hostExec]\nenabled = true\n[files]\ndeny = [\"a\"]\n";
    let policy = r#"{"landlock": "required", "hostExec": {"allowed": false}, "files": {"deny": ["*.pem", "/b"]}}"#;
    let settings = resolved(user, policy);
    assert_eq!(settings.scalars.landlock.value.to_string(), "required");
    assert!(!settings.host_exec.enabled.value);
    let denied: Vec<String> =
        settings.files.deny.iter().map(|glob| glob.value.to_string()).collect();
    assert_eq!(denied, ["a", "*.pem", "/b"]);
    let weaker = resolved(
        "landlock = \"required\"\n",
        r#"{"landlock": "best-effort", "hostExec": {"allowed": true}}"#,
    );
    assert_eq!(weaker.scalars.landlock.value.to_string(), "required");
    assert!(!weaker.host_exec.enabled.value);
}

#[test]
fn policy_of_a_task_takes_the_diary_away_and_never_gives_it() {
    for (user, policy, left) in [
        ("write", "read", "read"),
        ("write", "none", "none"),
        ("read", "write", "read"),
        ("none", "write", "none"),
        ("write", "write", "write"),
    ] {
        let settings =
            resolved(&format!("memory = \"{user}\"\n"), &format!(r#"{{"memory": "{policy}"}}"#));
        assert_eq!(settings.scalars.memory.value.word(), left, "{user} {policy}");
    }
    assert_eq!(resolved("", "{}").scalars.memory.value.word(), "none");
}

#[test]
fn what_would_widen_is_refused_with_a_hint() {
    for policy in [
        r#"{"env": {"A": "b"}}"#,
        r#"{"secrets": []}"#,
        r#"{"publish": ["8080"]}"#,
        r#"{"snapshot": {"base": "alpine"}}"#,
        r#"{"network": {"allow": ["evil.test"]}}"#,
        r#"{"network": {"allowedInternalHosts": ["localhost:22"]}}"#,
        r#"{"files": {"read": ["/etc"]}}"#,
        r#"{"files": {"opt_in": ["x"]}}"#,
        r#"{"hostExec": {"autoApprove": true}}"#,
        r#"{"boundaries": ["namespace"], "wrappers": []}"#,
    ] {
        let error = Narrowing::from_json(policy).unwrap_err().to_string();
        assert!(
            error.contains("only narrows") && error.contains("pinfold trust"),
            "{policy}: {error}"
        );
    }
    let unknown = Narrowing::from_json(r#"{"resorces": {}}"#).unwrap_err().to_string();
    assert!(unknown.contains("resources"), "{unknown}");
}

/// Of every setting there is, somebody has decided whether a task may have it. A new one is refused until then.
#[test]
fn only_settings_that_were_decided_on_narrow() {
    const DECIDED: [&str; 13] = [
        "resources.cpus",
        "resources.memory",
        "resources.pids",
        "resources.disk",
        "resources.files",
        "resources.timeout",
        "resources.build",
        "network.hosts",
        "files.deny",
        "boundary",
        "landlock",
        "hostExec.allowed",
        "memory",
    ];
    let names = |keys: &'static [Key]| -> Vec<String> {
        let below = |key: &Key| match key.shape {
            Shape::Table(keys) => {
                keys.iter().map(|it| format!("{}.{}", key.name, it.name)).collect()
            }
            _ => vec![key.name.to_owned()],
        };
        keys.iter().flat_map(below).collect()
    };
    assert_eq!(names(NARROWING), DECIDED);
    for file in [USER, PROJECT, CEILING] {
        for key in file {
            let given = NARROWING.iter().any(|it| it.name == key.name);
            let below: Vec<&Key> = sub_keys(file, key.name).iter().collect();
            let policies: Vec<String> = match (given, below.as_slice()) {
                (false, _) => vec![format!(r#"{{"{}": {{}}}}"#, key.name)],
                (true, below) => below
                    .iter()
                    .filter(|it| !DECIDED.contains(&format!("{}.{}", key.name, it.name).as_str()))
                    .map(|it| format!(r#"{{"{}": {{"{}": []}}}}"#, key.name, it.name))
                    .collect(),
            };
            for policy in policies {
                assert!(Narrowing::from_json(&policy).is_err(), "{policy}");
            }
        }
    }
}

#[test]
fn cap_lowers_what_a_policy_says_and_raises_nothing() {
    let mut narrowing =
        Narrowing::from_json(r#"{"resources": {"pids": 7, "memory": "2G"}}"#).unwrap();
    let memory = Some("1G".parse().unwrap());
    narrowing.cap(FlagLimits { pids: Some(9), memory, files: Some(3), ..FlagLimits::default() });
    let expected = r#"{"files":3,"memory":"1G","pids":7}"#;
    assert_eq!(narrowing.to_json()["resources"].to_string(), expected);
}
