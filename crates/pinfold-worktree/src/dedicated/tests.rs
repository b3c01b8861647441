use std::path::Path;

use pinfold_policy::document::SettingsFile;
use pinfold_policy::settings::{FlagScalars, Flags, Layers};

use super::*;

/// Returns what becomes of a branch and a mode by flags, with this file of the user.
fn wants(
    branch: Option<&str>,
    mode: Option<WorkspaceMode>,
    file: &str,
) -> Result<Option<String>, String> {
    let user = SettingsFile { path: Path::new("config.toml"), bytes: file.as_bytes() };
    let worktree_branch = branch.map(|name| name.parse().unwrap());
    let scalars = FlagScalars { worktree_branch, workspace_mode: mode, ..FlagScalars::default() };
    let flags = Flags { scalars, ..Flags::default() };
    let layers = Layers { user: Some(user), flags, ..Layers::default() };
    let settings = Settings::resolve(layers).unwrap();
    let branch = wanted(&settings).map(|name| name.map(ToString::to_string));
    branch.map_err(|error| format!("{error}; {}", error.hint().unwrap()))
}

#[test]
fn a_dedicated_worktree_and_a_branch_need_each_other() {
    let dedicated = Some(WorkspaceMode::DedicatedWorktree);
    let in_file = "workspace_mode = \"dedicated_worktree\"";
    assert_eq!(wants(None, None, ""), Ok(None));
    for file in ["", in_file, "workspace_mode = \"scratch_mount\""] {
        assert_eq!(wants(Some("b"), None, file), Ok(Some("b".to_owned())), "{file}");
        assert_eq!(wants(Some("b"), dedicated, file), Ok(Some("b".to_owned())), "{file}");
    }
    let needs = |who| {
        format!(
            "workspace mode dedicated_worktree (by {who}) needs the name of a branch; \
             say --worktree-branch NAME"
        )
    };
    assert_eq!(wants(None, dedicated, ""), Err(needs("--workspace")));
    assert_eq!(wants(None, None, in_file), Err(needs("config.toml:1")));
    assert_eq!(
        wants(Some("b"), Some(WorkspaceMode::Overlay), ""),
        Err("--worktree-branch is for a worktree of its own, and workspace mode overlay makes \
             none; leave --workspace out, or say --workspace dedicated_worktree"
            .to_owned())
    );
}
