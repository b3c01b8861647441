//! Directories of which pinfold's own processes run no program by name either.
//!
//! A process that pinfold starts has the caller's `PATH`, but works elsewhere: a session of a server, an attempt of a
//! worker. It does not know the workspace whose activated environment is on that `PATH`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The variable that names them, as `PATH` names directories, with `%3A` for a colon and `%25` for a percent sign. With it
/// a caller can only leave out more.
const VARIABLE: &str = "PINFOLD_LEFT_OUT";

static FIND: OnceLock<fn() -> Vec<PathBuf>> = OnceLock::new();
static LEFT_OUT: OnceLock<OsString> = OnceLock::new();

/// Has the processes of pinfold's own that this one starts leave out these directories, which are looked up when the first one is
/// started. Only the first call counts.
pub fn leave_out_in_children(directories: fn() -> Vec<PathBuf>) {
    let _ = FIND.set(directories);
}

/// What a name has instead of a byte of its own.
const ESCAPES: [(u8, &[u8]); 2] = [(b'%', b"%25"), (b':', b"%3A")];

fn written(directories: &[PathBuf]) -> OsString {
    let escaped = |byte: &u8| match ESCAPES.iter().find(|(plain, _)| plain == byte) {
        Some((_, escape)) => escape.to_vec(),
        None => vec![*byte],
    };
    let path = |path: &PathBuf| -> Vec<u8> {
        path.as_os_str().as_bytes().iter().flat_map(escaped).collect()
    };
    let paths: Vec<Vec<u8>> = directories.iter().map(path).collect();
    OsString::from_vec(paths.join(&b':'))
}

fn read(written: &OsStr) -> Vec<PathBuf> {
    let path = |mut rest: &[u8]| {
        let mut path = Vec::new();
        while let [byte, others @ ..] = rest {
            let escape = ESCAPES.iter().find(|(_, escape)| rest.starts_with(escape));
            path.push(escape.map_or(*byte, |(plain, _)| *plain));
            rest = escape.map_or(others, |(_, escape)| &rest[escape.len()..]);
        }
        PathBuf::from(OsString::from_vec(path))
    };
    let paths = written.as_bytes().split(|byte| *byte == b':').map(path);
    paths.filter(|path| path.is_absolute()).collect()
}

/// Returns the directories that the process leaves out that started this one.
#[must_use]
pub fn left_out_by_parent() -> Vec<PathBuf> {
    std::env::var_os(VARIABLE).map_or_else(Vec::new, |written| read(&written))
}

/// Gives a process of pinfold's own the directories.
pub(super) fn give(command: &mut Command) {
    let find = || FIND.get().map(|find| written(&find())).unwrap_or_default();
    let directories = LEFT_OUT.get_or_init(find);
    if !directories.is_empty() {
        command.env(VARIABLE, directories);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_any_name_are_read_as_they_were_written() {
        let all = ["/a:b", "/50%", "/%3A%25", "/:", "/c"].map(PathBuf::from);
        assert_eq!(read(&written(&all)), all);
        let raw = PathBuf::from(OsString::from_vec(b"/\xff:%".to_vec()));
        assert_eq!(read(&written(std::slice::from_ref(&raw))), [raw]);
        assert_eq!(read("/w/bin::relative:/x%zz".as_ref()), ["/w/bin", "/x%zz"].map(PathBuf::from));
    }

    #[test]
    fn process_of_pinfolds_own_gets_what_this_one_leaves_out() {
        leave_out_in_children(|| vec!["/a b".into(), "/with:colon".into(), "/c".into()]);
        let mut command = crate::process::command("true");
        give(&mut command);
        let given: Vec<_> = command.get_envs().collect();
        assert_eq!(given, [(VARIABLE.as_ref(), Some("/a b:/with%3Acolon:/c".as_ref()))]);
    }
}
