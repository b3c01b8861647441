//! The users that tests run pinfold as.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The ordinary user that is made when root runs the tests.
const NAME: &str = "pinfold-test";

/// A user of this machine as which a test runs programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// Numeric user id.
    pub uid: u32,
    /// Numeric id of the primary group.
    pub gid: u32,
}

/// Returns the users to run a test as: the current user, and also an ordinary user if that is root.
///
/// With `PINFOLD_TEST_PEOPLE=user`, root runs tests as the ordinary user only.
pub fn people() -> Vec<User> {
    let own = User::current();
    let others_alone = std::env::var("PINFOLD_TEST_PEOPLE").is_ok_and(|who| who == "user");
    let mut people = if others_alone && own.is_root() { Vec::new() } else { vec![own] };
    if own.is_root() {
        match ordinary() {
            Some(user) => people.push(user),
            None => eprintln!("SKIPPED as an ordinary user: `useradd {NAME}` failed"),
        }
    }
    people
}

impl User {
    /// Returns the user that runs the tests.
    #[must_use]
    pub fn current() -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    /// Returns whether this is root.
    #[must_use]
    pub fn is_root(self) -> bool {
        self.uid == 0
    }

    /// Returns a command that runs a program as this user, with `PATH` as its only variable.
    #[expect(clippy::disallowed_methods, reason = "a test starts programs, pinfold does not")]
    pub fn command(self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        if rustix::process::geteuid().is_root() && !self.is_root() {
            // Without supplementary groups, which std drops together with root.
            command.uid(self.uid).gid(self.gid);
        }
        command
    }
}

fn ordinary() -> Option<User> {
    let known = || {
        let users = fs::read_to_string("/etc/passwd").ok()?;
        let line = users.lines().find_map(|line| line.strip_prefix(&format!("{NAME}:")))?;
        let mut fields = line.split(':').skip(1);
        Some(User { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    };
    known().or_else(|| {
        let root = User { uid: 0, gid: 0 };
        // Another test may be making the same user: what counts is whether it is there after.
        let _ = root.command("useradd").args(["--no-create-home", "--user-group", NAME]).output();
        known()
    })
}
