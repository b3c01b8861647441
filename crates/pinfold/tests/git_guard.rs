//! Whatever an agent does to git inside, the host's git runs nothing of it; and git works inside
//! as it does outside. Real git, real kernel.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::sites;

/// What the inside does, and what a person sees of it.
struct Attack {
    name: &'static str,
    before: &'static str,
    inside: &'static str,
    /// What the messages name, if anything came of it.
    told: Option<&'static str>,
}

const fn attack(name: &'static str, inside: &'static str, told: Option<&'static str>) -> Attack {
    Attack { name, before: "", inside, told }
}

/// `$EVIL` is a program that leaves a mark where only the host can; `evil` makes it in the
/// workspace.
const ATTACKS: &[Attack] = &[
    attack("rename .git", "mv .git old; cp -r old .git; git config alias.x y", Some("alias.x")),
    attack("remove .git", "rm -rf .git; git init -q; git config core.fsmonitor $EVIL", None),
    attack("write a hook", "cp evil .git/hooks/post-index-change", Some("--opt-in git-hooks")),
    attack("link a hook", "ln -s ../../evil .git/hooks/post-index-change", Some("git-hooks")),
    attack("replace hooks", "rm -rf .git/hooks; ln -s ../.. .git/hooks; mv .git/hooks h", None),
    attack("core.fsmonitor", "git config core.fsmonitor $EVIL", Some("core.fsmonitor")),
    attack(
        "core.hooksPath",
        "mkdir h; cp evil h/post-index-change; git config core.hooksPath h",
        Some("core.hookspath"),
    ),
    attack("alias", "git config alias.status \"!$EVIL\"", Some("alias.status")),
    attack(
        "filter",
        "git config filter.x.clean $EVIL; echo '* filter=x' > .gitattributes; touch file",
        Some("filter.x.clean"),
    ),
    attack(
        "include",
        "git config include.path ../conf; printf '[core]\\nfsmonitor=%s\\n' $EVIL > conf",
        Some("include.path"),
    ),
    attack(
        "sub-key with a newline",
        "printf '[remote \"x\"]\\nurl = \"ext::sh -c %s\"\\n' $EVIL >> .git/config",
        Some("remote.x.url"),
    ),
    attack(
        "write through the link",
        "printf '[core]\\nfsmonitor=%s\\n' $EVIL > .git/config",
        Some("core.fsmonitor"),
    ),
    attack(
        "replace the link",
        "rm .git/config; printf '[core]\\nfsmonitor=%s\\n' $EVIL > .git/config",
        None,
    ),
    attack(
        "commondir",
        "mkdir -p c/refs c/objects; printf '[core]\\nfsmonitor=%s\\n' $EVIL > c/config; echo ../c > .git/commondir",
        None,
    ),
    attack(
        "config.worktree",
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor $EVIL",
        Some("extensions.worktreeconfig"),
    ),
    attack(
        "attributes",
        "echo '* filter=x' > .git/info/attributes; git config filter.x.clean $EVIL; touch file",
        Some("filter.x.clean"),
    ),
    attack(
        "info replaced",
        "mv .git/info .git/i; mkdir .git/info; echo '* filter=x' > .git/info/attributes",
        None,
    ),
    attack(
        "bare layout in the tree",
        "mkdir b; cd b; git init -q --bare .; git config core.fsmonitor $EVIL; git config core.bare false; git config core.worktree ..",
        Some("core.fsmonitor"),
    ),
    attack(
        "bare layout by commondir",
        "mkdir b; cp .git/HEAD b; git init -q --bare c; git -C c config core.fsmonitor $EVIL; git -C c config core.bare false; echo ../c > b/commondir",
        Some("commondir"),
    ),
    attack(
        "new repository with hooks",
        "git init -q n; mkdir -p n/.git/hooks; cp evil n/.git/hooks/post-index-change; cp evil n/x; git -C n add x",
        Some("hooks (set aside)"),
    ),
    attack(
        "new repository with a filter",
        "git init -q n; git -C n config filter.x.clean $EVIL; echo '* filter=x' > n/.gitattributes; touch n/f",
        Some("filter.x.clean"),
    ),
    attack(
        "new .git file",
        "git init -q n; mv n/.git n/.git.d; git -C n config -f n/.git.d/config x.y z; printf '[core]\\nfsmonitor=%s\\n' $EVIL >> n/.git.d/config; echo 'gitdir: .git.d' > n/.git",
        Some("core.fsmonitor"),
    ),
    attack(
        ".git file into objects",
        "git init -q --bare .git/objects/n; printf '[core]\\nbare=false\\nfsmonitor=%s\\n' $EVIL > .git/objects/n/config; mkdir n; echo 'gitdir: ../.git/objects/n' > n/.git",
        Some("core.fsmonitor"),
    ),
    attack(
        ".git link into objects",
        "git init -q --bare .git/objects/n; printf '[core]\\nbare=false\\nfsmonitor=%s\\n' $EVIL > .git/objects/n/config; mkdir n; ln -s ../.git/objects/n n/.git",
        Some("core.fsmonitor"),
    ),
    attack(
        "hidden directory",
        "git init -q n; git -C n config core.fsmonitor $EVIL; chmod 111 n",
        None,
    ),
    attack(
        "linked config",
        "git init -q n; printf '[core]\\nfsmonitor=%s\\n' $EVIL > c; rm n/.git/config; ln -s ../../c n/.git/config",
        Some("symbolic link"),
    ),
    attack(
        "new worktree's commondir",
        "git worktree add -q w; mkdir -p c; git init -q --bare c; git -C c config core.fsmonitor $EVIL; git -C c config core.bare false; cp .git/HEAD c; echo ../../../c > .git/worktrees/w/commondir",
        Some("commondir"),
    ),
    attack(
        "new module",
        "mkdir .git/modules; git init -q --bare .git/modules/m; printf '[core]\\nbare=false\\nworktree=../../../m\\nfsmonitor=%s\\n' $EVIL > .git/modules/m/config; mkdir m; echo 'gitdir: ../.git/modules/m' > m/.git",
        Some("core.fsmonitor"),
    ),
    attack(
        "rebase with exec",
        "mkdir .git/rebase-merge; printf 'exec %s\\n' $EVIL > .git/rebase-merge/git-rebase-todo; echo refs/heads/main > .git/rebase-merge/head-name; git rev-parse HEAD | tee .git/rebase-merge/onto > .git/rebase-merge/orig-head; echo > .git/rebase-merge/interactive; echo 0 > .git/rebase-merge/msgnum; echo 1 > .git/rebase-merge/end; : > .git/rebase-merge/done",
        Some("exec"),
    ),
    Attack {
        name: "existing submodule",
        before: "git -c protocol.file.allow=always submodule --quiet add ./ m; git commit -qm m",
        inside: "git -C m config core.fsmonitor $EVIL; echo 'gitdir: ../x' > m/.git; mv m n; mv .git/modules x; cp evil .git/modules/m/hooks/post-index-change",
        told: Some("core.fsmonitor"),
    },
    Attack {
        name: "existing nested repository",
        before: "mkdir -p a/b; git init -q a/b/n",
        inside: "git -C a/b/n config core.fsmonitor $EVIL; mv a A; mv a/b A; mv a/b/n N; rm -rf a",
        told: Some("core.fsmonitor"),
    },
    Attack {
        name: "existing worktree",
        before: "git worktree add -q w",
        inside: "echo ../../c > .git/worktrees/w/commondir; echo 'gitdir: ../c' > w/.git; git -C w config core.fsmonitor $EVIL",
        told: Some("core.fsmonitor"),
    },
    Attack {
        name: "existing bare repository",
        before: "git init -q --bare b; git -C b config core.bare false",
        inside: "git -C b config core.fsmonitor $EVIL; echo x > b/commondir; cp evil b/hooks/post-index-change; mv b/config x",
        told: None,
    },
    Attack {
        name: "linked hooks",
        before: "mkdir s; printf '#!/bin/sh\\n' > s/post-index-change; chmod +x s/*; rm -rf .git/hooks; ln -s ../s .git/hooks",
        inside: "cp evil s/post-index-change; rm -rf s; mv s t; cp evil s/post-checkout",
        told: None,
    },
    Attack {
        name: "hook linked into the tree",
        before: "printf '#!/bin/sh\\n' > p; chmod +x p; mkdir -p .git/hooks; ln -s ../../p .git/hooks/post-index-change",
        inside: "cp evil p; rm p; mv evil p",
        told: None,
    },
    Attack {
        name: "named hooks",
        before: "mkdir h; git config core.hooksPath h",
        inside: "cp evil h/post-index-change",
        told: None,
    },
    Attack {
        name: "named hooks that are missing",
        before: "git config core.hooksPath hh",
        inside: "mkdir -p hh; cp evil hh/post-index-change",
        told: None,
    },
    Attack {
        name: "named include",
        before: "echo > inc; git config include.path ../inc",
        inside: "printf '[core]\\nfsmonitor=%s\\n' $EVIL > inc; rm inc; mv evil inc",
        told: None,
    },
    Attack {
        name: "named include that is missing",
        before: "git config include.path ../inc",
        inside: "printf '[core]\\nfsmonitor=%s\\n' $EVIL > inc",
        told: None,
    },
    Attack {
        name: "named program",
        before: "printf '#!/bin/sh\\ncat\\n' > f.sh; chmod +x f.sh; git config filter.x.clean ./f.sh; echo 'file filter=x' > .gitattributes",
        inside: "cp evil f.sh; rm f.sh; touch file",
        told: None,
    },
];

#[test]
fn the_host_runs_nothing_that_the_inside_planted() {
    for site in sites() {
        for attack in ATTACKS {
            let case = site.repository();
            case.host(attack.before);
            let output = case.inside(&format!("EVIL={}\n{}", case.evil().display(), attack.inside));
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            case.use_git_everywhere();
            assert!(!case.was_marked(), "{} ran ({site}): {told}", attack.name);
            if let Some(expected) = attack.told {
                assert!(told.contains(expected), "{} ({site}): {told}", attack.name);
            }
            assert_ne!(output.status.code(), Some(125), "{} ({site}): {told}", attack.name);
        }
    }
}

#[test]
fn in_quarantine_the_host_runs_nothing_either() {
    for site in sites() {
        for attack in ATTACKS {
            let case = site.repository();
            case.host(attack.before);
            let script = format!("EVIL={}\n{}", case.evil().display(), attack.inside);
            let output = case.run(QUARANTINE, &script);
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            case.use_git_everywhere();
            assert!(!case.was_marked(), "{} ran ({site}): {told}", attack.name);
            assert_ne!(output.status.code(), Some(125), "{} ({site}): {told}", attack.name);
        }
    }
}

const QUARANTINE: &[&str] = &["--git", "quarantine"];

#[test]
fn commits_come_out_of_the_quarantine_and_nothing_else_does() {
    for site in sites() {
        let case = site.repository();
        let config = case.host("cat .git/config");
        let script = "echo a >> file; git commit -qam a; git branch b; git checkout -q -b c; \
                      echo c > c; git add c; git commit -qm c; git tag t; git notes add -m n; \
                      git config core.pager x; cp evil .git/hooks/post-checkout; echo d >> c; \
                      git gc -q";
        let output = case.run(QUARANTINE, script);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !told.contains("pinfold:"), "{site}: {told}");
        let look = "git symbolic-ref HEAD; git log --format=%s c --; git status --porcelain; \
                    git for-each-ref --format='%(refname)'; git notes show c; git fsck";
        let expected = "refs/heads/c\nc\na\nfirst\n M c\nrefs/heads/b\nrefs/heads/c\nrefs/heads/main\n\
                        refs/notes/commits\nrefs/tags/t\nn\n";
        assert_eq!(case.host(look), expected, "{site}");
        assert_eq!(case.host("cat .git/config"), config, "{site}");
        assert!(!case.path().join(".git/hooks/post-checkout").exists() && !case.was_marked());
        assert_eq!(case.sessions(), 0, "{site}");
    }
}

#[test]
fn a_branch_that_both_sides_moved_is_kept_beside() {
    for site in sites() {
        let case = site.repository();
        let mut child =
            case.spawn(QUARANTINE, "git commit -q --allow-empty -m in; echo ready; read x");
        common::wait_for_line(&mut child, "ready");
        case.host("git commit -q --allow-empty -m out");
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("no fast-forward"), "{site}: {told}");
        let look = "git log --format=%s -1; git for-each-ref --format='%(subject)' refs/pinfold";
        assert_eq!(case.host(look), "out\nin\n", "{site}");
    }
}

#[test]
fn a_copy_that_became_something_else_is_not_taken() {
    for site in sites() {
        for trick in [
            "mv /run/pinfold/git/0/git /run/pinfold/git/0/g; ln -s ${PWD%/work}/other /run/pinfold/git/0/git",
            "rm -f .git/HEAD; mkfifo .git/HEAD",
            "rm -rf .git/objects/*; git commit-tree",
            "echo 'ref: refs/heads/../../x' > .git/HEAD; echo x > .git/packed-refs",
            "ln -s /etc/passwd /run/pinfold/out-0; ln -s /etc .git/refs/heads/x",
            "printf 'deadbeefdeadbeefdeadbeefdeadbeefdeadbeef refs/heads/x\n' > .git/packed-refs",
        ] {
            let case = site.repository();
            case.host(
                "git init -q --bare ../other; echo s | git -C ../other hash-object -w --stdin",
            );
            let before = case.host("git for-each-ref; git rev-parse HEAD; git count-objects");
            case.run(QUARANTINE, trick);
            let after = case.host("git for-each-ref; git rev-parse HEAD; git count-objects");
            assert_eq!(after, before, "{trick} ({site})");
        }
    }
}

/// git as people and agents use it; the last lines are what both sides are compared by.
const WORKFLOW: &str = "
set -eu
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
export GIT_CONFIG_NOSYSTEM=1 LC_ALL=C
git config user.name Ada; git config user.email ada@example.org
echo one > one; git add one; git commit -qm one
git checkout -q -b topic; echo two > two; git add two; git commit -qm two
git checkout -q main; echo three > three; git add three; git commit -qm three
git merge -q --no-edit topic
git checkout -q -b series; for n in 1 2 3; do echo $n >> s; git add s; git commit -qm s$n; done
GIT_SEQUENCE_EDITOR='sed -i 2s/pick/fixup/' git rebase -q -i HEAD~3
git checkout -q main; git rebase -q series
echo dirty >> one; git stash -q; git stash pop -q; git stash -q -u; git stash drop -q
git tag -a -m v1 v1; git branch -m topic renamed
git worktree add -q wt -b wt; echo w > wt/w; git -C wt add w; git -C wt commit -qm w
git worktree remove wt; git worktree add -q wt2 wt; git worktree lock wt2; git worktree unlock wt2
git clone -q . clone; echo c > clone/c; git -C clone add c; git -C clone -c user.name=a -c user.email=b commit -qm c
git init -q --bare -b main b.git; git remote add b ./b.git; git push -q -u b main
git fetch -q b; git branch -q --set-upstream-to=b/main wt; git remote rename b bb; git pull -q bb main
git -c protocol.file.allow=always submodule --quiet add $PWD/b.git sub
git config -f .gitmodules submodule.sub.url ./b.git; git add .gitmodules; git commit -qm sub
git submodule --quiet update --init; git mv two zwei; git commit -qm mv
mkdir sp; echo s > sp/s; git add sp; git commit -qm sp
git gc -q; git fsck --no-progress --no-dangling; git repack -qad; git pack-refs --all; git reflog expire --expire=now --all
git notes add -m note; git cherry-pick -x wt >/dev/null; git revert --no-edit HEAD >/dev/null
git bisect start -q HEAD HEAD~2 >/dev/null; git bisect reset >/dev/null 2>&1
git clean -fdq -e clone -e wt2 -e b.git; git update-index -q --refresh
git log --all --format='%H %s' --date-order; git status --porcelain; git branch -vv --all
git config --get-regexp '^(user|branch|remote|submodule)'; git worktree list --porcelain | sed 's|.*/||'
git submodule status; git stash list; git for-each-ref
";

#[test]
fn git_works_inside_as_it_does_outside() {
    for site in sites() {
        let (outside, inside) = (site.empty_repository(), site.empty_repository());
        let expected = outside.host(WORKFLOW);
        let output = inside.inside(WORKFLOW);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{site}: {told}");
        let got = String::from_utf8_lossy(&output.stdout).into_owned();
        let at =
            |case: &common::Case, text: &str| text.replace(&case.path().display().to_string(), "");
        assert_eq!(at(&inside, &got), at(&outside, &expected), "{site}");
        assert!(!told.contains("pinfold:"), "{site}: {told}");
        let look = "git fsck --no-progress --no-dangling; git status --porcelain; git log --all --format='%H %s'; \
                    git config --get-regexp '^(user|branch|remote|submodule)' | sort; git worktree list \
                    --porcelain | sed 's|.*/||'; git submodule status; find . -name '*quarantine*'";
        let (here, there) = (inside.host(look), outside.host(look));
        assert_eq!(at(&inside, &here), at(&outside, &there), "{site}");
    }
}

#[test]
fn nothing_is_left_after_the_end_and_nothing_shows_meanwhile() {
    for site in sites() {
        let case = site.repository();
        let before = case.files();
        let mut child = case.spawn_inside("echo ready; read line");
        common::wait_for_line(&mut child, "ready");
        assert_eq!(case.host("git status --porcelain"), "", "{site}");
        assert_ne!(case.files(), before, "placeholders are there ({site})");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(case.files(), before, "{site}");
    }
}

#[test]
fn what_a_killed_session_left_goes_at_the_next_start() {
    for site in sites() {
        let case = site.repository();
        let before = case.files();
        let mut child = case.spawn_inside("git config alias.x '!id'; echo ready; read line");
        common::wait_for_line(&mut child, "ready");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_ne!(case.files(), before, "{site}");
        assert!(case.inside("true").status.success(), "{site}");
        assert_eq!(case.files(), before, "{site}");
        assert_eq!(case.sessions(), 0, "{site}");
    }
}

#[test]
fn two_sessions_share_their_placeholders() {
    for site in sites() {
        let case = site.repository();
        let before = case.files();
        let mut first = case.spawn_inside("echo ready; read line");
        common::wait_for_line(&mut first, "ready");
        let second = case.inside("mkdir .vscode/x; echo x > .git/commondir; mv .git g; git status");
        assert!(second.status.success(), "{site}");
        let third = "mkdir .vscode/x && echo planted";
        assert!(case.inside(third).stdout.is_empty(), "{site}");
        drop(first.stdin.take());
        first.wait().unwrap();
        assert_eq!(case.files(), before, "{site}");
    }
}

#[test]
fn a_directory_without_a_repository_gets_one_inside() {
    for site in sites() {
        let case = site.bare_directory();
        let output = case.inside("git init -q && echo x > f && git add f && git -c user.name=a -c user.email=b commit -qm i");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !told.contains("pinfold:"), "{site}: {told}");
        assert_eq!(case.host("git log --format=%s; git status --porcelain"), "i\n", "{site}");
    }
}

#[test]
fn names_that_the_host_executes_are_set_aside_where_they_are_new() {
    for site in sites() {
        let case = site.repository();
        let output =
            case.inside("mkdir -p sub/.vscode; echo {} > sub/.vscode/tasks.json; echo id > .envrc");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            told.contains("sub/.vscode (set aside)") && told.contains(".envrc (set aside)"),
            "{site}: {told}"
        );
        assert!(!case.path().join(".envrc").exists() && !case.path().join("sub/.vscode").exists());
    }
}

#[test]
fn secrets_and_sockets_are_out_of_reach() {
    for site in sites() {
        let case = site.repository();
        case.host("echo key > .env; echo key > conf.env; ln -s real.txt .env.local; echo key > real.txt; mkfifo pipe; mkdir -p n/.aws; echo key > n/.aws/credentials");
        let inside = "cat .env conf.env .env.local real.txt n/.aws/credentials; ls n/.aws; mv .env x; cat x; timeout 1 cat pipe; echo done";
        let output = case.inside(inside);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{site}");
        let lifted = case.run(&["--opt-in", "dotenv"], "cat .env");
        assert_eq!(String::from_utf8_lossy(&lifted.stdout), "key\n", "{site}");
    }
}

#[test]
fn the_persons_identity_is_known_inside() {
    for site in sites() {
        let case = site.empty_repository();
        case.host("printf '[user]\\nname=Ada\\nemail=a@b\\n[alias]\\nx=y\\n' > $HOME/.gitconfig");
        let script = "git commit -q --allow-empty -m x; git log --format=%an; git config alias.x";
        let output = case.inside(script);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "Ada\n", "{site}");
    }
}

#[test]
fn opt_ins_let_hooks_and_configuration_through() {
    for site in sites() {
        let case = site.repository();
        let script = "mkdir -p .git/hooks; cp evil .git/hooks/pre-push; git config alias.x y; git config core.pager less";
        let output = case.run(&["--opt-in", "git-hooks", "--opt-in", "git-config"], script);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !told.contains("pinfold:"), "{site}: {told}");
        assert!(case.path().join(".git/hooks/pre-push").exists(), "{site}");
        assert_eq!(case.host("git config alias.x"), "y\n", "{site}");
    }
}

#[test]
fn a_configuration_that_cannot_be_copied_refuses_the_run() {
    for site in sites() {
        let case = site.repository();
        case.host("mv .git/config c; ln -s ../c .git/config");
        let output = case.inside("true");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{site}: {told}");
        assert!(told.contains("is a symbolic link") && told.contains("hint:"), "{site}: {told}");
        assert_eq!(case.sessions(), 0, "{site}");
    }
}
