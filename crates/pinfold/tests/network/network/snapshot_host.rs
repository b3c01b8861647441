//! Set-up commands on this machine's own system, with packages from a registry.

use std::fs;

use pinfold_testkit::{Stage, skip};

use super::World;
use super::git::run;
use super::registries::{packages, toolchain};
use super::world::{Said, people_with};

impl World {
    /// A repository with these set-up commands, trusted.
    fn with_setup(&self, setup: &[&str]) {
        let settings = serde_json::json!({
            "snapshot": { "setupCommands": setup, "allowedHosts": ["registry.example.org"] }
        });
        self.stage.write("ws/sandbox.json", settings.to_string());
        let trusted = self.pinfold(&["trust", "--yes"]).output().unwrap();
        assert!(trusted.status.success(), "{}", String::from_utf8_lossy(&trusted.stderr));
    }

    fn build(&self) -> Said {
        Said::of(self.pinfold(&["snapshot", "build"]).output().unwrap())
    }

    /// As root on the host of this world.
    fn as_root(&self, script: &str) {
        let done = self.outside("sh", &["-ec", script]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

/// What the scripts of packages do to owners and modes.
const SCRIPT: &str = "#!/bin/sh\nset -e\nuseradd --system --no-create-home tinyd\n\
    mkdir -p /var/lib/tiny\nchown tinyd:tinyd /var/lib/tiny\nchmod 2750 /var/lib/tiny\n\
    chown root:mail /usr/bin/tiny\nchmod 4755 /usr/bin/tiny\n";

/// A repository with a new package, and with a newer version of one that this machine has.
fn repository(stage: &Stage) {
    let architecture = stage.command("dpkg").arg("--print-architecture").output().unwrap();
    let architecture = String::from_utf8(architecture.stdout).unwrap();
    stage.write("world/files/apt/.keep", "");
    let apt = stage.path("world/files/apt");
    let apt = apt.to_str().unwrap();
    for (name, version, more, program, says) in [
        ("tiny", "1.0", "", "usr/bin/tiny", "tiny by apt"),
        ("hostname", "99:1.0", "Essential: yes\n", "bin/hostname", "a newer one"),
    ] {
        let at = |file: &str| format!("world/packages/{name}/{file}");
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {architecture}{more}\
             Maintainer: me <me@example.org>\nDescription: a package\n"
        );
        stage.write(&at("DEBIAN/control"), control);
        let mut executable = vec![stage.write(&at(program), format!("#!/bin/sh\necho {says}\n"))];
        if name == "tiny" {
            executable.push(stage.write(&at("DEBIAN/postinst"), SCRIPT));
        }
        for file in executable {
            run(stage, "chmod", &["755", file.to_str().unwrap()]);
        }
        let package = stage.path(&format!("world/packages/{name}"));
        run(stage, "dpkg-deb", &["--build", "--root-owner-group", package.to_str().unwrap(), apt]);
    }
    let lists = "cd \"$1\" && apt-ftparchive packages . > Packages && \
        apt-ftparchive release . > ../Release && mv ../Release .";
    run(stage, "sh", &["-c", lists, "sh", apt]);
}

const SOURCES: &str = "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*; echo \
    'deb [trusted=yes] http://registry.example.org/files/apt/ ./' > /etc/apt/sources.list";

#[test]
fn apt_installs_and_replaces_packages_of_this_machine_s_own_system() {
    let needed = ["apt-get", "apt-ftparchive", "dpkg-deb", "hostname", "useradd"];
    for user in people_with("apt on the host", &needed) {
        let world = World::prepared(user, &["registry"], repository);
        let before = fs::read("/bin/hostname").unwrap();
        world.with_setup(&[
            SOURCES,
            "apt-get update -q=2",
            "apt-get install -y tiny hostname",
            "test -u /usr/bin/tiny && id -un tinyd > /usr/share/tiny-user",
        ]);
        let built = world.build();
        assert!(built.ok, "{}", built.err);
        let said = world.shell(
            &[],
            "tiny; hostname; dpkg-query -W -f '${Package} ${Version}\\n' hostname tiny; \
             cat /usr/share/tiny-user; test -u /usr/bin/tiny || echo no bit; \
             touch /usr/bin/mine && echo writable",
        );
        let expected =
            "tiny by apt\na newer one\nhostname 99:1.0\ntiny 1.0\ntinyd\nno bit\nwritable\n";
        assert_eq!(said.out, expected, "{}", said.err);
        assert_eq!(fs::read("/bin/hostname").unwrap(), before);
        let again = world.shell(&[], "test -e /usr/bin/mine || echo fresh");
        assert_eq!((again.err.as_str(), again.out.as_str()), ("", "fresh\n"));
    }
}

/// A session that is root by name is its own build.
#[test]
fn apt_installs_packages_in_a_session_that_is_root_by_name() {
    let needed = ["apt-get", "apt-ftparchive", "dpkg-deb", "hostname", "useradd"];
    // Root's sessions differ in nothing that apt sees, and a copy of the machine's lists takes half a minute.
    if let Some(user) = people_with("apt in a session", &needed).pop() {
        let world = World::prepared(user, &["registry"], repository);
        world.stage.write(
            "ws/sandbox.json",
            r#"{"snapshot": {"user": "root"}, "workspaceMode": "overlay"}"#,
        );
        let trusted = world.pinfold(&["trust", "--yes"]).output().unwrap();
        assert!(trusted.status.success(), "{}", String::from_utf8_lossy(&trusted.stderr));
        let before = fs::read("/bin/hostname").unwrap();
        let allow = ["--allow-host", "registry.example.org:80/http"];
        let script = format!(
            "{SOURCES}; apt-get update -q=2 && apt-get install -y tiny hostname >log 2>&1 || cat log; tiny; hostname; \
             id -un tinyd; test -u /usr/bin/tiny && echo bit"
        );
        let said = world.shell(&allow, &script);
        assert_eq!(said.out, "tiny by apt\na newer one\ntinyd\nbit\n", "{}", said.err);
        assert_eq!(fs::read("/bin/hostname").unwrap(), before);
        let again = world.shell(&[], "command -v tiny || echo fresh");
        assert_eq!(again.out, "fresh\n", "{}", again.err);
    }
}

/// dpkg writes to where a file was diverted to, which is another one of the machine's own here.
#[test]
fn apt_replaces_files_that_were_diverted() {
    let needed = ["apt-get", "apt-ftparchive", "dpkg-deb", "dpkg-divert", "hostname", "yes"];
    for user in people_with("diversions on the host", &needed) {
        let world = World::prepared(user, &["registry"], repository);
        world.with_setup(&[
            SOURCES,
            "dpkg-divert --no-rename --divert /usr/bin/yes --add /bin/hostname",
            "apt-get update -q=2",
            "apt-get install -y hostname",
        ]);
        let built = world.build();
        assert!(built.ok, "{}", built.err);
        assert_eq!(world.run(&[], &["/usr/bin/yes"]).out, "a newer one\n");
    }
}

#[test]
fn npm_and_pip_install_on_this_machine_s_own_system() {
    for user in people_with("npm and pip on the host", &["node", "npm", "pip3"]) {
        let world = World::prepared(user, &["registry"], packages);
        world.with_setup(&[
            "npm install -g --no-audit --no-fund --no-update-notifier \
             --registry http://registry.example.org/files/npm/ tiny",
            "pip3 install --break-system-packages --no-cache-dir --disable-pip-version-check \
             --trusted-host registry.example.org \
             --index-url http://registry.example.org/files/simple/ tiny",
        ]);
        let built = world.build();
        assert!(built.ok, "{}", built.err);
        let said = world.shell(
            &[],
            "NODE_PATH=$(npm root -g) node -p \"require('tiny')\"; \
             python3 -c 'import tiny; print(tiny.NAME)'",
        );
        assert!(said.out.contains("tiny by npm") && said.out.contains("tiny by pip"), "{said:?}");
    }
}

#[test]
fn cargo_installs_on_this_machine_s_own_system() {
    let Some(toolchain) = toolchain() else {
        return skip("cargo on the host", "no toolchain runs this test");
    };
    let people = people_with("cargo on the host", &["cc"]);
    let Some(root) = people.into_iter().find(|user| user.is_root()) else {
        return skip(
            "cargo on the host",
            "root does not run this test, who can put cargo into /opt",
        );
    };
    let world = World::new(root, &[]);
    // A toolchain in somebody's home is not seen by set-up commands.
    world.as_root(&format!("mount --bind {} /opt", toolchain.display()));
    world.with_setup(&["export PATH=/opt/bin:$PATH; cd /tmp; cargo new -q --vcs none tiny; \
         cargo install -q --offline --root /usr/local --path tiny"]);
    let built = world.build();
    assert!(built.ok, "{}", built.err);
    let said = world.run(&[], &["tiny"]);
    assert_eq!((said.err.as_str(), said.out.as_str()), ("", "Hello, world!\n"));
}

#[test]
fn files_that_not_everybody_may_read_are_hidden_from_roots_setup_too() {
    let people = people_with("root's set-up", &["apt-get"]);
    let Some(root) = people.into_iter().find(|user| user.is_root()) else {
        return skip("root's set-up", "root does not run this test");
    };
    let world = World::new(root, &[]);
    world.as_root(
        "mount -t tmpfs opt /opt; echo SECRET > /opt/own; chmod 600 /opt/own; \
         mkdir -m 700 /opt/closed; echo SECRET > /opt/closed/file; echo all > /opt/public; \
         mount -t tmpfs apt /etc/apt; mkdir /etc/apt/apt.conf.d; cd /etc/apt; \
         echo 'machine a.example login b password SECRET' > auth.conf; \
         echo 'deb https://me:SECRET@a.example/ ./' > sources.list; \
         echo 'Acquire::http::Proxy \"http://SECRET/\";' > apt.conf.d/proxy; \
         echo 'APT::Install-Recommends \"no\";' > apt.conf.d/plain",
    );
    let look = "cat /opt/public; cat /opt/own /opt/closed/* 2>/dev/null; find /etc/apt -type f; \
        grep -rs 'SECRE[T]' /etc/apt; ls /etc/machine-id /etc/fstab /etc/npmrc 2>/dev/null; \
        ls -A /root /var/lib/apt/lists 2>/dev/null | grep -v : | grep . ; \
        awk -F: '$3 >= 1000 && $3 < 65534 {print $1}' /etc/passwd";
    // Packages put files into such directories.
    let own = "touch /opt/closed/own";
    world.with_setup(&[&format!("({look}) > /usr/share/seen || true"), own]);
    let built = world.build();
    assert!(built.ok, "{}", built.err);
    for name in ["sources.list", "apt.conf.d/proxy"] {
        let note = format!("note: /etc/apt/{name} names a proxy or a login");
        assert!(built.err.contains(&note), "{}", built.err);
    }
    assert!(!built.err.contains("SECRET"), "{}", built.err);
    let seen = "all\n/etc/apt/apt.conf.d/plain\n";
    let said = world.shell(&[], &format!("cat /usr/share/seen; echo; {look}"));
    assert_eq!(said.out, format!("{seen}\n{seen}agent\n"), "{}", said.err);
}

#[test]
fn a_build_refuses_a_mount_among_the_programs_of_this_machine_and_leaves_nothing() {
    const TEST: &str = "a mount among the programs of the host";
    let people = people_with(TEST, &["apt-get"]);
    let Some(root) = people.into_iter().find(|user| user.is_root()) else {
        return skip(TEST, "root does not run this test");
    };
    let world = World::new(root, &[]);
    world.with_setup(&["true"]);
    world.as_root("mount -t tmpfs more /usr/local/share");
    let said = world.build();
    let words = "/usr/local/share is mounted among its programs";
    assert!(!said.ok && said.err.contains(words), "{}", said.err);
    let made = fs::read_dir(world.stage.path("home/.cache/pinfold/snapshots"));
    let made = made.into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    assert_eq!(made.count(), 0);
}

#[test]
fn scripts_of_set_up_commands_write_to_run_and_not_to_what_is_pinfold_s_there() {
    for user in people_with("/run in a build", &[]) {
        let world = World::new(user, &[]);
        world.with_setup(&[
            "touch /run/lock/mine /run/mine",
            "! touch /run/pinfold/mine && ! mv /run/pinfold /run/theirs && \
             ! rm -f /run/pinfold/apt.conf && ! touch /run/pinfold/private/0/mine",
            "test ! -e /run/mine",
        ]);
        let built = world.build();
        assert!(built.ok, "{}", built.err);
    }
}
