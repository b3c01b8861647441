use std::time::{Duration, Instant};
use std::{fs, thread};

use pinfold_host::anchor::Anchor;
use pinfold_host::launcher::{HostProgram, Launcher};
use pinfold_host::wrappers::Wrappers;
use tempfile::TempDir;

use super::HostGit;

/// A bare repository.
struct Bare {
    program: HostProgram,
    directory: Anchor,
    _top: TempDir,
}

impl Bare {
    /// Makes one, if there is a git.
    fn new() -> Option<Self> {
        let launcher = Launcher::new(Wrappers::none());
        let Ok(program) = launcher.find("git", &[]) else {
            eprintln!("skipped: there is no git");
            return None;
        };
        let top = tempfile::tempdir().unwrap();
        let path = top.path().canonicalize().unwrap();
        let argv =
            [program.path().to_str().unwrap(), "init", "-q", "--bare", path.to_str().unwrap()];
        assert_eq!(launcher.run_to_end(&argv, &[], None).unwrap().code, Some(0));
        Some(Self { program, directory: Anchor::of(&path).unwrap(), _top: top })
    }
}

/// The state in which git has a worktree for an instant.
#[test]
fn command_waits_for_a_worktree_that_another_git_makes() {
    let launcher = Launcher::new(Wrappers::none());
    let Ok(program) = launcher.find("git", &[]) else {
        return eprintln!("skipped: there is no git");
    };
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let argv = [program.path().to_str().unwrap(), "init", "-q", top.to_str().unwrap()];
    assert_eq!(launcher.run_to_end(&argv, &[], None).unwrap().code, Some(0));
    let own = top.join(".git/worktrees/other");
    fs::create_dir_all(&own).unwrap();
    for (name, content) in [("locked", "initializing"), ("gitdir", "/x/.git\n"), ("commondir", "")]
    {
        fs::write(own.join(name), content).unwrap();
    }
    let git = Anchor::of(&top.join(".git")).unwrap();
    let list = || HostGit { program: &program, directory: &git }.run(&["worktree", "list"], None);

    let began = Instant::now();
    let filled = thread::spawn({
        let own = own.clone();
        move || {
            thread::sleep(Duration::from_millis(300));
            fs::write(own.join("HEAD"), "ref: refs/heads/x\n").unwrap();
            fs::write(own.join("commondir"), "../..\n").unwrap();
        }
    });
    list().unwrap();
    assert!(began.elapsed() >= Duration::from_millis(300));
    filled.join().unwrap();

    // One that stays so is named.
    fs::write(own.join("commondir"), "").unwrap();
    let said = list().unwrap_err().to_string();
    assert!(said.contains("failed to read worktrees/other/commondir"), "{said}");
}

/// Ten levels of ten names each: few objects, and more files than memory holds. Long names fill it soon, also on a slow machine.
#[test]
fn git_that_needs_too_much_memory_ends_and_the_bound_is_named() {
    let Some(bare) = Bare::new() else { return };
    let Bare { program, directory, .. } = &bare;
    let git = HostGit { program, directory };
    let run = |words: &[&str], input: &str| git.run(words, Some(input.as_bytes()));
    let write = |words: &[&str], input: &str| run(words, input).unwrap().trim().to_owned();
    let mut entry = format!("100644 blob {}", write(&["hash-object", "-w", "--stdin"], ""));
    for _ in 0..10 {
        let names: String = (0..10).map(|name| format!("{entry}\t{name:0200}\n")).collect();
        entry = format!("040000 tree {}", write(&["mktree"], &names));
    }
    let tree = entry.rsplit(' ').next().unwrap();
    let none = write(&["mktree"], "");
    let said = run(&["diff-tree", "--raw", "-r", &none, tree], "").unwrap_err().to_string();
    if said.contains("it took more than") {
        return eprintln!("skipped: within its minute git does not come to its bound here: {said}");
    }
    assert!(said.starts_with("git may have 1024 MiB of memory, and needs more"), "{said}");
}

#[test]
fn programs_that_share_a_time_end_with_it_and_it_is_named() {
    let launcher = Launcher::new(Wrappers::none());
    let Ok(program) = launcher.find("git", &[]) else {
        return eprintln!("skipped: there is no git");
    };
    let dir = tempfile::tempdir().unwrap();
    let directory = Anchor::of(&dir.path().canonicalize().unwrap()).unwrap();
    let version =
        |program: &HostProgram| HostGit { program, directory: &directory }.run(&["version"], None);
    version(&program.within(Duration::from_secs(30))).unwrap();
    let over = program.within(Duration::ZERO);
    // A longer time within it ends with it.
    for program in [&over, &over.within(Duration::from_secs(30))] {
        let said = version(program).unwrap_err().to_string();
        assert_eq!(said, "git was ended: its programs took more than 0 s together");
    }
}

#[test]
fn object_that_git_cannot_look_for_is_not_taken_for_a_missing_one() {
    let Some(bare) = Bare::new() else { return };
    let Bare { program, directory, .. } = &bare;
    let git = HostGit { program, directory };
    let tree = git.run(&["mktree"], Some(b"")).unwrap();
    let tree = tree.trim();
    assert_eq!(git.object(&format!("{tree}^{{tree}}")).unwrap().as_deref(), Some(tree));
    for missing in [format!("{tree}^{{commit}}"), format!("{tree}^2"), "HEAD^{commit}".into()] {
        assert_eq!(git.object(&missing).unwrap(), None, "{missing}");
    }
    let over = program.within(Duration::ZERO);
    HostGit { program: &over, directory }.object(tree).unwrap_err();
}
