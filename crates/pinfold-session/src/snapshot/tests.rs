use super::*;

use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_host::wrappers::Wrappers;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::settings::{Layers, Project, SettingsError, Trust};

fn snapshot(text: &str) -> Snapshot {
    settings(text, b"").unwrap().snapshot
}

/// Returns what a trusted file and an administrator's policy come to.
fn settings(text: &str, policy: &[u8]) -> Result<Settings, SettingsError> {
    let file = SettingsFile { path: Path::new("sandbox.json"), bytes: text.as_bytes() };
    let project = Project::read(&[file]).unwrap();
    let ceiling = Some(SettingsFile { path: Path::new("policy.toml"), bytes: policy });
    Settings::resolve(Layers { project, ceiling, trust: Trust::Trusted, ..Layers::default() })
}

#[test]
fn the_hash_is_of_base_commands_and_hosts_alone() {
    let of = |text: &str| hash("sha256:00", &snapshot(text));
    let base = of(r#"{"snapshot": {"setupCommands": ["a", "b"], "allowedHosts": ["x.example"]}}"#);
    for same in [
        r#"{"snapshot": {"allowedHosts": ["x.example"], "setupCommands": ["a", "b"]}}"#,
        r#"{"snapshot": {"setupCommands": ["a", "b"], "allowedHosts": ["x.example"],
            "overlaySize": "1G"}, "resumeCommands": ["make"], "env": {"A": "1"}}"#,
    ] {
        assert_eq!(of(same), base, "{same}");
    }
    for other in [
        r#"{"snapshot": {"setupCommands": ["b", "a"], "allowedHosts": ["x.example"]}}"#,
        r#"{"snapshot": {"setupCommands": ["a b"], "allowedHosts": ["x.example"]}}"#,
        r#"{"snapshot": {"setupCommands": ["a"], "allowedHosts": ["b", "x.example"]}}"#,
        r#"{"snapshot": {"setupCommands": ["a", "b"]}}"#,
    ] {
        assert_ne!(of(other), base, "{other}");
    }
    let text = r#"{"snapshot": {"setupCommands": ["a", "b"], "allowedHosts": ["x.example"]}}"#;
    assert_ne!(hash("sha256:01", &snapshot(text)), base);
}

#[test]
fn commands_for_apk_select_alpine() {
    let base = |text: &str| base_of(&snapshot(text)).to_string();
    for (commands, expected) in [
        (r#"["apk add --no-cache go"]"#, "alpine"),
        (r#"["true", "(apk update)"]"#, "alpine"),
        (r#"["apt-get install apktool"]"#, "host"),
    ] {
        assert_eq!(base(&format!(r#"{{"snapshot": {{"setupCommands": {commands}}}}}"#)), expected);
    }
    let named = r#"{"snapshot": {"base": "debian", "setupCommands": ["apk add x"]}}"#;
    assert_eq!(base(named), "debian");
}

#[test]
fn the_list_of_build_hosts_is_sound() {
    assert!(build_hosts().unwrap().len() > 20);
}

#[test]
fn builds_reach_nothing_that_the_administrator_does_not_allow() {
    let policy = b"[network]\nhosts = [\"registry.npmjs.org\", \"*.example\"]\n";
    let text = r#"{"snapshot": {"setupCommands": ["a"], "allowedHosts": ["x.example"]}}"#;
    let within = settings(text, policy).unwrap();
    let hosts: Vec<String> =
        build::reachable(&within).unwrap().iter().map(|rule| rule.value.to_string()).collect();
    assert_eq!(hosts, ["registry.npmjs.org", "x.example"]);
    let beyond = settings(&text.replace("x.example", "x.test"), policy).unwrap_err().to_string();
    assert!(beyond.contains("x.test") && beyond.contains("policy.toml"), "{beyond}");
    let free = settings(text, b"").unwrap();
    assert_eq!(build::reachable(&free).unwrap().len(), build_hosts().unwrap().len() + 1);
}

#[test]
fn builds_have_the_administrators_limits_and_an_hour_at_most() {
    let bound =
        crate::supervise::disk_watch::Bound { dir: PathBuf::new(), most: Limits::DEFAULT_BUILD };
    let limits = |text: &str, policy: &[u8]| {
        let settings = settings(text, policy).unwrap();
        let asked = settings.limits.build.as_ref().unwrap().value;
        (asked, step::StepLimits::of(&settings, &bound).limits())
    };
    let policy = b"[resources]\nmemory = \"1G\"\nfiles = 99\nbuild = \"2G\"\ntimeout = \"10m\"\n";
    let (build, within) = limits(r#"{"resources": {"cpus": 2, "pids": 7}}"#, policy);
    assert_eq!(build.to_string(), "2G");
    assert_eq!(within.memory.unwrap().value.to_string(), "1G");
    assert_eq!((within.files.unwrap().value, within.pids.unwrap().value), (99, 7));
    assert_eq!(within.timeout.unwrap().value.to_string(), "10m");
    assert!(matches!(within.cpus.unwrap().origin, Origin::Project(_)), "it is not needed");
    let (build, free) = limits(r#"{"resources": {"timeout": "1s"}}"#, b"");
    assert_eq!(build, Limits::DEFAULT_BUILD);
    assert_eq!(free.timeout.unwrap().value.to_string(), "1h");
    let beyond = settings(r#"{"resources": {"build": "3G"}}"#, policy).unwrap_err().to_string();
    assert!(beyond.contains("resources.build") && beyond.contains("policy.toml"), "{beyond}");
}

#[test]
fn a_command_that_fails_is_explained_by_what_it_said_and_where_it_ran() {
    let hint = |tail: &str, over_host| {
        let failed = SnapshotError::Command {
            index: 1,
            command: "a command".to_owned(),
            status: 3,
            tail: format!("before\n{tail}\n"),
            over_host,
            limit: None,
        };
        let said = failed.to_string();
        let step = "setup step \"snapshot.setupCommands[1]\" failed (exit 3): a command\nbefore\n";
        assert!(said.starts_with(step) && said.ends_with(&format!("{tail}\n")), "{said}");
        failed.hint().unwrap()
    };
    // As the programs of Debian say it, in the order of the kernel's errors.
    let own = "put a copy in place first (cp -p F F.own && mv F.own F)";
    for refused in [
        "sh: 1: cannot create /usr/bin/env: Permission denied",
        "chmod: changing permissions of '/usr/bin/env': Operation not permitted",
        "mv: cannot move '/usr/bin/env' to '/usr/bin/moved': Value too large for defined data type",
    ] {
        let said = hint(refused, true);
        assert!(said.contains(own) && said.contains("can be replaced, not changed"), "{refused}");
        // The files of another system are the build's own.
        assert!(!hint(refused, false).contains(own), "{refused}");
    }
    let outside_system = "directories can be made below those of the system (/opt, /srv, /var)";
    for outside in [
        "mkdir: cannot create directory '/data': Read-only file system",
        "useradd: cannot create directory /home/bob",
    ] {
        assert!(hint(outside, true).contains(outside_system), "{outside}");
    }
    let full = "cp: error writing '/opt/x': No space left on device";
    assert!(hint(full, true).contains("free some space"));
    assert!(hint("cat: /etc/no-such-file: No such file", true).contains("only package registries"));
}

#[test]
fn an_administrators_roots_and_disk_bind_a_system_of_files() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let allowed = |text: &str, policy: &str, tree: &str| {
        std::fs::create_dir_all(root.join(tree)).unwrap();
        std::fs::write(root.join("base.tar"), "").unwrap();
        let settings = settings(text, policy.as_bytes()).unwrap();
        let system =
            System { id: String::new(), tree: root.join(tree), over_host: false, held: None };
        let base = base_of(&settings.snapshot);
        placed(&settings, &base, &root)
            .and_then(|_| check_directory(&settings, &base, &system))
            .map_err(|error| error.to_string())
    };
    let within = format!("[files]\nroots = [\"{}/in\"]\n", root.display());
    let of = |base: &str| format!(r#"{{"snapshot": {{"base": "{base}"}}}}"#);
    assert_eq!(allowed(&of("./in/system"), &within, "in/system"), Ok(()));
    assert_eq!(allowed(&of("./out"), "", "out"), Ok(()));
    for (base, tree) in [("./out", "out"), ("./in/link", "out"), ("./base.tar", "in/cache")] {
        let error = allowed(&of(base), &within, tree).unwrap_err();
        assert!(error.contains("snapshot.base") && error.contains("paths under"), "{error}");
    }
    assert_eq!(allowed(&of("debian"), &within, "out"), Ok(()));
    let bytes = |text: &str, policy: &str| {
        let settings = settings(text, policy.as_bytes()).unwrap();
        let tree = root.join("out");
        let system = System { id: String::new(), tree, over_host: false, held: None };
        stack(&settings, system, None).bytes().unwrap()
    };
    let large = r#"{"snapshot": {"base": "debian", "overlaySize": "8G"}}"#;
    assert_eq!(bytes(large, ""), 8 << 30);
    assert_eq!(bytes(large, "[resources]\ndisk = \"20M\"\n"), 20 << 20);
}

#[test]
fn tarball_outside_the_administrators_roots_is_refused_before_it_is_in_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let at = |name: &str| root.join(name);
    let places =
        Places { home: at("home"), config: at("config"), state: at("state"), cache: at("cache") };
    let launcher = Launcher::new(Wrappers::none());
    let host = Host { places: &places, launcher: &launcher };
    for name in ["in", "cache", "out"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    std::fs::write(at("out/base.tar"), "").unwrap();
    std::os::unix::fs::symlink(at("out/base.tar"), at("in/link.tar")).unwrap();
    let policy = format!("[files]\nroots = [\"{}\"]\n", at("in").display());
    for base in ["./out/base.tar", "./in/link.tar"] {
        let text = format!(r#"{{"snapshot": {{"base": "{base}"}}}}"#);
        let settings = settings(&text, policy.as_bytes()).unwrap();
        let snapshots = Snapshots::new(host, &|_| {});
        for refused in [snapshots.ensure(&settings, &root), snapshots.find(&settings, &root)] {
            let said = refused.unwrap_err().to_string();
            assert!(said.contains("snapshot.base") && said.contains("paths under"), "{said}");
        }
        assert_eq!(std::fs::read_dir(at("cache")).unwrap().count(), 0, "{base}");
    }
}

#[test]
fn size_above_the_administrators_limit_of_the_disk_is_reported_with_both_places() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("system/usr")).unwrap();
    let at = |name: &str| root.join("own").join(name);
    let places =
        Places { home: at("home"), config: at("config"), state: at("state"), cache: at("cache") };
    let launcher = Launcher::new(Wrappers::none());
    let host = Host { places: &places, launcher: &launcher };
    let reported = |size: &str, policy: &str| {
        let text = format!(r#"{{"snapshot": {{"base": "./system"{size}}}}}"#);
        let settings = settings(&text, policy.as_bytes()).unwrap();
        let said = std::cell::RefCell::new(Vec::new());
        let report = |event: Event<'_>| {
            if let Event::Smaller { asked, limit } = event {
                let line = |it: &Valued<ByteSize>| format!("{} {}", it.value, it.origin);
                said.borrow_mut().push(format!("{} < {}", line(limit), line(asked)));
            }
        };
        Snapshots::new(host, &report).ensure(&settings, &root).unwrap();
        said.into_inner()
    };
    let (large, limit) = (r#", "overlaySize": "8G""#, "[resources]\ndisk = \"20M\"\n");
    assert_eq!(reported(large, limit), ["20M policy.toml:2 < 8G sandbox.json:1"]);
    for (size, policy) in [(large, ""), ("", limit), (r#", "overlaySize": "1M""#, limit)] {
        assert!(reported(size, policy).is_empty(), "{size} {policy}");
    }
}
