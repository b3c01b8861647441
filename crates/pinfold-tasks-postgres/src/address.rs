//! Where a store is: `postgresql://user@host/database?sslmode=verify-full`.

mod password_file;
mod url;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use pinfold_host::directories::{Places, account_name};
use pinfold_host::owned::OwnedError;
use pinfold_policy::path::{Escaped, is_plain};
use zeroize::Zeroizing;

/// The variable with a password,
pub(crate) const PASSWORD_VARIABLE: &str = "PGPASSWORD";
/// and the one that names a file of passwords.
pub(crate) const PASSWORD_FILE_VARIABLE: &str = "PGPASSFILE";

/// Where Debian and Fedora have the server's socket. PostgreSQL's own default is `/tmp`, where any user could wait for a
/// password.
const SOCKETS: &str = "/var/run/postgresql";

/// The address of a store, and what its user logs in with. No form of it shows the password.
#[derive(Clone)]
pub struct Address {
    /// Where servers are, in the order in which they are tried.
    pub(crate) servers: Vec<Server>,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) tls: TlsMode,
    /// The file with the authorities that vouch for the server; those of the system if none.
    pub(crate) roots: Option<PathBuf>,
}

/// A server, and what to log in there with.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) password: Option<Zeroizing<String>>,
}

/// What a server is reached by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// The directory of its socket.
    Socket(PathBuf),
    /// A name or an address.
    Name(String),
}

/// How a connection is protected, by libpq's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsMode {
    /// Not at all.
    Disable,
    /// Nobody can listen, but the server may be anybody.
    Require,
    /// An authority vouches for the server, whatever its name is.
    VerifyCa,
    /// An authority vouches for the server's name.
    VerifyFull,
}

/// Why an address cannot be used. It repeats no part of the URL that may hold a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It is not an address.
    #[error("invalid address of a PostgreSQL database: {0}")]
    Url(&'static str),
    /// It has a parameter that is not known here.
    #[error("unknown parameter \"{0}\" in the address of a PostgreSQL database")]
    Parameter(String),
    /// `prefer` and `allow` go on without protection if somebody in between asks for it.
    #[error("sslmode={0} does not protect a connection")]
    Unprotected(&'static str),
    /// Nobody says who logs in.
    #[error("the address of the PostgreSQL database names no user, and this one has no name")]
    NoUser,
    /// The variable with the password holds no text.
    #[error("{PASSWORD_VARIABLE} is not UTF-8")]
    Password,
    /// The file of passwords cannot be used.
    #[error(transparent)]
    PasswordFile(#[from] OwnedError),
    /// Others can read the file of passwords.
    #[error("{} can be read by other users (mode {mode:04o})", Escaped(.path))]
    Readable { path: PathBuf, mode: u32 },
}

impl AddressError {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Url(_) | Self::NoUser => Some(
                "such as postgresql://user@host/database; what is special in a URL is written as %XX"
                    .to_owned(),
            ),
            Self::Parameter(_) => Some(format!("known: {}", url::PARAMETERS.join(", "))),
            Self::Unprotected(_) => {
                Some("say verify-full, verify-ca, require or disable".to_owned())
            }
            Self::Password => None,
            Self::PasswordFile(error) => error.hint(),
            Self::Readable { path, .. } => Some(format!("chmod 600 {}", Escaped(path))),
        }
    }
}

impl Address {
    /// Returns whether a text is meant as an address of this kind.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme))
    }

    /// Reads an address. A password that it lacks comes from `PGPASSWORD` or the file of passwords.
    ///
    /// # Errors
    /// Returns an error for a URL that is wrong or not protected, or a file of passwords that others can read.
    pub fn parse(text: &str, places: &Places) -> Result<Self, AddressError> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        // Another password is not what was meant.
        let password = set(PASSWORD_VARIABLE)
            .map(|value| value.into_string().map(Zeroizing::new))
            .transpose()
            .map_err(|_| AddressError::Password)?;
        let file = set(PASSWORD_FILE_VARIABLE)
            .map(PathBuf::from)
            .unwrap_or_else(|| places.home.join(".pgpass"));
        let mut address = Self::of_url(text, &places.home)?;
        for server in &mut address.servers {
            server.password = server.password.take().or_else(|| password.clone());
        }
        if address.servers.iter().any(|server| server.password.is_none())
            && let Some(lines) = password_file::read(&file)?
        {
            let (database, user) = (&address.database, &address.user);
            for server in address.servers.iter_mut().filter(|server| server.password.is_none()) {
                server.password = password_file::find(&lines, server, database, user);
            }
        }
        Ok(address)
    }

    /// Returns whether a URL has a password in it.
    pub(crate) fn has_password(text: &str) -> Result<bool, AddressError> {
        Ok(Self::is_meant(text) && url::Parts::read(text)?.password.is_some())
    }

    /// Reads an address without looking for a password elsewhere.
    pub(crate) fn of_url(text: &str, home: &Path) -> Result<Self, AddressError> {
        if !Self::is_meant(text) {
            return Err(AddressError::Url("it does not begin with postgresql://"));
        }
        let parts = url::Parts::read(text)?;
        let user = parts.user.or_else(account_name).ok_or(AddressError::NoUser)?;
        let mut servers: Vec<Server> = Vec::new();
        for (host, port) in parts.hosts {
            let host = match host {
                host if host.is_empty() => Host::Socket(SOCKETS.into()),
                host if host.starts_with('/') => Host::Socket(host.into()),
                host => Host::Name(host),
            };
            servers.push(Server { host, port, password: parts.password.clone() });
        }
        // libpq's file, if the user has one (libpq, section 34.19.1).
        let usual = || Some(home.join(".postgresql/root.crt")).filter(|path| path.exists());
        let roots = match parts.roots.as_deref() {
            Some("system") => None,
            Some(path) => Some(PathBuf::from(path)),
            None => usual(),
        };
        let tls = match parts.tls {
            // As libpq has it: who names an authority wants it to vouch for the server.
            Some(TlsMode::Require) if parts.roots.is_some() => TlsMode::VerifyCa,
            Some(mode) => mode,
            None if servers.iter().all(|server| server.host.is_local()) => TlsMode::Disable,
            None => TlsMode::VerifyFull,
        };
        let database = parts.database.unwrap_or_else(|| user.clone());
        Ok(Self { servers, user, database, tls, roots })
    }
}

impl Host {
    /// Returns whether the server is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Socket(_) => true,
            Self::Name(name) => {
                let address = name.parse::<IpAddr>();
                name.eq_ignore_ascii_case("localhost")
                    || address.is_ok_and(|address| address.is_loopback())
            }
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => Escaped(path).fmt(f),
            Self::Name(name) => plain(name).fmt(f),
        }
    }
}

impl fmt::Display for Address {
    /// Shows the database and its servers: `"tasks" at db.example.com`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" at ", plain(&self.database))?;
        for (index, server) in self.servers.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", server.host)?;
            if server.port != url::PORT {
                write!(f, ":{}", server.port)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// Returns a text of somebody else's without what drives a terminal, and not all of a long one.
pub(crate) fn plain(text: &str) -> String {
    const LONGEST: usize = 500;
    let letters = text.chars().take(LONGEST);
    letters.map(|letter| if is_plain(letter) { letter } else { ' ' }).collect()
}

#[cfg(test)]
mod tests;
