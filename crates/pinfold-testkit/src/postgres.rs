//! A PostgreSQL server of a test's own.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{User, kept_directory, people, skip};

/// How long the server may take to start. After a crash it first repeats what its log has.
const PATIENCE: Duration = Duration::from_secs(60);
/// The role that the server has.
const ROLE: &str = "pinfold";

/// A server with a socket and no address. It ends with the value, or with the thread that started it.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    directory: TempDir,
    /// Where the tables are.
    data: PathBuf,
    options: Vec<String>,
    /// PostgreSQL refuses to run as root.
    user: User,
    server: Option<Child>,
    databases: AtomicU32,
}

impl Postgres {
    /// Starts a server whose tables are in a temporary directory; none, with the reason, if there is no PostgreSQL or nobody who may run it.
    #[must_use]
    pub fn start(test: &str) -> Option<Self> {
        Self::start_with(test, None, &[])
    }

    /// Starts a server whose tables are in this directory, with these settings.
    #[must_use]
    pub fn start_with(test: &str, data: Option<&Path>, settings: &[&str]) -> Option<Self> {
        let Some(programs) = programs() else {
            skip(test, "PostgreSQL's server is not installed");
            return None;
        };
        let Some(user) = people().into_iter().find(|user| !user.is_root()) else {
            skip(test, "PostgreSQL does not run as root, and there is no ordinary user");
            return None;
        };
        // Short: the path of a socket has at most 107 bytes (unix(7)).
        let directory = tempfile::Builder::new().prefix("pf-pg-").tempdir().unwrap();
        let own = |path: &Path| chown(path, Some(user.uid), Some(user.gid)).unwrap();
        own(directory.path());
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let data = data.map_or_else(|| directory.path().join("data"), Path::to_owned);
        // What the processes of a server lose is nothing: only a machine that dies would need it on the disk.
        let mut options = vec!["fsync=off".to_owned(), "shared_buffers=16MB".to_owned()];
        options.extend(["max_wal_size=64MB", "listen_addresses="].map(str::to_owned));
        options.extend(settings.iter().map(|setting| (*setting).to_owned()));
        let databases = AtomicU32::new(0);
        let mut postgres =
            Self { programs, directory, data, options, user, server: None, databases };
        postgres.make_data();
        postgres.restart();
        Some(postgres)
    }

    /// Returns the path of one of PostgreSQL's programs.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Makes the tables of an empty server. They are a copy of what `initdb` has made once, which takes a tenth of its time.
    fn make_data(&self) {
        let copy = |from: &Path, to: &Path| {
            let copied = User::current().command("cp").arg("-a").args([from, to]).status().unwrap();
            assert!(copied.success(), "{} cannot be copied", from.display());
        };
        let version = self.command("initdb").arg("--version").output().unwrap().stdout;
        let version = String::from_utf8(version).unwrap().trim().replace([' ', '/'], "-");
        let kept = kept_directory().join(format!("{version}-{}", self.user.uid));
        if kept.exists() {
            return copy(&kept, &self.data);
        }
        let made = self
            .command("initdb")
            .args(["--no-sync", "--auth", "trust", "--encoding", "UTF8", "--locale", "C"])
            .args(["--username", ROLE, "--pgdata"])
            .arg(&self.data)
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        // Cargo makes it for integration tests alone.
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        // Whole under its name, or not there: another test may make it, too.
        let new = kept.with_file_name(self.directory.path().file_name().unwrap());
        copy(&self.data, &new);
        if fs::rename(&new, &kept).is_err() {
            fs::remove_dir_all(&new).unwrap();
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.user.command(self.programs.join(program));
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    /// Starts the server again after [`Self::end`].
    pub fn restart(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("log")).unwrap();
        // It dies with the test, however that ends.
        let mut command = self.user.command("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(self.programs.join("postgres"));
        command.arg("-D").arg(&self.data).arg("-k").arg(self.directory.path());
        command.args(self.options.iter().flat_map(|option| ["-c", option]));
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        let server = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.server = Some(server);
        let begun = Instant::now();
        while !self.psql("postgres", "SELECT 1").status.success() {
            let log = || fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "the server does not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the server: orderly after its clients' transactions (INT), or at once as in a crash (QUIT).
    pub fn end(&mut self, signal: Signal) {
        if let Some(mut server) = self.server.take() {
            kill_process(Pid::from_child(&server), signal).unwrap();
            server.wait().unwrap();
        }
    }

    /// Returns a path in the server's directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the URL of a database.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let socket = self.directory.path().display().to_string().replace('/', "%2F");
        format!("postgresql://{ROLE}@{socket}/{database}")
    }

    /// Makes an empty database, and returns its name.
    #[must_use]
    pub fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    /// Executes statements in a database, and returns what they print.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        let output = self.psql(database, statements);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Returns the port that its settings name, which is in the name of the socket.
    fn port(&self) -> String {
        let port = self.options.iter().find_map(|option| option.strip_prefix("port="));
        port.unwrap_or("5432").to_owned()
    }

    fn psql(&self, database: &str, statements: &str) -> std::process::Output {
        let mut psql = self.command("psql");
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-U", ROLE, "-d", database, "-h"]);
        psql.arg(self.directory.path()).args(["-p", &self.port()]);
        psql.args(["-c", statements]).output().unwrap()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end(Signal::QUIT);
    }
}

/// Returns where PostgreSQL's programs are: Debian keeps them by version, others in the search path.
fn programs() -> Option<PathBuf> {
    let by_version = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let searched: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let has = |directory: &PathBuf| {
        ["initdb", "postgres", "psql"].iter().all(|program| directory.join(program).exists())
    };
    by_version.chain(searched).find(has)
}
