//! Accounts of this machine.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::refusal::Refusal;

/// The account database (passwd(5)).
const DATABASE: &str = "/etc/passwd";
/// Programs that look up accounts of a directory service (getent(1)), which this program has no library for.
const LOOKUPS: [&str; 2] = ["/usr/bin/getent", "/run/current-system/sw/bin/getent"];
/// The longest name (`LOGIN_NAME_MAX`).
const LONGEST: usize = 255;

/// One account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    /// Its user id.
    pub uid: u32,
    /// The id of its primary group.
    pub gid: u32,
    /// Its home directory.
    pub home: PathBuf,
}

impl Account {
    /// Returns the account of a user id.
    ///
    /// # Errors
    /// Returns that there is no such account.
    pub fn of_id(uid: u32) -> Result<Self, Refusal> {
        find(&uid.to_string(), |account| account.uid == uid)
            .ok_or_else(|| Refusal::plain(format!("user id {uid} has no account")))
    }

    /// Returns the account of this name.
    ///
    /// # Errors
    /// Returns that there is no such account.
    pub fn of_name(name: &str) -> Result<Self, Refusal> {
        find(name, |account| account.name == name).ok_or_else(|| {
            Refusal::new(
                format!("user {name} has no account"),
                format!("`useradd --system {name}`"),
            )
        })
    }
}

/// Returns whether a text can be the name of an account, and means nothing else to systemd
/// (systemd.exec(5), `User=`).
pub fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    begins && text.len() <= LONGEST && text.bytes().all(is_letter)
}

fn find(key: &str, is_meant: impl Fn(&Account) -> bool) -> Option<Account> {
    local(&is_meant).or_else(|| look_up(key).lines().filter_map(parse).find(is_meant))
}

/// Returns the first such account of the database, without a program that looks further.
pub(crate) fn local(is_meant: impl Fn(&Account) -> bool) -> Option<Account> {
    let text = std::fs::read_to_string(DATABASE).ok()?;
    text.lines().filter_map(parse).find(is_meant)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the runner has no launcher: two programs by their paths"
)]
fn look_up(key: &str) -> String {
    let ask = |program: &&str| {
        let mut lookup = Command::new(program);
        lookup.args(["passwd", "--", key]).env_clear().current_dir("/");
        let output = lookup.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        String::from_utf8(output.stdout).ok()
    };
    LOOKUPS.iter().find_map(ask).unwrap_or_default()
}

fn parse(line: &str) -> Option<Account> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| is_name(name))?.to_owned();
    let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
    let home = PathBuf::from(fields.nth(1)?);
    home.is_absolute().then_some(Account { name, uid, gid, home })
}

#[cfg(test)]
mod tests;
