//! The key that signs for the sandbox: where it is, what it may be used for, and what the sandbox
//! is given so that git and ssh use it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_boundary::{Door, Entry, Place};
use pinfold_egress::{
    Journal, SshConfig, SshDoor, SshHost, SshPrivateKey, SshPublicKey, SshSigner, host_keys,
    host_label,
};
use pinfold_git::config::Setting;
use pinfold_host::beneath::{open_directory, read_beneath};
use pinfold_host::directories::Places;
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::path::{InsidePath, PathError};
use pinfold_policy::settings::Settings;
use pinfold_policy::ssh::{SshHostRule, SshKey};
use pinfold_rootfs::userland::HOME;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use zeroize::Zeroizing;

use crate::RunError;
use pinfold_personal::identity::Identity;

/// Where the door is, inside.
pub(crate) const SOCKET: &str = "/run/pinfold/ssh-agent";

/// Host keys of public git hosts.
const PUBLISHED: &str = include_str!("../../data/ssh_known_hosts");
/// Bytes of a key file at most: RSA of 16 384 bits has some 13 000.
const LONGEST: u64 = 64 * 1024;

/// A run's key and the hosts that it may be used to log in to. Nothing of it is secret.
#[derive(Debug)]
pub(crate) struct Ssh {
    key: SshPublicKey,
    source: Source,
    hosts: Vec<SshHost>,
    /// When git signs, if somebody says so.
    signing: Vec<Setting>,
}

/// Where the private half is.
#[derive(Debug)]
enum Source {
    File(PathBuf),
    /// In the user's own ssh-agent, at this socket.
    Agent(PathBuf),
}

impl Ssh {
    /// Returns what the settings ask for. Reads no private key.
    ///
    /// # Errors
    /// Returns an error for a key that cannot be used, or a host whose key nobody knows, each with the
    /// hint.
    pub(crate) fn find(
        settings: &Settings,
        identity: Option<&Identity>,
        places: &Places,
    ) -> Result<Option<Self>, RunError> {
        let (key, source) = match (identity, &settings.ssh.key) {
            (Some(identity), _) => {
                let Some(path) = &identity.key else { return Ok(None) };
                (in_file(path, &Origin::Flag { name: "--identity" })?, Source::File(path.clone()))
            }
            (None, Some(Valued { value: SshKey::File(path), origin })) => {
                // Links on the way to it are the user's own; from here on none is followed.
                let path = fs::canonicalize(path.as_path()).map_err(|error| {
                    let what = format!("cannot read the SSH key {path} (by {origin}): {error}");
                    RunError::refused(what, None)
                })?;
                (in_file(&path, origin)?, Source::File(path))
            }
            (None, Some(Valued { value: SshKey::Agent(public), origin })) => {
                (parsed(public, origin)?, Source::Agent(own_agent(origin)?))
            }
            (None, None) => return Ok(None),
        };
        let hosts = hosts(&settings.ssh.hosts, places)?;
        let signing = identity.map_or_else(Vec::new, |identity| identity.signing.clone());
        Ok(Some(Self { key, source, hosts, signing }))
    }

    /// Returns the variable that programs find the door by.
    pub(crate) fn environment() -> (&'static str, &'static str) {
        ("SSH_AUTH_SOCK", SOCKET)
    }

    /// Returns the door, for init to open.
    pub(crate) fn door() -> Door {
        Door::Unix(InsidePath::from_static(SOCKET))
    }

    /// Returns the key for the signer. Whether a commit is signed is left to `-S`, `commit.gpgsign` and
    /// the identity.
    pub(crate) fn git_settings(&self) -> Vec<Setting> {
        let setting = |key: &str, value: String| {
            let value = Some(value.into_bytes());
            Setting { key: key.to_owned(), value }
        };
        let mut settings = vec![
            setting("gpg.format", "ssh".to_owned()),
            setting("user.signingkey", format!("key::{}", self.key)),
        ];
        settings.extend_from_slice(&self.signing);
        settings
    }

    /// Returns the files that make ssh use the door.
    ///
    /// # Errors
    /// Returns no error: the paths are constants.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, RunError> {
        let known = known_hosts(&self.hosts);
        let file = |path: &str, content: Vec<u8>, mode| -> Result<Entry, PathError> {
            let place = Place::File { content, mode, keep: false };
            Ok(Entry { path: InsidePath::new(path)?, place })
        };
        let entries = [
            file("/etc/ssh/ssh_config", ssh_config(&self.hosts).into_bytes(), 0o444),
            file(&format!("{HOME}/.ssh/known_hosts"), known.into_bytes(), 0o444),
        ];
        entries.into_iter().collect::<Result<_, _>>().map_err(RunError::path)
    }

    /// Returns what serves the door. Reads the private key, so init must have been cloned.
    ///
    /// # Errors
    /// Returns an error for a key file that cannot be read, or is not the key that was announced.
    pub(crate) fn serve(
        self,
        listener: UnixListener,
        journal: Arc<dyn Journal>,
    ) -> Result<SshDoor, RunError> {
        let signer = match self.source {
            Source::File(path) => SshSigner::Held(Box::new(held(&path, &self.key)?)),
            Source::Agent(socket) => SshSigner::Agent(socket),
        };
        let config = SshConfig { key: self.key, signer, hosts: self.hosts, journal };
        Ok(SshDoor::new(listener, config))
    }
}

/// Returns the socket of the user's own ssh-agent.
fn own_agent(origin: &Origin) -> Result<PathBuf, RunError> {
    let socket = std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from);
    socket.filter(|path| path.is_absolute()).ok_or_else(|| {
        RunError::refused(
            format!("{origin} names a key in your ssh-agent, but SSH_AUTH_SOCK names no agent"),
            Some("start one with `eval $(ssh-agent)`, and add the key with ssh-add".to_owned()),
        )
    })
}

/// Returns the public half of a key file, which lies next to it; the private half is only looked at from
/// outside.
fn in_file(path: &Path, origin: &Origin) -> Result<SshPublicKey, RunError> {
    open_private(path)?;
    let mut public_half = path.as_os_str().to_owned();
    public_half.push(".pub");
    let public_half = Path::new(&public_half);
    let public = || -> Result<String, String> {
        let above = public_half.parent().ok_or("it has no directory")?;
        let above = open_directory(above).map_err(|errno| errno.to_string())?;
        let name = Path::new(public_half.file_name().ok_or("it has no name")?);
        let content = read_beneath(above, name)
            .map_err(|error| error.to_string())?
            .ok_or("the file does not exist")?;
        String::from_utf8(content.bytes).map_err(|_| "it is not text".to_owned())
    };
    let text = public().map_err(|error| {
        RunError::refused(
            format!(
                "cannot read {}, the public half of the key (by {origin}): {error}",
                public_half.display()
            ),
            Some(format!("write it with `ssh-keygen -y -f {0} > {0}.pub`", path.display())),
        )
    })?;
    text.parse().map_err(|error| {
        RunError::refused(format!("{} (by {origin}): {error}", public_half.display()), None)
    })
}

/// Returns a file that holds a private key has one reader, its owner, who is the caller.
fn open_private(path: &Path) -> Result<File, RunError> {
    let shown = path.display();
    let refused = |what: String, hint: Option<String>| Err(RunError::refused(what, hint));
    // One that is a pipe by now must not hold this process up.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = match rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), how) {
        Ok(file) => File::from(file),
        Err(errno) => return refused(format!("cannot read the SSH key {shown}: {errno}"), None),
    };
    let metadata = file.metadata().map_err(RunError::System)?;
    if !metadata.is_file() {
        return refused(format!("the SSH key {shown} is not a file"), None);
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refused(format!("the SSH key {shown} belongs to another user"), None);
    }
    if metadata.mode() & 0o077 != 0 {
        return refused(
            format!(
                "others than you may use the SSH key {shown}: its mode is {:o}",
                metadata.mode() & 0o7777
            ),
            Some(format!("run `chmod 600 {shown}`")),
        );
    }
    Ok(file)
}

fn held(path: &Path, public: &SshPublicKey) -> Result<SshPrivateKey, RunError> {
    let mut text = Zeroizing::new(String::with_capacity(LONGEST as usize));
    let read = open_private(path)?.take(LONGEST).read_to_string(&mut text);
    let named = |error: &dyn std::fmt::Display| {
        RunError::refused(format!("cannot use the SSH key {}: {error}", path.display()), None)
    };
    read.map_err(|error| named(&error))?;
    let private = SshPrivateKey::parse(&text).map_err(|error| named(&error))?;
    if private.public() != public {
        return Err(RunError::refused(
            format!("{0} and {0}.pub are halves of different keys", path.display()),
            Some(format!("write it again with `ssh-keygen -y -f {0} > {0}.pub`", path.display())),
        ));
    }
    Ok(private)
}

fn parsed(text: &str, origin: &Origin) -> Result<SshPublicKey, RunError> {
    text.parse().map_err(|error| RunError::refused(format!("{origin}: {error}"), None))
}

/// Returns the hosts with their keys: those of the settings, else what the user's own ssh knows, else
/// what is published.
fn hosts(rules: &[Valued<SshHostRule>], places: &Places) -> Result<Vec<SshHost>, RunError> {
    let user = rules
        .iter()
        .any(|rule| rule.value.known.is_empty())
        .then(|| known_to_user(places))
        .transpose()
        .map_err(RunError::System)?
        .unwrap_or_default();
    let host = |Valued { value: rule, origin }: &Valued<SshHostRule>| {
        let label = host_label(&rule.host.to_string(), rule.port);
        let keys = if rule.known.is_empty() {
            Some(host_keys(&user, &label))
                .filter(|keys| !keys.is_empty())
                // What the user has revoked counts here too.
                .unwrap_or_else(|| host_keys(&format!("{user}\n{PUBLISHED}"), &label))
        } else {
            rule.known.iter().map(|key| parsed(key, origin)).collect::<Result<_, _>>()?
        };
        if keys.is_empty() {
            return Err(RunError::refused(
                format!("no key is known of the host {label} (by {origin})"),
                Some(
                    "give its keys as known = [\"ssh-ed25519 AAAA…\"], or log in to it once with \
                     your own ssh"
                        .to_owned(),
                ),
            ));
        }
        let (user, hostbound) = (rule.user.clone(), rule.hostbound);
        Ok(SshHost { label, user, keys, hostbound })
    };
    rules.iter().map(host).collect()
}

/// Returns the files that ssh looks into by itself (ssh_config(5), `UserKnownHostsFile` and
/// `GlobalKnownHostsFile`), one after the other.
fn known_to_user(places: &Places) -> io::Result<String> {
    let own = places.home.join(".ssh");
    let files = [
        own.join("known_hosts"),
        own.join("known_hosts2"),
        PathBuf::from("/etc/ssh/ssh_known_hosts"),
        PathBuf::from("/etc/ssh/ssh_known_hosts2"),
    ];
    let mut all = String::new();
    for path in files {
        match fs::read(&path) {
            Ok(bytes) => all.push_str(&String::from_utf8_lossy(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                let what = format!("cannot read {}: {error}", path.display());
                return Err(io::Error::new(error.kind(), what));
            }
        }
        all.push('\n');
    }
    Ok(all)
}

fn known_hosts(hosts: &[SshHost]) -> String {
    let lines = hosts
        .iter()
        .flat_map(|host| host.keys.iter().map(move |key| format!("{} {key}\n", host.label)));
    lines.collect()
}

/// Writes a configuration of the door's key and known hosts alone, with nothing forwarded. Logins whose
/// signature names the
/// host key are what ssh prefers by itself (ssh_config(5), `PubkeyAuthentication`).
fn ssh_config(hosts: &[SshHost]) -> String {
    let mut text = String::new();
    for host in hosts {
        let name = host.label.trim_start_matches('[').split(']').next().unwrap_or_default();
        text.push_str(&format!("Host {name}\n    User {}\n", host.user));
    }
    text.push_str(&format!(
        "Host *\n    IdentityAgent {SOCKET}\n    IdentityFile none\n    \
         PubkeyAuthentication yes\n    PreferredAuthentications publickey\n    \
         StrictHostKeyChecking yes\n    UpdateHostKeys no\n    ForwardAgent no\n"
    ));
    text
}

#[cfg(test)]
mod tests;
