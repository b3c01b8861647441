//! `~/.pgpass`: lines of host, port, database, user and password (PostgreSQL's documentation, section 34.16).

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use pinfold_host::owned::{self, OwnedError};
use zeroize::Zeroizing;

use super::{AddressError, Host, Server};

/// The largest file of passwords, in bytes.
const LARGEST: u64 = 1 << 20;
/// What nobody but the owner may have.
const OTHERS: u32 = 0o077;

/// Reads a file of passwords, if it is there.
pub(super) fn read(path: &Path) -> Result<Option<Zeroizing<String>>, AddressError> {
    let Some(file) = owned::open(path)? else { return Ok(None) };
    let unreadable = |cause| OwnedError::Unreadable { path: path.to_owned(), cause };
    let mode = file.metadata().map_err(unreadable)?.mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(AddressError::Readable { path: path.to_owned(), mode });
    }
    let mut text = Zeroizing::new(String::new());
    file.take(LARGEST).read_to_string(&mut text).map_err(unreadable)?;
    Ok(Some(text))
}

/// Returns the password of the first line that is for a server, a database and a user.
pub(super) fn find(
    lines: &str,
    server: &Server,
    database: &str,
    user: &str,
) -> Option<Zeroizing<String>> {
    let port = server.port.to_string();
    let is_host = |field: &str| match &server.host {
        Host::Socket(path) => field == "localhost" || Path::new(field) == path,
        Host::Name(name) => field == name,
    };
    lines.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let [host, its_port, its_database, its_user, password] =
            <[Zeroizing<String>; 5]>::try_from(fields(line)).ok()?;
        let is = |field: &str, value: &str| field == "*" || field == value;
        let matches = (*host == "*" || is_host(&host))
            && is(&its_port, &port)
            && is(&its_database, database)
            && is(&its_user, user);
        matches.then_some(password)
    })
}

/// Returns the fields of a line: a backslash keeps the `:` or backslash after it.
fn fields(line: &str) -> Vec<Zeroizing<String>> {
    let mut fields = vec![Zeroizing::new(String::new())];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let kept = match letter {
            // What follows the password belongs to it, as libpq has it.
            ':' if fields.len() < 5 => {
                fields.push(Zeroizing::new(String::new()));
                continue;
            }
            '\\' => letters.next(),
            letter => Some(letter),
        };
        if let (Some(field), Some(letter)) = (fields.last_mut(), kept) {
            field.push(letter);
        }
    }
    fields
}
