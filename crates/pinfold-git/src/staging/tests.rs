use std::fs;

use pinfold_host::anchor::Anchor;
use pinfold_host::launcher::{HostProgram, Launcher};
use pinfold_host::wrappers::Wrappers;

use super::{Locked, Staging, StagingError};
use crate::host_git::{GitError, HostGit};

/// A repository with a commit of two files, of which the second one is not staged.
struct Case {
    dir: tempfile::TempDir,
    program: HostProgram,
    git: Anchor,
}

impl Case {
    fn new() -> Option<Self> {
        let launcher = Launcher::new(Wrappers::none());
        let Ok(program) = launcher.find("git", &[]) else {
            eprintln!("skipped: there is no git");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let script = format!(
            "cd '{}'; git init -q; git config user.name T; git config user.email t@example.org; \
             echo a >a; echo b >b; git add .; git commit -qm both; git rm -q --cached b",
            dir.path().display()
        );
        let argv = ["/bin/sh", "-ec", &script].map(str::to_owned);
        let made = launcher.run_to_end(&argv, &[("GIT_CONFIG_GLOBAL", "/dev/null")], None);
        assert_eq!(made.unwrap().code, Some(0));
        let git = Anchor::of(&dir.path().canonicalize().unwrap().join(".git")).unwrap();
        Some(Self { dir, program, git })
    }

    fn git(&self) -> HostGit<'_> {
        HostGit { program: &self.program, directory: &self.git }
    }

    fn staged(&self) -> String {
        self.git().run(&["ls-files"], None).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let git = self.dir.path().join(".git");
        let names = |path| fs::read_dir(path).unwrap().map(|it| it.unwrap().file_name());
        let all = names(git.clone()).chain(names(git.join("objects")));
        let all = all.map(|name| name.into_string().unwrap());
        all.filter(|name| name.contains("tmp_") || name.ends_with(".lock")).collect()
    }
}

#[test]
fn branch_moves_after_the_index_and_a_branch_that_stays_takes_it_back() {
    let Some(case) = Case::new() else { return };
    let staging = Staging::copy(case.git(), &case.git, "s").unwrap();
    staging.reset("HEAD").unwrap();
    let said = staging.install(|| {
        // A kill here leaves the changes staged: no later commit takes them back.
        assert_eq!(case.staged(), "a\nb\n");
        Err(GitError::Failed("it moved".to_owned()))
    });
    assert_eq!(said.unwrap_err().to_string(), "it moved");
    assert_eq!((case.staged(), case.names()), ("a\n".to_owned(), Vec::new()));
    let staging = Staging::make(case.git(), &case.git, "s", Locked::Throughout).unwrap();
    staging.reset("HEAD").unwrap();
    staging.install(|| Ok(())).unwrap();
    assert_eq!((case.staged(), case.names()), ("a\nb\n".to_owned(), Vec::new()));
}

#[test]
fn index_that_was_missing_is_missing_again_if_the_branch_stays() {
    let Some(case) = Case::new() else { return };
    let index = case.dir.path().join(".git/index");
    fs::remove_file(&index).unwrap();
    let staging = Staging::copy(case.git(), &case.git, "s").unwrap();
    staging.reset("HEAD").unwrap();
    staging.install(|| Err(GitError::Failed(String::new()))).unwrap_err();
    assert!(!index.exists());
}

#[test]
fn everything_that_a_kill_left_is_removed_by_the_next_attempt() {
    let Some(case) = Case::new() else { return };
    let left = |session: &str| {
        let git = case.dir.path().join(".git");
        let name = format!("tmp_pinfold_index_{session}");
        fs::write(git.join("index.lock"), &name).unwrap();
        // What git is killed with leaves its own lock.
        for file in [name.clone(), format!("{name}.lock")] {
            fs::write(git.join("objects").join(file), "half").unwrap();
        }
    };
    left("s");
    let staging = Staging::copy(case.git(), &case.git, "s").unwrap();
    assert!(staging.tree().is_some());
    staging.reset("HEAD").unwrap();
    drop(staging);
    assert_eq!(case.names(), Vec::<String>::new());
    // Of another session nothing is.
    left("other");
    let staging = Staging::copy(case.git(), &case.git, "s").unwrap();
    assert!(matches!(staging.install(|| Ok(())), Err(StagingError::Busy)));
    assert_eq!(case.names().len(), 3);
}
