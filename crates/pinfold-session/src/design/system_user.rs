//! Sessions whose user is root by name in a system of their own.

use pinfold_boundary::{Entry, LaunchPlan};
use pinfold_policy::path::{InsidePath, PathError};
use pinfold_policy::settings::Settings;
use pinfold_rootfs::system::Stack;

use crate::outcome::RunError;
use crate::snapshot::by_name;

/// Returns the files that package managers need of a session. A build has them of its own.
///
/// # Errors
/// Returns no error: the paths are constants.
pub(super) fn entries(stack: Option<&Stack>) -> Result<Vec<Entry>, PathError> {
    match stack {
        Some(stack) if is_of_session(stack) => by_name::files(stack.over_host),
        _ => Ok(Vec::new()),
    }
}

/// Refuses root by name where the session could leave files outside of it: package managers set bits such as set-user-ID, with
/// which such a file would give others its owner's rights. Also with nested sandboxes, whose programs have capabilities.
///
/// # Errors
/// Returns the refusal.
pub(super) fn refuse_shared_files(
    stack: Option<&Stack>,
    plan: &LaunchPlan,
    settings: &Settings,
) -> Result<(), RunError> {
    if !stack.is_some_and(is_of_session) {
        return Ok(());
    }
    if plan.nested {
        let what = "snapshot.user is root, which nested sandboxes do not go with";
        return Err(RunError::refused(what, Some("choose one of them".to_owned())));
    }
    if let Some(socket) = settings.files.sockets.first() {
        let what = "snapshot.user is root, and the session reaches a program of this machine, which can pass it files";
        return Err(RunError::refused(what, Some(format!("do not grant {}", socket.value))));
    }
    if plan.leaves_nothing {
        return Ok(());
    }
    let what = "snapshot.user is root, and the session can write to directories of this machine";
    let hint = "use a view or an empty workspace (`--workspace overlay` or `scratch_mount`), and grant nothing for writing";
    Err(RunError::refused(what, Some(hint.to_owned())))
}

/// Returns the directories that package managers need of a session.
pub(crate) fn directories(stack: Option<&Stack>) -> Vec<InsidePath> {
    let needed = stack.filter(|stack| is_of_session(stack)).map(|_| by_name::DIRECTORIES);
    needed.into_iter().flatten().map(InsidePath::from_static).collect()
}

fn is_of_session(stack: &Stack) -> bool {
    stack.is_root && !stack.is_built()
}
