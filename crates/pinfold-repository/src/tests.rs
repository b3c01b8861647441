use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pinfold_host::directories::Places;

use super::*;

/// Which files the hash covers since commands name them.
mod named;

struct World {
    directory: tempfile::TempDir,
}

impl World {
    fn new(settings: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let world = Self { directory };
        world.write("sandbox.json", settings);
        world
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("repo")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn workspace(&self) -> Workspace {
        let root = pinfold_policy::path::HostPath::new(self.root()).unwrap();
        Workspace { cwd: root.clone(), root, git_outside: None, is_scratch: false }
    }

    fn file(&self) -> RepositoryFile {
        Repository::read(&self.workspace(), None).unwrap().file.unwrap()
    }

    fn hash(&self) -> ContentHash {
        let base = self.file().base(&self.workspace(), &self.places()).unwrap();
        self.file().hash(&self.workspace(), base.as_ref()).unwrap()
    }

    fn runs(&self) -> Vec<PathBuf> {
        self.file().runs(&self.workspace()).unwrap()
    }

    fn places(&self) -> Places {
        let path = self.directory.path().to_owned();
        Places { config: path.clone(), state: path.clone(), cache: path.clone(), home: path }
    }
}

fn commands(commands: &[&str]) -> World {
    World::new(&serde_json::json!({ "resumeCommands": commands }).to_string())
}

#[test]
fn trust_lapses_with_every_byte_that_is_trusted() {
    let world = commands(&["sh scripts/setup.sh"]);
    world.write("scripts/setup.sh", "true");
    world.write("other.sh", "true");
    let store = TrustStore::new(&world.places());
    let trusted = || store.is_trusted(&world.workspace(), world.hash()).unwrap();
    assert!(!trusted());
    store.trust(&world.workspace(), &world.file().path, world.hash(), None).unwrap();
    assert!(trusted());
    world.write("other.sh", "changed");
    assert!(trusted(), "what no command names counts for nothing");
    world.write("scripts/setup.sh", "changed");
    assert!(!trusted());
    world.write("scripts/setup.sh", "true");
    assert!(trusted());
    world.write("sandbox.json", r#"{"resumeCommands": ["sh scripts/setup.sh "]}"#);
    assert!(!trusted());
}

#[test]
fn a_file_that_a_command_only_writes_is_not_in_the_hash() {
    let world = commands(&["./gen >out.sh 2>&1 | tee log.txt; tools/fetch"]);
    let before = world.hash();
    world.write("out.sh", "what a command writes");
    world.write("log.txt", "what a command writes");
    assert_eq!(world.hash(), before);
    world.write("tools/fetch", "text");
    assert_ne!(world.hash(), before);
}

#[test]
fn a_hash_is_the_same_wherever_the_file_lies_and_differs_by_format() {
    let one = World::new("{}");
    let other = World::new("{}");
    assert_eq!(one.hash(), other.hash());
    fs::rename(one.root().join("sandbox.json"), one.root().join("sandbox.toml")).unwrap();
    one.write("sandbox.toml", "");
    other.write("sandbox.json", "{ }");
    assert_ne!(one.hash(), other.hash());
    let text = one.hash().to_string();
    assert_eq!(text.parse(), Ok(one.hash()));
    assert_eq!(format!("sha256:{text}").parse(), Ok(one.hash()));
    for bad in ["", "ab", &"g".repeat(64)] {
        assert!(bad.parse::<ContentHash>().is_err(), "{bad}");
    }
}

#[test]
fn file_that_is_not_a_settings_file_is_refused_by_name() {
    let world = World::new("{}");
    let path = world.root().join("sandbox.json");
    fs::remove_file(&path).unwrap();
    let refused = |why: &str| {
        let error = Repository::read(&world.workspace(), None).unwrap_err().to_string();
        assert!(error.contains(&format!("sandbox.json: {why}")), "{error}");
        fs::remove_file(&path).unwrap();
    };
    let secret = world.directory.path().join("secret.json");
    fs::write(&secret, "{}").unwrap();
    for target in [secret.to_str().unwrap(), "../secret.json", "/proc/self/environ"] {
        symlink(target, &path).unwrap();
        refused("it is a link that is absolute or leads out");
    }
    symlink("gone.json", &path).unwrap();
    refused("No such file");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    refused("it is not a regular file");
    world.write("sandbox.json", &" ".repeat(2 << 20));
    refused("it is larger than");
    world.write("config/sandbox.json", "{}");
    symlink("config/sandbox.json", &path).unwrap();
    assert!(Repository::read(&world.workspace(), None).unwrap().file.is_some());
    let error = Repository::read(&world.workspace(), Some(Path::new("/no/such"))).unwrap_err();
    assert!(error.to_string().contains("/no/such"), "{error}");
}

#[test]
fn a_broken_record_is_no_trust_and_no_silence() {
    let world = World::new("{}");
    let store = TrustStore::new(&world.places());
    store.trust(&world.workspace(), &world.file().path, world.hash(), None).unwrap();
    let mut records = fs::read_dir(world.directory.path().join("trust")).unwrap();
    let record = records.find_map(|entry| {
        let path = entry.unwrap().path();
        path.extension().is_some_and(|extension| extension == "json").then_some(path)
    });
    fs::write(record.unwrap(), "{").unwrap();
    assert!(store.is_trusted(&world.workspace(), world.hash()).is_err());
    assert!(store.revoke(&world.workspace()).unwrap());
    assert!(!store.is_trusted(&world.workspace(), world.hash()).unwrap());
}

#[test]
fn a_base_of_the_repository_is_trusted_with_all_that_it_holds() {
    let on =
        |base: &str| World::new(&serde_json::json!({ "snapshot": { "base": base } }).to_string());
    let world = on("./system.tar");
    let mut seen = vec![world.hash()];
    let changed = |world: &World, seen: &mut Vec<ContentHash>, what: &str| {
        let hash = world.hash();
        assert!(!seen.contains(&hash), "{what}");
        assert_eq!(world.hash(), hash);
        seen.push(hash);
    };
    world.write("system.tar", "one");
    changed(&world, &mut seen, "a tarball that is there now");
    world.write("system.tar", "two");
    changed(&world, &mut seen, "its content");
    let elsewhere = world.directory.path().join("elsewhere.tar");
    fs::write(&elsewhere, "elsewhere").unwrap();
    fs::remove_file(world.root().join("system.tar")).unwrap();
    symlink(&elsewhere, world.root().join("system.tar")).unwrap();
    changed(&world, &mut seen, "where a link leads");

    let world = on("./system");
    let mut seen = vec![world.hash()];
    world.write("system/usr/bin/sh", "one");
    changed(&world, &mut seen, "a directory that is there now");
    world.write("system/usr/bin/sh", "two");
    changed(&world, &mut seen, "a file");
    let program = world.root().join("system/usr/bin/sh");
    let mut mode = fs::metadata(&program).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs::set_permissions(&program, mode).unwrap();
    changed(&world, &mut seen, "a mode");
    symlink("sh", world.root().join("system/usr/bin/link")).unwrap();
    changed(&world, &mut seen, "a link");
    fs::create_dir(world.root().join("system/empty")).unwrap();
    changed(&world, &mut seen, "a directory");
    let before = world.hash();
    fs::File::open(&program).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(world.hash(), before, "times are no content");

    for outside in ["../system.tar", "/usr", "debian"] {
        let world = on(outside);
        let before = world.hash();
        fs::write(world.directory.path().join("system.tar"), "x").unwrap();
        assert_eq!(world.hash(), before, "{outside} is not of the repository");
    }
}

#[test]
fn a_directory_that_has_settled_is_not_read_again() {
    let world = World::new(r#"{"snapshot": {"base": "./system"}}"#);
    world.write("system/usr/file", "one");
    let file = world.root().join("system/usr/file");
    // No event reports that a clock has gone on.
    let age = || fs::metadata(&file).unwrap().modified().unwrap().elapsed().unwrap();
    while age() < Duration::from_secs(4) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let hash = world.hash();
    let kept = || fs::read_dir(world.directory.path().join("bases/names")).unwrap();
    let known = kept().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&known).unwrap();
    // A digest that only who does not read it takes for true.
    let (name, _) = text.split_once('\n').unwrap();
    fs::write(&known, format!("{name}\nsha256:{}\n", "0".repeat(64))).unwrap();
    assert_ne!(world.hash(), hash, "the digest that was kept counts");
    world.write("system/usr/file", "two");
    assert_eq!(kept().count(), 1);
    assert_ne!(world.hash(), hash);
}

#[test]
fn a_provider_that_ralphs_file_chooses_is_trusted_with_it() {
    let world = World::new("{}");
    let plain = world.hash();
    world.write(".agent-loop/config.json", r#"{"pi": {"model": "m"}}"#);
    assert_eq!(world.hash(), plain, "it asks for nothing");
    world.write(".agent-loop/config.json", r#"{"pi": {"provider": "openai"}}"#);
    let with_ralph = world.hash();
    assert_ne!(with_ralph, plain);
    world.write(".agent-loop/config.json", r#"{"pi": {"provider": "openai"} }"#);
    assert_ne!(world.hash(), with_ralph, "every byte counts");
    fs::remove_file(world.root().join("sandbox.json")).unwrap();
    let alone = world.hash();
    assert!(![plain, with_ralph].contains(&alone));
    assert!(world.file().path.ends_with(".agent-loop/config.json"));
    fs::remove_file(world.root().join(".agent-loop/config.json")).unwrap();
    assert!(Repository::read(&world.workspace(), None).unwrap().file.is_none());
}

#[test]
fn lower_limits_need_no_new_trust_and_other_changes_do() {
    let trusted =
        r#"{ "resources": { "memory": "4G", "timeout": "9m" }, "resumeCommands": ["a"] }"#;
    let world = World::new(trusted);
    world.write("a.sh", "one");
    let store = TrustStore::new(&world.places());
    let limited = || world.file().limited(&world.workspace(), None).unwrap();
    let path = world.file().path;
    store.trust(&world.workspace(), &path, world.hash(), Some(limited())).unwrap();
    for (settings, expected) in [
        (r#"{ "resources": { "memory": "3G", "timeout": "9m" }, "resumeCommands": ["a"] }"#, true),
        (r#"{"resources":{"memory":"4G"},"resumeCommands":["a"]}"#, true),
        (r#"{ "resumeCommands": ["a"] }"#, true),
        (r#"{ "resources": { "memory": "5G", "timeout": "9m" }, "resumeCommands": ["a"] }"#, false),
        (r#"{ "resources": { "memory": "3G", "pids": 9 }, "resumeCommands": ["a"] }"#, false),
        (r#"{ "resources": { "memory": "3G" }, "resumeCommands": ["b"] }"#, false),
        (r#"{ "resources": { "memory": "3G" }, "resumeCommands": ["a", "b"] }"#, false),
        (
            r#"{ "resources": { "memory": "3G" }, "resumeCommands": ["a"], "env": { "A": "b" } }"#,
            false,
        ),
        (
            r#"{ "resources": { "memory": "3G" }, "resumeCommands": ["a"], "publish": ["1"] }"#,
            false,
        ),
    ] {
        world.write("sandbox.json", settings);
        let is = store.is_trusted_with_higher_limits(&world.workspace(), &limited()).unwrap();
        assert_eq!(is, expected, "{settings}");
        assert!(!store.is_trusted(&world.workspace(), world.hash()).unwrap(), "{settings}");
    }
}

#[test]
fn a_script_that_changes_is_not_trusted_with_lower_limits() {
    let settings = |memory: &str| {
        format!(r#"{{ "resources": {{ "memory": "{memory}" }}, "resumeCommands": ["sh run.sh"] }}"#)
    };
    let world = World::new(&settings("4G"));
    world.write("run.sh", "one");
    let store = TrustStore::new(&world.places());
    let limited = || world.file().limited(&world.workspace(), None).unwrap();
    let path = world.file().path;
    store.trust(&world.workspace(), &path, world.hash(), Some(limited())).unwrap();
    world.write("sandbox.json", &settings("3G"));
    let is = || store.is_trusted_with_higher_limits(&world.workspace(), &limited()).unwrap();
    assert!(is());
    world.write("run.sh", "two");
    assert!(!is());
}

#[test]
fn trust_of_two_at_once_is_kept_and_what_is_revoked_stays_so() {
    let world = World::new("{}");
    let store = TrustStore::new(&world.places());
    let (workspace, path) = (world.workspace(), world.file().path);
    let hash = |one: u8| ContentHash::from([one; 32]);
    for _ in 0..20 {
        std::thread::scope(|scope| {
            for one in 0..8 {
                let (store, workspace, path) = (&store, &workspace, &path);
                scope.spawn(move || store.trust(workspace, path, hash(one), None).unwrap());
            }
        });
        let is_lost = |one: &u8| !store.is_trusted(&workspace, hash(*one)).unwrap();
        assert_eq!((0..8).filter(is_lost).count(), 0);
        // Trust of another content does not bring back what is revoked.
        std::thread::scope(|scope| {
            scope.spawn(|| store.trust(&workspace, &path, hash(9), None).unwrap());
            scope.spawn(|| store.revoke(&workspace).unwrap());
        });
        assert!(!store.is_trusted(&workspace, hash(0)).unwrap());
        store.revoke(&workspace).unwrap();
    }
    let left = fs::read_dir(world.places().state.join("trust")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
}
