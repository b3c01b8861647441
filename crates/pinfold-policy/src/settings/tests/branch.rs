//! Tests of names of branches.

use super::*;

#[test]
fn names_that_git_takes_are_names() {
    for name in ["a", "a/b", "feat/x-1", "ä", "a.b", "a@b", "@a", "a{b}", "x/-y"] {
        assert_eq!(name.parse::<BranchName>().unwrap().as_str(), name);
    }
    let name: BranchName = "feat/x/y".parse().unwrap();
    assert_eq!(
        (name.flat().as_str(), name.reference().as_str()),
        ("feat-x-y", "refs/heads/feat/x/y")
    );
}

#[test]
fn names_that_git_refuses_or_reads_otherwise_are_none() {
    let names = [
        "", "-", "-b", "--help", "HEAD", "@", "@{-1}", "a@{1}", "..", "a..b", "../a", "a/../b",
        ".a", "a/.b", "a.", "a./b", "a.lock", "a.lock/b", "/a", "a/", "a//b", "a b", "a\tb",
        "a\nb", "a\0b", "a\u{7f}", "a\u{85}b", "a~1", "a^", "a:b", "a?", "a*", "a[b", "a\\b",
    ];
    for name in names {
        let error = name.parse::<BranchName>().unwrap_err().to_string();
        assert!(error.contains("is not the name of a branch: "), "{name:?}");
        assert!(!error.contains(|c: char| c.is_control()), "{name:?}");
    }
}

#[test]
fn a_branch_means_a_worktree_of_its_own_whatever_the_files_say() {
    let branch = Some("b".parse().unwrap());
    let mut case = Case {
        user: "workspace_mode = \"overlay\"",
        ..project(r#"{"workspaceMode": "scratch_mount"}"#)
    };
    case.flags.scalars.worktree_branch = branch;
    let settings = case.resolve().unwrap();
    assert_eq!(settings.scalars.workspace_mode.value, WorkspaceMode::DedicatedWorktree);
    assert_eq!(shown(&settings.scalars.worktree_branch), "b by --worktree-branch");
    case.flags.scalars.workspace_mode = Some(WorkspaceMode::Overlay);
    assert_eq!(case.resolve().unwrap().scalars.workspace_mode.value, WorkspaceMode::Overlay);
}
