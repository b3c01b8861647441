//! Sandboxes that programs make inside, and what would not hold with them: names that must stay hidden, and memory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use pinfold_boundary::{Inside, Mask};
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::Settings;
use pinfold_worktree::workspace::Workspace;

use crate::outcome::RunError;

/// Names that an error lists.
const MOST_NAMED: usize = 3;

/// Refuses nested sandboxes where a name is hidden in a live directory. Linux takes a
/// mask off in every mount namespace when the host saves the file, and it is put back only in the
/// session's first one: a namespace that a program made would show the new file until it ends. A mask in
/// a view stays, and so does one that a kernel of the sandbox's own knows nothing of.
///
/// # Errors
/// Returns the refusal, with the names.
pub(super) fn refuse_live_masks(
    masks: &[Mask],
    view: Option<&Path>,
    workspace: &Workspace,
) -> Result<(), RunError> {
    let root = workspace.root.as_path();
    // A link holds no secret itself (`pinfold hide`). What it leads to has a mask of its own.
    let is_live =
        |path: &&Path| !view.is_some_and(|view| path.starts_with(view)) && !path.is_symlink();
    let hidden = masks.iter().filter(|mask| mask.kind.hides());
    let live: Vec<&Path> =
        hidden.map(|mask| Path::new(OsStr::from_bytes(&mask.path))).filter(is_live).collect();
    let Some(first) = live.first() else { return Ok(()) };
    let shown = |path: &Path| Escaped(path.strip_prefix(root).unwrap_or(path)).to_string();
    let names: Vec<String> = live.iter().take(MOST_NAMED).map(|path| shown(path)).collect();
    let more = match live.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!(
        "with nested sandboxes, {}{more} cannot be kept hidden once the host saves it",
        names.join(", ")
    );
    let hint = if live.iter().all(|path| path.starts_with(root)) {
        format!(
            "work in a view (`--workspace overlay`), or move the secret out of the workspace \
             (`pinfold hide {}`)",
            shown(first)
        )
    } else {
        "grant a directory that holds no hidden names".to_owned()
    };
    Err(RunError::refused(what, Some(hint)))
}

/// Refuses nested sandboxes with a limit of memory that somebody chose and no control group bounds: who can mount a file system
/// in memory fills it without any process of its own growing, where no watch finds all of it.
///
/// # Errors
/// Returns the refusal.
pub(super) fn refuse_loose_memory(settings: &Settings, inside: &Inside) -> Result<(), RunError> {
    let Some(memory) = &settings.limits.memory else { return Ok(()) };
    if inside.enforced.memory || settings.scalars.allow_weaker.value || !memory.origin.is_chosen() {
        return Ok(());
    }
    let what = format!(
        "resources.memory, {memory}, cannot be enforced with nested sandboxes: no control group can be made"
    );
    let hint = "run under `systemd-run --user --scope -p Delegate=yes`, or add --allow-weaker";
    Err(RunError::refused(what, Some(hint.to_owned())))
}
