use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::*;

/// Programs that keep accounts and units in files below `$ROOT`.
const PROGRAMS: [(&str, &str); 7] = [
    ("getent", r#"[ "$1" = -- ] && shift; grep "^$2:" "$ROOT/etc/$1" || exit 2"#),
    ("groupadd", r#"echo "$2:x:500:" >>"$ROOT/etc/group""#),
    (
        "useradd",
        r#"for name; do :; done; echo "$name:x:$(id -u):$(id -g)::/x:/x" >>"$ROOT/etc/passwd""#,
    ),
    (
        "gpasswd",
        r#"case $1 in --add) sed -i "s/^$3:.*/&,$2/" "$ROOT/etc/group" ;; *) sed -i "s/,$2\b//" "$ROOT/etc/group" ;; esac"#,
    ),
    ("userdel", r#"sed -i "/^$1:/d" "$ROOT/etc/passwd""#),
    ("groupdel", r#"sed -i "/^$1:/d" "$ROOT/etc/group""#),
    (
        "systemctl",
        r#"echo "$*" >>"$ROOT/called"
case $1 in
is-*) [ -e "$ROOT/started" ] ;;
enable) touch "$ROOT/started" ;;
disable) rm "$ROOT/started" ;;
list-units) [ ! -e "$ROOT/live" ] || cat "$ROOT/live" ;;
esac"#,
    ),
];

/// A directory that is laid out as a machine, with the users alice and bob.
struct Site {
    directory: tempfile::TempDir,
    machine: Machine,
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in [
            "usr/bin",
            "usr/local/bin",
            "usr/libexec",
            "etc/sudoers.d",
            "var/lib",
            "run/systemd/system",
        ] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::create_dir_all(root.join("etc/systemd/system")).unwrap();
        for (name, script) in PROGRAMS {
            let path = root.join("usr/bin").join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(
            root.join("etc/passwd"),
            "root:x:0:0::/root:/x\nalice:x:1000:1000::/home/alice:/x\nbob:x:1001:1001::/home/bob:/x\n",
        )
        .unwrap();
        fs::write(root.join("etc/group"), "users:x:100:\n").unwrap();
        for name in ["pinfold", "pinfold-runner"] {
            fs::write(root.join(name), name).unwrap();
        }
        let machine = Machine::at(root);
        Self { directory, machine }
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }

    fn wanted(&self, users: &[(&str, &str)]) -> Wanted {
        let host_users =
            users.iter().map(|(user, root)| ((*user).to_owned(), vec![(*root).to_owned()]));
        Wanted {
            host_users: host_users.collect::<BTreeMap<_, _>>(),
            program: self.root().join("pinfold"),
            runner: self.root().join("pinfold-runner"),
            ..Wanted::default()
        }
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    /// Returns every path with the content of files, apart from what systemctl was called with.
    fn content(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        let mut left = vec![self.root().to_owned()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let kind = fs::symlink_metadata(&path).unwrap().file_type();
                let content = if kind.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                if kind.is_dir() {
                    left.push(path.clone());
                }
                if !path.ends_with("called") {
                    all.insert(path, content);
                }
            }
        }
        all
    }
}

#[test]
fn second_set_up_has_nothing_to_do_and_removal_leaves_what_was_there() {
    let site = Site::new();
    let before = site.content();
    let wanted = site.wanted(&[("alice", "~/work")]);
    let plan = install(&wanted, &site.machine).unwrap();
    assert_eq!(site.content(), before, "a plan changes nothing");
    plan.apply(&site.machine).unwrap();
    assert!(site.read("etc/passwd").contains("\npinfold-agent:"));
    assert!(site.read("etc/group").contains("pinfold:x:500:,alice"));
    assert_eq!(site.read("usr/libexec/pinfold/pinfold-runner"), "pinfold-runner");
    let policy =
        pinfold_runner::policy::Policy::parse(site.read("etc/pinfold/runner.json").as_bytes())
            .unwrap();
    assert_eq!(
        (policy.service("alice"), policy.program.as_path()),
        ("pinfold-agent", Path::new(install::PROGRAM))
    );
    let mode =
        |path: &str| fs::metadata(site.root().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("var/lib/pinfold-agent"), mode("etc/pinfold/runner.json")), (0o700, 0o644));
    let again = install(&wanted, &site.machine).unwrap();
    assert!(again.is_empty(), "{again}");
    remove(&site.machine).unwrap().apply(&site.machine).unwrap();
    assert_eq!(site.content(), before);
    assert!(remove(&site.machine).is_err());
}

#[test]
fn users_are_added_and_what_else_the_policy_says_stays() {
    let site = Site::new();
    install(&site.wanted(&[("alice", "~/work")]), &site.machine)
        .unwrap()
        .apply(&site.machine)
        .unwrap();
    let policy = site.root().join("etc/pinfold/runner.json");
    let text = site.read("etc/pinfold/runner.json").replacen('{', "{\"runtimeMaxSec\": 60,", 1);
    fs::write(&policy, text).unwrap();
    let plan = install(&site.wanted(&[("bob", "/srv/b")]), &site.machine).unwrap();
    let shown = plan.to_string();
    assert!(
        shown.contains("alice may use ~/work; bob may use /srv/b")
            && !shown.contains("add user pinfold-agent,"),
        "{shown}"
    );
    plan.apply(&site.machine).unwrap();
    let text = site.read("etc/pinfold/runner.json");
    assert!(
        ["60", "alice", "~/work", "bob", "/srv/b"].iter().all(|word| text.contains(word)),
        "{text}"
    );
    // Another build of the program.
    fs::write(site.root().join("pinfold-runner"), "newer").unwrap();
    let plan = install(&site.wanted(&[]), &site.machine).unwrap().to_string();
    let is_started_again = plan.contains("restart pinfold-runner.socket");
    assert!(is_started_again && plan.lines().count() == 2, "{plan}");
}

/// A host user can have its service user run any program.
#[test]
fn each_host_user_gets_a_service_user_of_its_own() {
    let site = Site::new();
    let apply = |users: &[(&str, &str)]| {
        install(&site.wanted(users), &site.machine).unwrap().apply(&site.machine).unwrap();
        let text = site.read("etc/pinfold/runner.json");
        let policy = pinfold_runner::policy::Policy::parse(text.as_bytes()).unwrap();
        ["alice", "bob"].map(|user| policy.service(user).to_owned())
    };
    assert_eq!(apply(&[("bob", "~/b")])[1], "pinfold-agent");
    let expected = ["pinfold-agent-alice", "pinfold-agent"];
    assert_eq!(apply(&[("alice", "~/work"), ("bob", "~/src")]), expected);
    assert_eq!(apply(&[("alice", "~/other")]), expected);
    for name in expected {
        assert!(site.read("etc/passwd").contains(&format!("\n{name}:")), "{name}");
    }
    let mode = |path: &str| {
        let path = site.root().join("var/lib/pinfold-agent").join(path);
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(["", "users", "users/alice", "users/bob"].map(mode), [0o700; 4]);

    let long = Wanted { user: Some("a".repeat(30)), ..Site::new().wanted(&[]) };
    let site = Site::new();
    let wanted =
        Wanted { host_users: site.wanted(&[("alice", "~"), ("bob", "~")]).host_users, ..long };
    assert!(install(&wanted, &site.machine).unwrap_err().what.contains("too long"));
}

#[test]
fn set_up_that_was_interrupted_goes_on_and_can_be_removed() {
    let site = Site::new();
    let before = site.content();
    let wanted = site.wanted(&[("alice", "~/work"), ("bob", "~/b")]);
    let steps = install(&wanted, &site.machine).unwrap().steps.len();
    for last in 0..steps {
        let Plan { mut steps, record } = install(&wanted, &site.machine).unwrap();
        steps.truncate(last);
        record.unwrap().write(&site.machine).unwrap();
        steps.iter().for_each(|step| step.apply(&site.machine).unwrap());
        // The file that was being written, and the directory that was being made.
        fs::write(site.root().join("etc/pinfold/runner.json.new"), "half").unwrap();
        fs::create_dir(site.root().join("var/lib/pinfold-agent.new")).unwrap();
        if last % 2 == 0 {
            install(&wanted, &site.machine).unwrap().apply(&site.machine).unwrap();
            assert!(install(&wanted, &site.machine).unwrap().is_empty(), "after {last} steps");
        }
        remove(&site.machine).unwrap().apply(&site.machine).unwrap();
        assert_eq!(site.content(), before, "after {last} steps");
    }
}

#[test]
fn systemd_reads_units_that_an_interrupted_set_up_wrote() {
    let site = Site::new();
    let wanted = site.wanted(&[("alice", "~/work")]);
    install(&wanted, &site.machine).unwrap().apply(&site.machine).unwrap();
    // That of an earlier version.
    let unit = site.root().join("etc/systemd/system").join(install::SOCKET);
    fs::write(&unit, "[Socket]\n").unwrap();
    let lines = |plan: &Plan| plan.to_string().lines().map(str::to_owned).collect::<Vec<_>>();
    let whole = install(&wanted, &site.machine).unwrap();
    let (count, last) = (whole.steps.len(), lines(&whole));
    assert!(last.iter().any(|line| line.contains("daemon-reload")), "{last:?}");
    for done in 1..count {
        fs::write(&unit, "[Socket]\n").unwrap();
        let Plan { steps, record } = install(&wanted, &site.machine).unwrap();
        record.unwrap().write(&site.machine).unwrap();
        steps.iter().take(done).for_each(|step| step.apply(&site.machine).unwrap());
        let next = install(&wanted, &site.machine).unwrap();
        for word in ["daemon-reload", "restart"] {
            assert!(lines(&next).iter().any(|line| line.contains(word)), "{done}: {next}");
        }
        next.apply(&site.machine).unwrap();
        assert!(install(&wanted, &site.machine).unwrap().is_empty(), "after {done} steps");
    }
}

#[test]
fn runner_that_listens_is_started_again_when_it_or_a_unit_is_replaced() {
    let site = Site::new();
    let wanted = site.wanted(&[("alice", "~/work")]);
    install(&wanted, &site.machine).unwrap().apply(&site.machine).unwrap();
    let units = install::FILES.map(|(name, _)| format!("etc/systemd/system/{name}"));
    for path in units.iter().map(String::as_str).chain([install::RUNNER.trim_start_matches('/')]) {
        fs::write(site.root().join(path), "earlier\n").unwrap();
        let shown = install(&wanted, &site.machine).unwrap();
        assert!(shown.to_string().contains("restart pinfold-runner.socket"), "{path}: {shown}");
        shown.apply(&site.machine).unwrap();
        assert!(install(&wanted, &site.machine).unwrap().is_empty(), "{path}");
    }
}

#[test]
fn what_was_there_before_a_set_up_is_nobodys_to_remove() {
    let site = Site::new();
    fs::write(site.root().join("etc/group"), "pinfold:x:7:alice\n").unwrap();
    let passwd = site.read("etc/passwd") + "agent:x:9:9::/x:/x\n";
    fs::write(site.root().join("etc/passwd"), &passwd).unwrap();
    fs::create_dir(site.root().join("var/lib/agent")).unwrap();
    let wanted = Wanted { user: Some("agent".to_owned()), ..site.wanted(&[("alice", "~/work")]) };
    install(&wanted, &site.machine).unwrap().apply(&site.machine).unwrap();
    remove(&site.machine).unwrap().apply(&site.machine).unwrap();
    assert_eq!(site.read("etc/passwd"), passwd);
    assert_eq!(site.read("etc/group"), "pinfold:x:7:alice\n");
    assert!(site.root().join("var/lib/agent").is_dir());
}

#[test]
fn what_a_package_brought_is_used_and_stays() {
    let site = Site::new();
    for (name, text) in install::FILES {
        fs::create_dir_all(site.root().join("usr/lib/systemd/system")).unwrap();
        fs::write(site.root().join("usr/lib/systemd/system").join(name), text).unwrap();
    }
    let before = site.content();
    let shown = install(&site.wanted(&[("alice", "~/work")]), &site.machine).unwrap();
    assert!(!shown.to_string().contains("a unit of systemd"), "{shown}");
    shown.apply(&site.machine).unwrap();
    remove(&site.machine).unwrap().apply(&site.machine).unwrap();
    assert_eq!(site.content(), before);
}

#[test]
fn what_cannot_be_set_up_is_refused_before_anything_changes() {
    let site = Site::new();
    fs::write(site.root().join("usr/local/bin/pi"), "a program").unwrap();
    let before = site.content();
    let refused = |wanted: &Wanted| install(wanted, &site.machine).unwrap_err().to_string();
    let alice = site.wanted(&[("alice", "~/work")]);
    assert!(refused(&site.wanted(&[])).contains("nobody"));
    assert!(refused(&site.wanted(&[("carol", "~")])).contains("no user carol"));
    for (user, root) in
        [("alice", "work"), ("alice", "/"), ("alice", "~/.."), ("a\nb", "~"), ("alice", "/a/../b")]
    {
        assert!(!refused(&site.wanted(&[(user, root)])).is_empty(), "{user} {root}");
    }
    let root = Wanted { user: Some("root".to_owned()), ..alice.clone() };
    assert!(refused(&root).contains("root"));
    let relative = Wanted { state_dir: Some("state".into()), ..alice.clone() };
    assert!(refused(&relative).contains("stateDir"));
    for agent in ["pi", "../pi", "a b", ""] {
        let wrapper = Wanted { wrappers: vec![agent.to_owned()], ..alice.clone() };
        assert!(!refused(&wrapper).is_empty(), "{agent}");
    }
    let missing = Wanted { runner: site.root().join("none"), ..alice.clone() };
    assert!(install(&missing, &site.machine).unwrap_err().hint.unwrap().contains("cargo build"));
    assert_eq!(site.content(), before);

    install(&alice, &site.machine).unwrap().apply(&site.machine).unwrap();
    let other = Wanted { user: Some("other".to_owned()), ..alice };
    assert!(install(&other, &site.machine).unwrap_err().hint.unwrap().contains("--remove"));
    fs::write(
        site.root().join("live"),
        "pinfold-0123456789ab.service loaded active running Sandbox\n",
    )
    .unwrap();
    let live = remove(&site.machine).unwrap_err();
    assert!(live.what.contains("pinfold-0123456789ab.service"), "{live}");
    // What cannot be asked may have sessions.
    let systemctl = site.root().join("usr/bin/systemctl");
    fs::write(&systemctl, "#!/bin/sh\necho no bus >&2; exit 1\n").unwrap();
    assert!(remove(&site.machine).unwrap_err().what.contains("no bus"));
    fs::write(site.root().join("etc/pinfold/runner.json"), "{").unwrap();
    assert!(refused(&site.wanted(&[("bob", "~")])).contains("runner.json"));
}

#[test]
fn wrappers_and_rules_are_written_and_checked() {
    let site = Site::new();
    let before = site.content();
    let visudo = site.root().join("usr/bin/visudo");
    let write = |script: &str| {
        fs::write(&visudo, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&visudo, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let wanted = Wanted {
        sudo: true,
        wrappers: vec!["pi".to_owned()],
        ..site.wanted(&[("alice", "~/work")])
    };
    write("echo 'syntax error near line 3' >&2; exit 1");
    let refused = install(&wanted, &site.machine).unwrap().apply(&site.machine).unwrap_err();
    assert!(refused.what.contains("syntax error"), "{refused}");
    assert_eq!(fs::read_dir(site.root().join("etc/sudoers.d")).unwrap().count(), 0);
    write("grep -q 'NOSETENV: /usr/libexec/pinfold/pinfold-runner \"\"' \"$4\"");
    install(&wanted, &site.machine).unwrap().apply(&site.machine).unwrap();
    let rules = site.read("etc/sudoers.d/pinfold");
    assert!(
        rules.contains(
            "alice ALL=(root:root) NOPASSWD: NOSETENV: /usr/libexec/pinfold/pinfold-runner \"\""
        ),
        "{rules}"
    );
    assert_eq!(
        site.read("usr/local/bin/pi"),
        "#!/bin/sh\nexec pinfold run --boundary systemd pi -- \"$@\"\n"
    );
    assert!(install(&wanted, &site.machine).unwrap().is_empty());
    remove(&site.machine).unwrap().apply(&site.machine).unwrap();
    fs::remove_file(visudo).unwrap();
    assert_eq!(site.content(), before);
}

/// Root writes where nobody else decided what lies there, and sessions become nobody that there is.
#[test]
fn what_others_prepared_is_refused_before_anything_is_changed() {
    use std::os::unix::fs::symlink;
    type Prepare<'p> = &'p dyn Fn(&Path);
    let account = |line: &str, root: &Path| {
        let path = root.join("etc/passwd");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{text}{line}\n")).unwrap();
    };
    let mode = |path: &Path, mode| {
        fs::create_dir_all(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let cases: [(&str, Prepare<'_>); 13] = [
        ("/var/lib/pinfold-agent is no directory", &|root| {
            symlink("/nowhere", root.join("var/lib/pinfold-agent")).unwrap();
        }),
        ("/var/lib/pinfold-agent is no directory", &|root| {
            fs::write(root.join("var/lib/pinfold-agent"), "").unwrap();
        }),
        ("/var/lib can be written to", &|root| mode(&root.join("var/lib"), 0o775)),
        ("/var/lib/pinfold-agent/users can be written to", &|root| {
            mode(&root.join("var/lib/pinfold-agent/users"), 0o777);
        }),
        ("users/alice is there", &|root| {
            mode(&root.join("var/lib/pinfold-agent/users/alice"), 0o700);
        }),
        ("/etc/pinfold is no directory", &|root| {
            symlink("/nowhere", root.join("etc/pinfold")).unwrap();
        }),
        ("/etc/pinfold can be written to", &|root| mode(&root.join("etc/pinfold"), 0o757)),
        ("/etc can be written to", &|root| mode(&root.join("etc"), 0o775)),
        ("/usr/libexec/pinfold is no directory", &|root| {
            symlink("/nowhere", root.join("usr/libexec/pinfold")).unwrap();
        }),
        ("/etc/systemd/system can be written to", &|root| {
            mode(&root.join("etc/systemd/system"), 0o777);
        }),
        ("who is root", &|root| account("pinfold-agent:x:0:0::/:/usr/sbin/nologin", root)),
        ("the id of a host user", &|root| {
            account("pinfold-agent:x:1000:1000::/:/usr/sbin/nologin", root);
        }),
        ("who can log in", &|root| account("pinfold-agent:x:1005:1005::/:/bin/bash", root)),
    ];
    for (expected, prepare) in cases {
        let site = Site::new();
        prepare(site.root());
        let before = site.content();
        let refusal = install(&site.wanted(&[("alice", "~/work")]), &site.machine).unwrap_err();
        assert!(refusal.what.contains(expected), "{expected}: {}", refusal.what);
        assert_eq!(site.content(), before, "{expected}");
    }
    // An account that an administrator made for this.
    let site = Site::new();
    account("pinfold-agent:x:300:300::/:/usr/sbin/nologin", site.root());
    install(&site.wanted(&[("alice", "~/work")]), &site.machine).unwrap();
}

#[test]
fn two_set_ups_at_once_do_not_change_a_machine() {
    let site = Site::new();
    let first = site.machine.lock().unwrap();
    let refused = site.machine.lock().unwrap_err();
    assert_eq!(refused.what, "another `pinfold setup` changes this machine");
    drop(first);
    site.machine.lock().unwrap();
}
