//! A small internet of a test's own.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use pinfold_testkit::{Stage, User, executable, installed, people, skip};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// Programs without which no test of the network can run.
const NEEDED: [&str; 6] = ["python3", "unshare", "nsenter", "ip", "mount", "curl"];

/// The host's bundle, which is masked by one that trusts the test's authority too.
const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Namespaces with servers, for one user. They end with the value.
pub(super) struct World {
    pub(super) stage: Stage,
    holder: Child,
    /// The holder ends when this is closed.
    until: Option<ChildStdin>,
    /// The directory of the servers' files.
    dir: PathBuf,
}

/// Everybody who can run a test that needs these programs; says why nobody can.
pub(super) fn people_with(test: &str, programs: &[&str]) -> Vec<User> {
    let in_sbin = |name: &str| PathBuf::from("/usr/sbin").join(name).exists();
    let lacking: Vec<&str> = NEEDED
        .iter()
        .chain(programs)
        .copied()
        .filter(|name| !installed(name) && !in_sbin(name))
        .collect();
    if !lacking.is_empty() {
        skip(test, &format!("not installed: {}", lacking.join(", ")));
        return Vec::new();
    }
    if !PathBuf::from(BUNDLE).exists() {
        skip(test, &format!("there is no {BUNDLE}"));
        return Vec::new();
    }
    people()
}

impl World {
    /// A world with the servers that `world.py` knows by these names.
    pub(super) fn new(user: User, servers: &[&str]) -> Self {
        Self::prepared(user, servers, |_| {})
    }

    /// The same, with files that the servers need, written before they start.
    pub(super) fn prepared(user: User, servers: &[&str], prepare: impl FnOnce(&Stage)) -> Self {
        let stage = Stage::new(user);
        let dir = stage.path("world");
        for (name, content) in [
            ("world.py", include_str!("world.py")),
            ("web.py", include_str!("web.py")),
            ("github.py", include_str!("github.py")),
            ("h2.mjs", include_str!("h2.mjs")),
            ("resolv.conf", "nameserver 127.0.0.1\n"),
            ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
            ("seen", ""),
            ("asked", ""),
        ] {
            stage.write(&format!("world/{name}"), content);
        }
        certify(&stage);
        prepare(&stage);
        let mut holder = runner().command("unshare");
        if !runner().is_root() {
            holder.args(["-U", "--map-current-user", "--keep-caps"]);
        }
        holder
            .args(["-n", "-m", "python3"])
            .arg(dir.join("world.py"))
            .arg(&dir)
            .args([user.uid.to_string(), user.gid.to_string()])
            .args(servers)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("POSTGRES", postgres().unwrap_or_default())
            .current_dir(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut said = String::new();
        let mut output = BufReader::new(holder.stdout.take().unwrap());
        output.read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n", "the world did not come to be");
        let until = holder.stdin.take();
        Self { stage, holder, until, dir }
    }

    /// A program on the host of this world, as its user.
    pub(super) fn outside(&self, program: &str, args: &[&str]) -> Command {
        let user = self.stage.user;
        // Started by root, nsenter drops what it has.
        let mut command = runner().command("nsenter");
        command.args(["-t", &self.holder.id().to_string(), "-n", "-m"]);
        if runner().is_root() {
            command.args(["-S", &user.uid.to_string(), "-G", &user.gid.to_string()])
        } else {
            command.args(["-U", "--preserve-credentials"])
        };
        command
            .arg(format!("--wdns={}", self.stage.workspace().display()))
            .arg(program)
            .args(args)
            .env("HOME", self.stage.path("home"))
            .env("TMPDIR", self.stage.path("tmp"))
            .stdin(Stdio::null());
        command
    }

    pub(super) fn pinfold(&self, args: &[&str]) -> Command {
        self.outside(executable(), args)
    }

    /// `pinfold run OPTIONS -- sh -c SCRIPT`, to its end.
    pub(super) fn shell(&self, options: &[&str], script: &str) -> Said {
        self.run(options, &["sh", "-c", script])
    }

    /// `pinfold run OPTIONS -- COMMAND`, to its end.
    pub(super) fn run(&self, options: &[&str], command: &[&str]) -> Said {
        let mut run = self.pinfold(&["run"]);
        Said::of(run.args(options).arg("--").args(command).output().unwrap())
    }

    /// The same for a Python program that has this file's functions.
    pub(super) fn python(&self, options: &[&str], program: &str) -> Said {
        let program = format!("{}\n{program}", include_str!("inside.py"));
        self.run(options, &["python3", "-c", &program])
    }

    /// That Python program on the host of this world: the control of an attack.
    pub(super) fn python_outside(&self, program: &str) -> Said {
        let program = format!("{}\n{program}", include_str!("inside.py"));
        Said::of(self.outside("python3", &["-c", &program]).output().unwrap())
    }

    /// Sets a secret in the store.
    pub(super) fn set_secret(&self, id: &str, value: &str) {
        let file = self.stage.write("tmp/value", value);
        let mut set = self.pinfold(&["secret", "set", id]);
        let set = set.stdin(fs::File::open(&file).unwrap()).output().unwrap();
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
        fs::remove_file(file).unwrap();
    }

    pub(super) fn config(&self, text: &str) {
        let directory = self.stage.path("home/.config/pinfold");
        self.stage.write("home/.config/pinfold/config.toml", text);
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// What the web servers were sent so far.
    pub(super) fn seen(&self) -> String {
        fs::read_to_string(self.dir.join("seen")).unwrap()
    }

    /// What the resolver of this world was asked so far: lines of names and types.
    pub(super) fn asked(&self) -> String {
        fs::read_to_string(self.dir.join("asked")).unwrap()
    }

    /// The audit log of the last session.
    pub(super) fn audit(&self) -> String {
        let audit = self.pinfold(&["audit", "--json"]).output().unwrap();
        String::from_utf8(audit.stdout).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The holder ends what it started when it sees the end of its input.
        drop(self.until.take());
        let _ = self.holder.wait();
    }
}

/// Who runs the tests.
fn runner() -> User {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    User { uid: uid.as_raw(), gid: gid.as_raw() }
}

/// What a run said.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) out: String,
    pub(super) err: String,
    pub(super) ok: bool,
}

impl Said {
    pub(super) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// It ended well, and said all of these.
    #[track_caller]
    pub(super) fn has(&self, all: &[&str]) {
        for one in all {
            assert!(self.out.contains(one), "{one:?} is missing in\n{}\n{}", self.out, self.err);
        }
    }

    /// The line that begins with this and a blank, without these.
    #[track_caller]
    pub(super) fn line(&self, name: &str) -> &str {
        let line = self.out.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no line {name:?} in\n{}\n{}", self.out, self.err))
    }

    /// Lines on standard error that tell of refusals.
    pub(super) fn refusals(&self) -> Vec<&str> {
        self.err.lines().filter_map(|line| line.strip_prefix("pinfold: refused: ")).collect()
    }
}

/// PostgreSQL's programs, which Debian keeps by version.
pub(super) fn postgres() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    versions.map(|version| version.path().join("bin")).find(|bin| bin.join("initdb").exists())
}

/// An authority, and certificates of servers: right, for another name, and expired.
fn certify(stage: &Stage) {
    let day = Duration::from_secs(24 * 60 * 60);
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "a test's authority");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let names =
        ["example.com", "example.org", "example.net", "github.com", "githubusercontent.com"];
    let all: Vec<String> = names
        .iter()
        .flat_map(|name| [(*name).to_owned(), format!("*.{name}")])
        .chain(["*.web.example.com".to_owned(), "93.184.216.34".to_owned()])
        .collect();
    for (name, hosts, until) in [
        ("server", all.clone(), SystemTime::now() + day),
        ("wrong", vec!["wrong.invalid".to_owned()], SystemTime::now() + day),
        ("expired", all, SystemTime::now() - day),
    ] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.not_before = (SystemTime::now() - 2 * day).into();
        params.not_after = until.into();
        let certificate = params.signed_by(&key, &authority).unwrap();
        stage.write(&format!("world/{name}.pem"), certificate.pem());
        let file = stage.write(&format!("world/{name}.key"), key.serialize_pem());
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let bundle = [fs::read(BUNDLE).unwrap(), authority.pem().into_bytes()].concat();
    stage.write("world/bundle.pem", bundle);
}
