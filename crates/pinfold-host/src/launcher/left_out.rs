//! Directories of which pinfold's own processes run no program by name either.
//!
//! A process that pinfold starts has the caller's `PATH`, but works elsewhere: a session of a server, an attempt of a
//! worker. It does not know the workspace whose activated environment is on that `PATH`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The variable that names them, as `PATH` names directories. With it a caller can only leave out more.
const VARIABLE: &str = "PINFOLD_LEFT_OUT";

static FIND: OnceLock<fn() -> Vec<PathBuf>> = OnceLock::new();
static LEFT_OUT: OnceLock<OsString> = OnceLock::new();

/// Has the processes of pinfold's own that this one starts leave out these directories, which are looked up when the first one is
/// started. Only the first call counts.
pub fn leave_out_in_children(directories: fn() -> Vec<PathBuf>) {
    let _ = FIND.set(directories);
}

fn said(directories: &[PathBuf]) -> OsString {
    // What has a colon in its name, `PATH` cannot name.
    let can_be_said = |path: &&PathBuf| !path.as_os_str().as_bytes().contains(&b':');
    let said = directories.iter().filter(can_be_said).map(|path| path.as_os_str());
    said.collect::<Vec<_>>().join(":".as_ref())
}

/// Returns the directories that the process leaves out that started this one.
#[must_use]
pub fn left_out_by_parent() -> Vec<PathBuf> {
    let said = std::env::var_os(VARIABLE).unwrap_or_default();
    std::env::split_paths(&said).filter(|path| path.is_absolute()).collect()
}

/// Gives a process of pinfold's own the directories.
pub(super) fn give(command: &mut Command) {
    let find = || FIND.get().map(|find| said(&find())).unwrap_or_default();
    let directories = LEFT_OUT.get_or_init(find);
    if !directories.is_empty() {
        command.env(VARIABLE, directories);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_of_pinfolds_own_gets_what_this_one_leaves_out() {
        leave_out_in_children(|| vec!["/a b".into(), "/with:colon".into(), "/c".into()]);
        let mut command = crate::process::command("true");
        give(&mut command);
        let given: Vec<_> = command.get_envs().collect();
        assert_eq!(given, [(VARIABLE.as_ref(), Some("/a b:/c".as_ref()))]);
    }
}
