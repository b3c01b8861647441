//! What set-up commands do to this machine's own system, tried with the real programs; packages come
//! from the real registries.

use std::fs;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use pinfold_testkit::snapshot::repository;
use pinfold_testkit::{Stage, User, executable, installed, people, skip};

use super::{build, kept, refused, said, session};

fn commands(stage: &Stage, commands: &[&str]) {
    let quoted: Vec<String> = commands.iter().map(|one| format!("{one:?}")).collect();
    repository(stage, &format!(r#""setupCommands": [{}]"#, quoted.join(", ")));
}

/// Whether a registry answers, and these programs are there; says what is lacking.
fn reached(test: &str, registry: &str, programs: &[&str]) -> bool {
    if let Some(lacking) = programs.iter().find(|name| !installed(name)) {
        skip(test, &format!("{lacking} is not installed"));
        return false;
    }
    let addresses = registry.to_socket_addrs().into_iter().flatten();
    let answers = |address| TcpStream::connect_timeout(&address, Duration::from_secs(5)).is_ok();
    let reached = addresses.into_iter().any(answers);
    if !reached {
        skip(test, &format!("{registry} cannot be reached"));
    }
    reached
}

#[test]
fn system_configuration_can_be_changed_in_place() {
    for user in people() {
        let stage = Stage::new(user);
        commands(
            &stage,
            &[
                "echo MARK=1 >>/etc/environment; echo mark=1 >>/etc/profile",
                "sed -i s/mark=1/mark=2/ /etc/profile; chmod 600 /etc/environment",
                "if command -v git; then git config --system user.name mark; fi",
                "if command -v ldconfig; then ldconfig; fi",
                "if command -v update-ca-certificates; then update-ca-certificates; fi",
                "if command -v groupadd; then groupadd grp; useradd -r -g grp daemond; fi",
                "if command -v update-alternatives; then \
                 update-alternatives --install /usr/bin/mark mark /bin/true 10; mark; fi",
                "cp -p /usr/bin/env /usr/bin/env.own; mv /usr/bin/env.own /usr/bin/env; \
                 chmod 700 /usr/bin/env; rm -r /usr/share/doc; mkdir /usr/share/doc /opt/new",
            ],
        );
        said(&build(&stage));
        let seen = session(
            &stage,
            "cat /etc/environment | tail -n 1; tail -n 1 /etc/profile; stat -c %a /usr/bin/env; \
             ls /usr/share/doc | wc -l; ls -d /opt/new",
        );
        assert_eq!(seen, "MARK=1\nmark=2\n700\n0\n/opt/new\n");
    }
}

/// What the kernel says of them.
const REFUSALS: [&str; 4] = [
    "Permission denied",
    "Operation not permitted",
    "Value too large for defined data type",
    "Read-only file system",
];

#[test]
fn setup_that_changes_host_files_in_place_is_refused_with_a_hint() {
    let own: &[&str] = &[
        "chmod 700 /usr/bin/env",
        "echo x >>/usr/bin/env",
        "touch /usr/bin/env",
        "mv /usr/bin/env /usr/bin/moved",
        "ln /usr/bin/env /usr/bin/linked",
    ];
    let outside_system: &[&str] = &["mkdir /data", "mkdir /home/bob"];
    let before = fs::metadata("/usr/bin/env").unwrap();
    for user in people() {
        let stage = Stage::new(user);
        for (refused_ones, hint) in [
            (own, "put a copy in place first (cp -p F F.own && mv F.own F)"),
            (
                outside_system,
                "directories can be made below those of the system (/opt, /srv, /var)",
            ),
        ] {
            // One build tries them all: it fails at the end, with what the kernel said of each.
            let tries = refused_ones.iter().map(|one| format!("! ( {one} ) || done=1; "));
            let all = format!("done=0; {}test $done = 0; exit 3", tries.collect::<String>());
            commands(&stage, &[&all]);
            let error = refused(&build(&stage));
            let failed = "setup step \"snapshot.setupCommands[0]\" failed (exit 3): done=0; ";
            let (_, end) = error.split_once(failed).unwrap();
            assert!(end.contains(hint), "{error}");
            let said = REFUSALS.iter().map(|says| end.matches(says).count()).sum::<usize>();
            assert_eq!(said, refused_ones.len(), "{error}");
            assert_eq!(kept(&stage, "snapshots"), Vec::<String>::new());
        }
        assert_eq!(fs::metadata("/usr/bin/env").unwrap().permissions(), before.permissions());
    }
}

#[test]
fn apt_installs_from_debian() {
    if !reached("apt_installs_from_debian", "deb.debian.org:80", &["apt-get", "dpkg"]) {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        // It has configuration files, an owner of its own, a set-group-ID program, and alternatives.
        commands(
            &stage,
            &[
                "apt-get update -q=2",
                "apt-get install -q=2 -y --no-install-recommends cron nginx-light",
                // It comes with directories next to /usr.
                "apt-get install -q=2 -y --reinstall base-files",
            ],
        );
        said(&build(&stage));
        let seen = session(
            &stage,
            "dpkg-query -W -f '${Package} ${Status}\\n' cron nginx-light; ls /etc/crontab; \
             nginx -v 2>&1 | cut -d / -f 1",
        );
        let installed = "install ok installed";
        assert_eq!(
            seen,
            format!(
                "cron {installed}\nnginx-light {installed}\n/etc/crontab\nnginx version: nginx\n"
            )
        );
    }
}

#[test]
fn npm_installs_from_its_registry() {
    if !reached("npm_installs_from_its_registry", "registry.npmjs.org:443", &["node", "npm"]) {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        commands(&stage, &["npm install -g --silent cowsay@1.6.0"]);
        said(&build(&stage));
        assert!(session(&stage, "cowsay moo").contains("< moo >"));
    }
}

#[test]
fn pip_installs_from_its_index() {
    if !reached("pip_installs_from_its_index", "pypi.org:443", &["pip3", "python3"]) {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        commands(
            &stage,
            &[
                "pip3 install -q --break-system-packages colorama==0.4.6",
                "pip3 install -q --break-system-packages --user pyfiglet==1.0.2",
                "python3 -m venv /opt/own && /opt/own/bin/pip install -q six==1.16.0",
            ],
        );
        said(&build(&stage));
        let seen = session(
            &stage,
            "python3 -c 'import colorama; print(colorama.__version__)'; pyfiglet --version; \
             /opt/own/bin/python -c 'import six; print(six.__version__)'",
        );
        assert_eq!(seen, "0.4.6\n1.0.2\n1.16.0\n");
    }
}

/// A call by this user whose home has the programs of a home with rustup.
fn with_rustup(stage: &Stage, theirs: &Rustup, args: &[&str]) -> Output {
    let home = stage.path("home");
    fs::create_dir_all(home.join(".rustup/toolchains")).unwrap();
    fs::create_dir_all(home.join(".cargo/bin")).unwrap();
    fs::copy(theirs.rustup.join("settings.toml"), home.join(".rustup/settings.toml")).unwrap();
    let script = "home=$1; cargo=$2; rustup=$3; shift 3; \
        mount --bind \"$cargo/bin\" \"$home/.cargo/bin\"; \
        mount --bind \"$rustup/toolchains\" \"$home/.rustup/toolchains\"; exec \"$@\"";
    let User { uid, gid } = stage.user;
    let mut shell = User { uid: 0, gid: 0 }.command("unshare");
    shell.args(["-m", "sh", "-ec", script, "sh"]).args([&home, &theirs.cargo, &theirs.rustup]);
    shell.args(["setpriv", "--clear-groups", "--reuid", &uid.to_string()]);
    shell.args(["--regid", &gid.to_string(), executable()]).args(args);
    shell.env("HOME", home).current_dir(stage.workspace()).stdin(Stdio::null());
    shell.output().unwrap()
}

/// Where the rustup keeps its files that runs this test.
struct Rustup {
    cargo: PathBuf,
    rustup: PathBuf,
}

impl Rustup {
    fn find() -> Option<Self> {
        let at = |variable: &str, name: &str| {
            let home = || Some(Path::new(&std::env::var_os("HOME")?).join(name));
            std::env::var_os(variable).map(PathBuf::from).or_else(home)
        };
        let found =
            Self { cargo: at("CARGO_HOME", ".cargo")?, rustup: at("RUSTUP_HOME", ".rustup")? };
        let is_there =
            found.cargo.join("bin/rustup").exists() && found.rustup.join("settings.toml").exists();
        is_there.then_some(found)
    }
}

#[test]
fn cargo_of_the_home_installs_and_fetches_from_its_registry() {
    const TEST: &str = "cargo_of_the_home_installs_and_fetches_from_its_registry";
    if !reached(TEST, "index.crates.io:443", &["cc", "unshare", "setpriv"]) {
        return;
    }
    let (Some(theirs), true) = (Rustup::find(), rustix::process::geteuid().is_root()) else {
        return skip(TEST, "it takes rustup, and root, who can put it into a home");
    };
    for user in people() {
        let stage = Stage::new(user);
        commands(
            &stage,
            &[
                "cargo --version",
                "cd /opt; cargo new -q --vcs none tiny; cd tiny; cargo add -q itoa@1.0.11",
                "cd /opt/tiny; cargo fetch -q; cargo build -q --offline",
                "cargo install -q --path /opt/tiny --root /usr/local; cargo install -q --path /opt/tiny",
            ],
        );
        said(&with_rustup(&stage, &theirs, &["snapshot", "build"]));
        // Without any network: what was fetched is there, and can be written to.
        let script = "/usr/local/bin/tiny; command -v tiny; cp -r /opt/tiny /tmp/again; \
                      cd /tmp/again; rm -rf target; cargo run -q --offline";
        let seen = said(&with_rustup(&stage, &theirs, &["run", "--", "sh", "-ec", script]));
        let says = "Hello, world!\n";
        assert_eq!(seen, format!("{says}/home/agent/.cargo/bin/tiny\n{says}"));
    }
}
