//! What somebody may have prepared for a set-up, which works with root's rights: links and directories where it writes, and
//! accounts under the names that it uses.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pinfold_runner::{Refusal, installed};

use crate::machine::Machine;

/// Shells of accounts that cannot log in.
const NO_SHELLS: [&str; 2] = ["nologin", "false"];
/// The first id of an account that is no system's (login.defs(5), `UID_MIN`).
const FIRST_USER: u32 = 1000;

/// Checks that nobody but root can replace what lies in a directory, or will, on the way from the root directory to there.
///
/// # Errors
/// Returns which directory it is, and what is wrong with it.
pub(crate) fn check_directory(machine: &Machine, path: &Path) -> Result<(), Refusal> {
    let all: Vec<&Path> = path.ancestors().collect();
    for above in all.into_iter().rev() {
        let Some(found) = look(machine, above)? else { return Ok(()) };
        // An administrator's link, as on a machine whose /var lies elsewhere.
        let is_roots_link = found.is_symlink() && found.uid() == machine.owner()?;
        if is_roots_link {
            let to = installed::canonical(above);
            if to != above {
                check_directory(machine, &to)?;
                continue;
            }
        }
        let wrong = if !found.is_dir() {
            Some("is no directory")
        } else if found.uid() != machine.owner()? {
            Some("does not belong to root")
        } else {
            let mode = found.permissions().mode();
            let others = if mode & 0o1000 == 0 { 0o022 } else { 0o002 };
            (mode & others != 0).then_some("can be written to by others than root")
        };
        if let Some(wrong) = wrong {
            let hint = "what is written there must be root's; look who made it, and put it right";
            return Err(Refusal::new(format!("{} {wrong}", above.display()), hint));
        }
    }
    Ok(())
}

/// Checks a directory of a service user's, if it is there.
///
/// # Errors
/// Returns that it is something else, or somebody else's.
pub(crate) fn check_private(machine: &Machine, path: &Path, owner: &str) -> Result<(), Refusal> {
    let Some(found) = look(machine, path)? else { return Ok(()) };
    let shown = path.display();
    // A user that is still to be made owns nothing.
    let is_owners = machine.has_user(owner)? && machine.ids(owner)?.0 == found.uid();
    if found.is_dir() && is_owners && found.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(Refusal::new(
        format!("{shown} is there, and is no directory of {owner}'s alone"),
        format!(
            "look what it is, and move it away, or `chown {owner} {shown}` and `chmod 700 {shown}`"
        ),
    ))
}

/// Checks an account that is there under the name of a service user, and that no set-up made. Sessions would be that user.
///
/// # Errors
/// Returns that it is root, a host user's, or one who can log in.
pub(crate) fn check_account(
    machine: &Machine,
    name: &str,
    host_users: &[(String, Vec<String>)],
) -> Result<(), Refusal> {
    let (id, _) = machine.ids(name)?;
    let mut is_host_users = false;
    for (user, _) in host_users {
        is_host_users |= machine.ids(user)?.0 == id;
    }
    let shell = machine.shell(name)?;
    let shell = Path::new(&shell).file_name().unwrap_or_default();
    let can_log_in = id >= FIRST_USER && !NO_SHELLS.iter().any(|no| shell == *no);
    let what = match () {
        () if id == 0 => "is root",
        () if is_host_users => "has the id of a host user",
        () if can_log_in => "can log in",
        () => return Ok(()),
    };
    Err(Refusal::new(
        format!("there is a user {name} already, who {what}: sessions would run as that user"),
        "choose another name with --user, or give the host user another `user` in the policy",
    ))
}

fn look(machine: &Machine, path: &Path) -> Result<Option<Metadata>, Refusal> {
    let place: PathBuf = machine.at_path(path);
    match fs::symlink_metadata(place) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Refusal::plain(format!("{}: {error}", path.display()))),
    }
}
