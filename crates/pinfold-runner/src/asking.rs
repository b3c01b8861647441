//! What root's program calls nothing of: how a request is written and a refusal read, what in a policy helps nobody, and
//! where a user's configuration lies.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::accounts::Account;
use crate::installed;
use crate::policy::{GUIDE, PATH, Policy, expand, is_canonical};
use crate::refusal::Refusal;
use crate::request::{LONGEST, MOST_GRANTS, REFUSED, Request, VERSION};

/// Where an agent has its configuration, below a home.
const CONFIGURATION: &str = ".pi/agent";

impl Request {
    /// Returns it as a message.
    ///
    /// # Errors
    /// Returns that it is too long.
    pub fn encode(&self) -> Result<Vec<u8>, Refusal> {
        let mut message = VERSION.to_vec();
        put(&mut message, self.session.as_bytes())?;
        for limit in [self.memory, self.cpus.map(u64::from), self.tasks] {
            // No limit is 0, which would let nothing run.
            message.extend(limit.unwrap_or(0).to_le_bytes());
        }
        message.extend((self.grants.len() as u32).to_le_bytes());
        for wanted in &self.grants {
            message.push(wanted.is_writable.into());
            put(&mut message, wanted.path.as_os_str().as_bytes())?;
        }
        if message.len() > LONGEST || self.grants.len() > MOST_GRANTS {
            return Err(Refusal::new(
                format!(
                    "{} files and directories are more than the runner takes",
                    self.grants.len()
                ),
                "grant directories that contain them",
            ));
        }
        Ok(message)
    }
}

fn put(message: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Refusal> {
    let length = u16::try_from(bytes.len()).map_err(|_| Refusal::plain("a path is too long"))?;
    message.extend(length.to_le_bytes());
    message.extend(bytes);
    Ok(())
}

impl Refusal {
    /// Reads a message; nothing if it is something else.
    #[must_use]
    pub fn decode(message: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(message.strip_prefix(&[REFUSED])?);
        let (what, hint) = text.split_once('\0')?;
        Some(if hint.is_empty() { Self::plain(what) } else { Self::new(what, hint) })
    }
}

impl Policy {
    /// Returns a policy in which nothing is missing or means nothing. For root's program it would give nothing.
    ///
    /// # Errors
    /// Returns what an administrator has to change.
    pub fn checked(self) -> Result<Self, Refusal> {
        let wrong = |what: String| Refusal::new(format!("{PATH}: {what}"), GUIDE);
        self.fault().map_or(Ok(self), |what| Err(wrong(what)))
    }

    fn fault(&self) -> Option<String> {
        if self.host_users.is_empty() {
            return Some("hostUsers is empty: nobody may start a session".to_owned());
        }
        if !self.environment_files.iter().all(|path| is_canonical(path)) {
            return Some("environmentFiles must be absolute paths without `.` and `..`".to_owned());
        }
        let is_variable = |(name, value): (&String, &String)| {
            !name.is_empty() && !name.contains('=') && !(name.clone() + value).contains('\0')
        };
        if !self.environment.iter().all(is_variable) {
            return Some("environment has what can be no variable".to_owned());
        }
        // Any home will do.
        let home = Path::new("/home/user");
        for (name, user) in &self.host_users {
            if user.project_roots.is_empty() {
                return Some(format!(
                    "projectRoots of {name} is empty: leave the user out instead"
                ));
            }
            let mut roots = user.project_roots.iter();
            if let Some(root) = roots.find(|root| expand(root, home).is_none()) {
                return Some(format!(
                    "{root:?}, a project root of {name}, must be an absolute path or one below `~`, without `.` and \
                     `..`, and not `/`"
                ));
            }
            let path = self.config_path(name);
            if expand(path, home).is_none() && !is_canonical(&Path::new("/").join(path)) {
                return Some(format!(
                    "configPath {path:?} must be a path below a home or an absolute one, without `.` and `..`"
                ));
            }
        }
        None
    }

    fn config_path(&self, host_user: &str) -> &str {
        let own = self.host_users.get(host_user).and_then(|host| host.config_path.as_deref());
        own.or(self.config_path.as_deref()).unwrap_or(CONFIGURATION)
    }

    /// Returns where a user has the agent's configuration, and where it belongs below the isolated home.
    #[must_use]
    pub fn configuration(&self, account: &Account) -> Option<(PathBuf, PathBuf)> {
        let path = self.config_path(&account.name);
        if path.starts_with(['/', '~']) {
            return Some((
                installed::canonical(&expand(path, &account.home)?),
                CONFIGURATION.into(),
            ));
        }
        let source = expand(&format!("~/{path}"), &account.home)?;
        Some((installed::canonical(&source), PathBuf::from(path)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use crate::accounts::Account;
    use crate::policy::Policy;

    #[test]
    fn configuration_comes_from_the_home_or_from_where_the_policy_says() {
        let text = br#"{"user": "pi-agent", "stateDir": "/var/lib/x", "configPath": ".pi/other", "hostUsers": {
            "alice": {"projectRoots": ["/a"]},
            "bob": {"user": "pi-bob", "projectRoots": ["/b"], "configPath": ".claude"},
            "carol": {"user": "pi-carol", "projectRoots": ["/c"], "configPath": "/srv/pi"}}}"#;
        let policy = Policy::parse(text).unwrap();
        let of = |name: &str| {
            let home = PathBuf::from("/nowhere").join(name);
            policy.configuration(&Account { name: name.to_owned(), uid: 1, gid: 1, home }).unwrap()
        };
        let is = |name: &str, from: &str, to: &str| {
            assert_eq!(of(name), (PathBuf::from(from), Path::new(to).to_owned()));
        };
        is("alice", "/nowhere/alice/.pi/other", ".pi/other");
        is("bob", "/nowhere/bob/.claude", ".claude");
        is("carol", "/srv/pi", ".pi/agent");
    }
}
