//! Linked worktrees and submodules as workspaces, and those next to the workspace.

use super::common::{Case, sites, text};

/// A repository in which `../linked` is a worktree on the branch `l`, `../other` one on `o`.
const LINKED: &str = "git worktree add -q -b l ../linked; git worktree add -q -b o ../other";

/// What a user sees in a worktree.
fn look(case: &Case, directory: &str) -> String {
    let script = "git symbolic-ref HEAD; git log --format=%s; git status --porcelain; git fsck";
    case.host(&format!("cd {directory}; {script}"))
}

#[test]
fn a_linked_worktree_is_a_workspace() {
    for site in sites() {
        let case = site.repository();
        case.host(LINKED);
        let config = case.host("cat .git/config; ls .git .git/worktrees/*");
        let script = "set -e; pwd; git status --porcelain; echo a > a; git add a; git commit -qm a; \
                      git branch -q b; echo b > b; git add b; git commit -qm b; git rebase -q b; \
                      echo dirty >> file; git stash -q; git stash pop -q; \
                      git worktree list --porcelain | grep -c '^worktree'; git log --format=%s; \
                      git config core.pager x; cp file .git-x; mkdir -p $(git rev-parse --git-common-dir)/hooks; \
                      echo > $(git rev-parse --git-common-dir)/hooks/post-checkout; \
                      git config extensions.worktreeConfig true; git config --worktree core.fsmonitor x; \
                      git gc -q";
        let output = case.run_in("../linked", &[], script);
        let (shown, stderr) = text(&output);
        assert!(output.status.success() && stderr.contains("post-checkout"), "{site}: {stderr}");
        let top = case.path().with_file_name("linked");
        assert_eq!(shown, format!("{}\n3\nb\na\nfirst\n", top.display()), "{site}: {stderr}");
        let expected = "refs/heads/l\nb\na\nfirst\n M file\n?? .git-x\n";
        assert_eq!(look(&case, "../linked"), expected, "{site}: {stderr}");
        assert_eq!(look(&case, "."), "refs/heads/main\nfirst\n", "{site}: {stderr}");
        assert_eq!(case.host("git log -1 --format=%s b; git stash list"), "a\n", "{site}");
        assert_eq!(case.host("cat .git/config; ls .git .git/worktrees/*"), config, "{site}");
    }
}

#[test]
fn branch_checked_out_elsewhere_is_not_moved() {
    for site in sites() {
        let case = site.repository();
        case.host(LINKED);
        let script = "set -e; echo a > a; git add a; git commit -qm a; git branch -f new; \
                      git update-ref refs/heads/main l; git update-ref refs/heads/o l; \
                      git worktree remove -f -f other || git worktree prune; \
                      git checkout -q -b mine; git symbolic-ref HEAD refs/heads/o";
        let output = case.run_in("../linked", &[], script);
        let (_, stderr) = text(&output);
        // Nor does HEAD go to a branch that is checked out elsewhere. The index is that of its own branch.
        assert_eq!(look(&case, "../linked"), "refs/heads/l\na\nfirst\n", "{site}: {stderr}");
        assert_eq!(look(&case, "../other"), "refs/heads/o\nfirst\n", "{site}: {stderr}");
        assert_eq!(look(&case, "."), "refs/heads/main\nfirst\n", "{site}: {stderr}");
        let commands: Vec<&str> =
            stderr.split('`').filter(|part| part.starts_with("git -C")).collect();
        assert_eq!(commands.len(), 2, "{site}: {stderr}");
        case.host(&format!("{} >/dev/null", commands.join(" >/dev/null\n")));
        assert_eq!(look(&case, "../other"), "refs/heads/o\na\nfirst\n", "{site}: {stderr}");
        assert_eq!(look(&case, "."), "refs/heads/main\na\nfirst\n", "{site}: {stderr}");
    }
}

#[test]
fn each_worktree_in_the_workspace_follows_and_others_do_not() {
    for site in sites() {
        let case = site.repository();
        case.host(LINKED);
        case.host("printf '/in\\n/made\\n' > .gitignore; git add .; git commit -qm ignore; git worktree add -q -b i in");
        let script = "set -e; echo a > a; git add a; git commit -qm a; cd in; echo i > i; git add i; \
                      git commit -qm i; git update-ref refs/heads/o HEAD; git worktree add -q ../made; \
                      cd ../made; echo m > m; git add m; git commit -qm m";
        let output = case.inside(script);
        let (_, stderr) = text(&output);
        assert!(output.status.success(), "{site}: {stderr}");
        assert_eq!(look(&case, "in"), "refs/heads/i\ni\nignore\nfirst\n", "{site}: {stderr}");
        assert_eq!(look(&case, "."), "refs/heads/main\na\nignore\nfirst\n", "{site}: {stderr}");
        assert_eq!(look(&case, "../other"), "refs/heads/o\nfirst\n", "{site}: {stderr}");
        assert_eq!(case.host("git log -1 --format=%s made --"), "m\n", "{site}: {stderr}");
        assert!(stderr.contains("worktree made of"), "{site}: {stderr}");
    }
}

#[test]
fn a_worktree_that_the_tree_only_claims_does_not_follow() {
    for site in sites() {
        let case = site.repository();
        case.host(LINKED);
        // Content of the repository that poses as the other worktree.
        case.host("mkdir x; echo \"gitdir: $PWD/.git/worktrees/other\" > x/.git");
        let script = "git commit -q --allow-empty -m in; git update-ref refs/heads/o HEAD; cd x && \
                      git checkout -q --detach HEAD && git commit -q --allow-empty -m x";
        let (_, stderr) = text(&case.inside(script));
        assert_eq!(look(&case, "../other"), "refs/heads/o\nfirst\n", "{site}: {stderr}");
        assert!(stderr.contains("checked out in another worktree"), "{site}: {stderr}");
    }
}

#[test]
fn a_worktree_of_a_bare_repository_is_a_workspace() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "git clone -q --bare . ../store.git; cd ../store.git; git config user.name a; \
             git config user.email b; git worktree add -q ../linked main",
        );
        let script = "echo a > a; git add a; git commit -qm a";
        let output = case.run_in("../linked", &[], script);
        let (_, stderr) = text(&output);
        assert!(output.status.success() && !stderr.contains("pinfold:"), "{site}: {stderr}");
        assert_eq!(look(&case, "../linked"), "refs/heads/main\na\nfirst\n", "{site}: {stderr}");
        assert_eq!(
            case.host("git -C ../store.git symbolic-ref HEAD; ls ../store.git/index || echo no"),
            "refs/heads/main\nno\n",
            "{site}"
        );
    }
}

#[test]
fn a_copy_that_lies_about_worktrees_changes_nothing() {
    for site in sites() {
        for trick in [
            "rm $d/HEAD; ln -s /etc/passwd $d/HEAD",
            "printf 'ref: refs/heads/../../config\\n' > $d/HEAD",
            "echo 'ref: refs/heads/o' > $d/HEAD",
            "mkdir -p ../x/refs ../x/objects; printf '[core]\\nfsmonitor=%s\\n' $EVIL > ../x/config; \
             echo $PWD/../x > $d/commondir",
            "rm -r $c/worktrees; ln -s /etc $c/worktrees",
            "mkdir -p \"$c/worktrees/a b\" $c/worktrees/-x '$c/worktrees/$(id)'; ln -s / $c/worktrees/r",
            "mkdir -p $c/logs/refs; h=$(git rev-parse HEAD); echo \"$h $h a <b> 1 +0000\tx\" > $c/logs/refs/stash; \
             echo $h > $c/refs/stash",
            "git config core.worktree /etc; git config core.bare true; git config alias.log \"!$EVIL\"; \
             git config log.showSignature true; git config gpg.program $EVIL",
        ] {
            let case = site.repository();
            case.host(LINKED);
            let state = "git for-each-ref; git config -l; git stash list; \
                         for w in . ../linked ../other; do cd $w; git symbolic-ref HEAD; git ls-files -s; \
                         git status --porcelain; done";
            let before = case.host(state);
            let script = format!(
                "EVIL={}; c=$(git rev-parse --git-common-dir); d=$(git rev-parse --git-dir); {trick}",
                case.evil().display()
            );
            let (_, stderr) = text(&case.run_in("../linked", &[], &script));
            assert_eq!(case.host(state), before, "{trick} {site}: {stderr}");
            assert!(!case.was_marked(), "{trick} {site}: {stderr}");
        }
    }
}

#[test]
fn a_git_directory_that_was_granted_by_name_is_not_copied() {
    for site in sites() {
        let case = site.repository();
        case.host("git clone -q --bare . ../store.git");
        let options = ["--write", "../store.git"];
        let output = case.run(&options, "true");
        let (_, stderr) = text(&output);
        assert_eq!(output.status.code(), Some(125), "{site}: {stderr}");
        assert!(
            stderr.contains("looks like a bare repository") && stderr.contains("hint:"),
            "{site}: {stderr}"
        );
    }
}

#[test]
fn a_submodule_is_a_workspace() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "git init -q -b main ../lib; git -C ../lib -c user.name=a -c user.email=b commit -q --allow-empty -m lib; \
             git -c protocol.file.allow=always submodule --quiet add $PWD/../lib m; git commit -qm m; \
             git -C m config user.name a; git -C m config user.email b",
        );
        let before = case.host("cat .git/modules/m/config; ls .git/modules/m .git/modules/m/hooks");
        let script = "set -e; pwd; git status --porcelain; echo a > a; git add a; git commit -qm a; \
                      git checkout -q -b b; git commit -q --allow-empty -m b; git rebase -q main; \
                      git config alias.x y; echo > $(git rev-parse --git-dir)/hooks/post-checkout; \
                      git worktree list >/dev/null; git log --format=%s";
        let output = case.run_in("m", &[], script);
        let (shown, stderr) = text(&output);
        assert!(output.status.success() && stderr.contains("post-checkout"), "{site}: {stderr}");
        assert_eq!(shown, format!("{}/m\nb\na\nlib\n", case.path().display()), "{site}: {stderr}");
        assert_eq!(look(&case, "m"), "refs/heads/b\nb\na\nlib\n", "{site}: {stderr}");
        assert_eq!(
            case.host("git -C m log -1 --format=%s main; git status --porcelain"),
            "a\n M m\n"
        );
        let after = case.host("cat .git/modules/m/config; ls .git/modules/m .git/modules/m/hooks");
        assert_eq!(after, before, "{site}");
    }
}

/// git keeps the git directory of a submodule in that of the linked worktree.
#[test]
fn submodules_of_a_session_in_a_linked_worktree_work_on_the_host_afterwards() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "git config --global protocol.file.allow always; git init -q -b main ../lib; cd ../lib; \
             git config user.name a; git config user.email b; echo l >l; git add l; git commit -qm lib; cd ../work; \
             git submodule --quiet add $PWD/../lib lib; git commit -qm with; git worktree add -q ../wt",
        );
        let lib = case.path().with_file_name("lib").display().to_string();
        let script = "set -e; export GIT_CONFIG_GLOBAL=/tmp/settings; git config --global protocol.file.allow always; \
                      git config --global safe.directory '*'; git config --global user.name a; \
                      git config --global user.email b; git submodule --quiet update --init; cd lib; \
                      git checkout -q -b own; echo more >>l; git commit -qam more; cd ..; git commit -qam bump";
        let output = case.run_in("../wt", &["--read", &lib], script);
        let (shown, stderr) = text(&output);
        assert!(output.status.success(), "{site}: {shown}{stderr}");
        let look = "cd ../wt; git log -1 --format=%s; git status --porcelain; git submodule --quiet update; \
                    git -C lib log --format=%s own; cd ../work; git status --porcelain; git submodule --quiet update; \
                    git -C lib log --format=%s";
        let expected = "bump\nmore\nlib\nlib\n";
        assert_eq!(case.host(look), expected, "{site}: {stderr}");
        assert!(!stderr.contains("not taken over"), "{site}: {stderr}");
    }
}
