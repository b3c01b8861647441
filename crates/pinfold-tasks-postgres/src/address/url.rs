//! The parts of a URL (PostgreSQL's documentation, section 34.1.1.2).

use zeroize::Zeroizing;

use super::{AddressError, TlsMode, plain};

/// The port of a server that names none.
pub(super) const PORT: u16 = 5432;

/// The parameters that are known.
pub(super) const PARAMETERS: [&str; 7] =
    ["host", "port", "user", "password", "dbname", "sslmode", "sslrootcert"];

/// What a URL says.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) user: Option<String>,
    pub(super) password: Option<Zeroizing<String>>,
    pub(super) database: Option<String>,
    pub(super) tls: Option<TlsMode>,
    pub(super) roots: Option<String>,
}

impl Parts {
    pub(super) fn read(text: &str) -> Result<Self, AddressError> {
        let (_, rest) = text.split_once("://").ok_or(AddressError::Url("it has no scheme"))?;
        if rest.contains('#') {
            return Err(AddressError::Url("it has a fragment"));
        }
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        // So would a question mark make it a parameter, whose name is shown.
        if parameters.contains('@') {
            return Err(AddressError::Url("there is an @ after the ?"));
        }
        // A slash in a password would make the end of it a part of the database's name, which is shown.
        if database.contains(['@', '/']) {
            return Err(AddressError::Url("there is an @ or / after the host"));
        }
        let mut parts = Self::default();
        let hosts = match authority.rsplit_once('@') {
            Some((login, hosts)) => {
                parts.login(login)?;
                hosts
            }
            None => authority,
        };
        parts.database = filled(decoded(database)?);
        let mut hosts: Vec<(String, Option<u16>)> =
            hosts.split(',').map(host_and_port).collect::<Result<_, _>>()?;
        let mut names = None;
        let mut ports = None;
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) =
                parameter.split_once('=').ok_or(AddressError::Url("a parameter has no value"))?;
            let value = decoded(value)?;
            match name {
                "host" => names = Some(value),
                "port" => ports = Some(value),
                "user" => parts.user = filled(value),
                "password" => parts.password = filled(value).map(Zeroizing::new),
                "dbname" => parts.database = filled(value),
                "sslmode" => parts.tls = Some(mode(&value)?),
                "sslrootcert" => parts.roots = filled(value),
                _ => return Err(AddressError::Parameter(plain(name))),
            }
        }
        if let Some(names) = names {
            hosts = names.split(',').map(|name| (name.to_owned(), None)).collect();
        }
        if let Some(ports) = ports {
            let ports: Vec<u16> = ports.split(',').map(port).collect::<Result<_, _>>()?;
            if ports.len() != 1 && ports.len() != hosts.len() {
                return Err(AddressError::Url("there are not as many ports as hosts"));
            }
            for (index, host) in hosts.iter_mut().enumerate() {
                host.1 = ports.get(index).or(ports.first()).copied();
            }
        }
        parts.hosts = hosts.into_iter().map(|(host, port)| (host, port.unwrap_or(PORT))).collect();
        Ok(parts)
    }

    fn login(&mut self, login: &str) -> Result<(), AddressError> {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        self.user = filled(decoded(user)?);
        self.password = filled(decoded(password)?).map(Zeroizing::new);
        Ok(())
    }
}

fn host_and_port(text: &str) -> Result<(String, Option<u16>), AddressError> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or(AddressError::Url("a [ is not closed"))?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(digits) if !digits.is_empty() => Some(port(digits)?),
        Some(_) => None,
        None if rest.is_empty() => None,
        None => return Err(AddressError::Url("there is something between host and port")),
    };
    Ok((decoded(host)?, port))
}

fn port(digits: &str) -> Result<u16, AddressError> {
    match digits.parse() {
        Ok(port) if port != 0 => Ok(port),
        _ => Err(AddressError::Url("a port is not one")),
    }
}

fn mode(word: &str) -> Result<TlsMode, AddressError> {
    match word {
        "disable" => Ok(TlsMode::Disable),
        "require" => Ok(TlsMode::Require),
        "verify-ca" => Ok(TlsMode::VerifyCa),
        "verify-full" => Ok(TlsMode::VerifyFull),
        "prefer" => Err(AddressError::Unprotected("prefer")),
        "allow" => Err(AddressError::Unprotected("allow")),
        _ => Err(AddressError::Url("its sslmode is not known")),
    }
}

fn filled(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Returns a part with its `%XX` as the bytes that they stand for (RFC 3986, section 2.1).
fn decoded(text: &str) -> Result<String, AddressError> {
    const WRONG: AddressError = AddressError::Url("a % is not followed by two hex digits");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || {
                    let digit = char::from(rest.next().ok_or(WRONG)?).to_digit(16);
                    digit.and_then(|digit| u8::try_from(digit).ok()).ok_or(WRONG)
                };
                digit()? << 4 | digit()?
            }
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| AddressError::Url("what its % stand for is not UTF-8"))?;
    // Nothing of the protocol can carry it.
    if text.contains('\0') { Err(AddressError::Url("it has a NUL")) } else { Ok(text) }
}
