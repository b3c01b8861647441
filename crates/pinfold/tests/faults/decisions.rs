//! A command by which a user takes what a session left, killed when it matters.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Output;

use pinfold_testkit::{Stage, User, people, skip};

const GIT: &str = "/usr/bin/git";

fn host(stage: &Stage, script: &str) -> String {
    let mut shell = stage.command("/bin/sh");
    let output = shell.args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", errors(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A repository in which a session made a commit that waits, and the session.
fn left_by_a_session(user: User) -> (Stage, String) {
    let stage = Stage::new(user);
    host(
        &stage,
        "git init -q --template= -b main; git config user.name T; \
         git config user.email t@example.org; echo a >a; git add .; git commit -qm first",
    );
    let script = "echo x >.envrc; echo n >n; git add -f .; git commit -qm inside";
    let output = stage.run(&[], &["sh", "-c", script]);
    assert!(output.status.success(), "{}", errors(&output));
    let waiting = host(&stage, "git for-each-ref --format='%(refname)' refs/pinfold");
    let session = waiting.split('/').nth(2).unwrap().to_owned();
    (stage, session)
}

/// Has `pinfold accept` killed by a git that does `act` when a branch is to be moved.
fn kill_at_the_move(stage: &Stage, session: &str, act: &str) {
    let script = format!(
        "mkdir -p ../slow; printf '%s\\n' '#!/bin/sh' \
         'case \"$*\" in *update-ref*refs/heads/*) {act};; esac' 'exec {GIT} \"$@\"' >../slow/git; \
         chmod 755 ../slow/git"
    );
    host(stage, &script);
    let mut accept = stage.pinfold(&["accept", session]);
    let path = format!("{}:/usr/bin:/bin", stage.path("slow").display());
    let killed = accept.env("PATH", path).output().unwrap();
    assert_eq!(killed.status.signal(), Some(9), "{}", errors(&killed));
}

#[test]
fn branch_is_accepted_whole_after_an_accept_that_was_killed() {
    if !Path::new(GIT).exists() {
        return skip("branch_is_accepted_whole_after_an_accept_that_was_killed", "it takes git");
    }
    let moments = [
        "kill -9 $PPID; exit 1".to_owned(),
        format!("{GIT} \"$@\"; kill -9 $PPID; exit 1"),
        // The machine goes on: git ends after pinfold.
        format!("kill -9 $PPID; sleep 0.3; exec {GIT} \"$@\""),
    ];
    for (user, moment) in
        people().into_iter().flat_map(|user| moments.iter().map(move |it| (user, it)))
    {
        let at = format!("uid {}, {moment}", user.uid);
        let (stage, session) = left_by_a_session(user);
        kill_at_the_move(&stage, &session, moment);
        // What a user commits now takes nothing back that is on the branch.
        let back = host(&stage, "git diff --cached --name-only --diff-filter=DM");
        assert_eq!(back, "", "{at}");
        let again = [(); 2].map(|()| stage.pinfold(&["accept", &session]));
        let again =
            again.map(|mut command| command.stderr(std::process::Stdio::piped()).spawn().unwrap());
        let said = again.map(|it| it.wait_with_output().unwrap());
        let shown = said.each_ref().map(errors);
        assert_eq!(said.iter().filter(|it| it.status.success()).count(), 1, "{at}: {shown:?}");
        host(&stage, "git commit -q --allow-empty -m next; git fsck --strict");
        let files = "git ls-tree --name-only HEAD; git log --format=%s; git diff --cached --name-only; \
                     git for-each-ref refs/pinfold; find .git -name '*.lock'";
        assert_eq!(host(&stage, files), ".envrc\na\nn\nnext\ninside\nfirst\n", "{at}: {shown:?}");
    }
}
