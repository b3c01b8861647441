//! What a hostile agent does through git.

use pinfold_testkit::skip;

use super::common::{Site, sites};

/// What the sandbox does, and what a user sees of it.
struct Attack {
    name: &'static str,
    before: &'static str,
    inside: &'static str,
    /// What the messages name, if anything came of it.
    reported: Option<&'static str>,
}

const fn attack(
    name: &'static str,
    inside: &'static str,
    reported: Option<&'static str>,
) -> Attack {
    Attack { name, before: "", inside, reported }
}

/// `$EVIL` is a program that leaves a mark where only the host can; `evil` makes it in the
/// workspace.
const ATTACKS: &[Attack] = &[
    attack("rename .git", "mv .git old; cp -r old .git; git config alias.x y", Some("alias.x")),
    attack("remove .git", "rm -rf .git; git init -q; git config core.fsmonitor $EVIL", None),
    attack(
        "write a hook",
        "mkdir -p .git/hooks; cp evil .git/hooks/post-index-change",
        Some("hooks of"),
    ),
    attack(
        "link a hook",
        "mkdir -p .git/hooks; ln -s ../../evil .git/hooks/post-index-change",
        Some("hooks of"),
    ),
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
        Some("cannot be rebuilt"),
    ),
    attack(
        "new repository with hooks",
        "git init -q n; mkdir -p n/.git/hooks; cp evil n/.git/hooks/post-index-change; cp evil n/x; git -C n add x",
        Some("hooks/post-index-change"),
    ),
    attack(
        "new repository with a filter",
        "git init -q n; git -C n config filter.x.clean $EVIL; echo '* filter=x' > n/.gitattributes; touch n/f",
        Some("filter.x.clean"),
    ),
    attack(
        "a FIFO that git reads",
        "mkdir -p n/s; mkfifo n/.gitignore n/s/.gitattributes",
        Some("n/.gitignore (set aside"),
    ),
    attack(
        "new .git file",
        "git init -q n; mv n/.git n/.git.d; git -C n config -f n/.git.d/config x.y z; printf '[core]\\nfsmonitor=%s\\n' $EVIL >> n/.git.d/config; echo 'gitdir: .git.d' > n/.git",
        Some("core.fsmonitor"),
    ),
    attack(
        ".git file into objects",
        "git init -q --bare .git/objects/n; printf '[core]\\nbare=false\\nfsmonitor=%s\\n' $EVIL > .git/objects/n/config; mkdir n; echo 'gitdir: ../.git/objects/n' > n/.git",
        Some("n/.git (set aside"),
    ),
    attack(
        ".git link into objects",
        "git init -q --bare .git/objects/n; printf '[core]\\nbare=false\\nfsmonitor=%s\\n' $EVIL > .git/objects/n/config; mkdir n; ln -s ../.git/objects/n n/.git",
        Some("a link leads git"),
    ),
    attack(
        "hidden directory",
        "git init -q n; git -C n config core.fsmonitor $EVIL; chmod 111 n",
        None,
    ),
    attack(
        "linked config",
        "git init -q n; printf '[core]\\nfsmonitor=%s\\n' $EVIL > c; rm n/.git/config; ln -s ../../c n/.git/config",
        Some("new repository"),
    ),
    attack(
        "new worktree's commondir",
        "git worktree add -q w; mkdir -p c; git init -q --bare c; git -C c config core.fsmonitor $EVIL; git -C c config core.bare false; cp .git/HEAD c; echo ../../../c > .git/worktrees/w/commondir",
        Some("w/.git (set aside"),
    ),
    attack(
        "new module",
        "mkdir .git/modules; git init -q --bare .git/modules/m; printf '[core]\\nbare=false\\nworktree=../../../m\\nfsmonitor=%s\\n' $EVIL > .git/modules/m/config; mkdir m; echo 'gitdir: ../.git/modules/m' > m/.git",
        Some("left out: core.fsmonitor"),
    ),
    attack(
        "commondir with a blank",
        "mkdir -p lib/.git/'. '/objects lib/.git/'. '/refs; printf '. \\n' > lib/.git/commondir; cp .git/HEAD lib/.git; printf '[core]\\nfsmonitor=%s\\n' $EVIL > lib/.git/'. '/config; git add lib; git commit -qm lib",
        None,
    ),
    attack(
        "hooks that cannot be listed",
        "git init -q lib; mkdir -p lib/.git/hooks; cp evil lib/.git/hooks/pre-commit; cp evil lib/.git/hooks/post-index-change; chmod 0311 lib/.git/hooks",
        None,
    ),
    attack(
        "worktree of a new repository in the hooks of the main one",
        "git init -q lib; cp evil lib/post-index-change; git -C lib add .; git -C lib commit -qm x; git -C lib config core.worktree ../../.git/hooks; rm lib/post-index-change",
        Some("core.worktree"),
    ),
    attack(
        ".git file through a link",
        "git init -q --bare o/pack/zz; printf '[core]\\nbare=false\\nfsmonitor=%s\\n' $EVIL > o/pack/zz/config; mkdir lib; ln -s ../o/pack/zz/refs lib/lnk; printf 'gitdir: lnk/../../zz\\n' > lib/.git; git init -q lib/zz",
        Some("lib/.git (set aside"),
    ),
    attack(
        "an empty .git",
        "mkdir -p a/b/.git .git/x; echo id > a/b/.envrc; git init -q --bare a/b/c; git -C a/b/c config core.bare false; git -C a/b/c config core.fsmonitor $EVIL",
        Some("a/b/.envrc (set aside"),
    ),
    attack(
        "a deep directory",
        "d=aaa; i=0; while [ $i -lt 130 ]; do d=$d/d; i=$((i+1)); done; mkdir -p $d; cd $d; d=d; i=0; while [ $i -lt 130 ]; do d=$d/d; i=$((i+1)); done; mkdir -p $d; cd $d; git init -q lib; git -C lib config core.fsmonitor $EVIL",
        Some("nested too deeply"),
    ),
    attack(
        "a closed directory with a repository",
        "git init -q x/y/n; git -C x/y/n config core.fsmonitor $EVIL; mkdir x/y/n/.git/hooks; cp evil x/y/n/.git/hooks/post-index-change; chmod 0311 x/y/n/.git/hooks; chmod 0 x/y; chmod 0111 x",
        None,
    ),
    attack(
        "the workspace becomes a bare repository",
        "printf 'ref: refs/heads/x\\n' > HEAD; mkdir objects refs hooks; cp evil hooks/post-index-change; printf '[core]\\nbare=false\\nworktree=.\\nfsmonitor=%s\\n' $EVIL > config; mkdir s; cp -r HEAD objects refs config hooks s",
        None,
    ),
    attack(
        "a repository below a hidden name",
        "mkdir .aws .env; git init -q .aws/n; git -C .aws/n config core.fsmonitor $EVIL; git init -q .env/n; git -C .env/n config core.fsmonitor $EVIL; git init -q a.pinfold-quarantine; git -C a.pinfold-quarantine config core.fsmonitor $EVIL",
        Some("core.fsmonitor"),
    ),
    Attack {
        name: "half a bare repository",
        before: "mkdir -p assets/objects assets/refs; touch assets/objects/x assets/refs/x; git add assets; git commit -qm assets",
        inside: "cp .git/HEAD assets; printf '[core]\nbare=false\nworktree=.\nfsmonitor=%s\n' $EVIL > assets/config",
        reported: Some("assets/HEAD (set aside"),
    },
    Attack {
        name: "another directory in the place of a repository",
        before: "git init -q lib; git -C lib config user.name x",
        inside: "mv lib old; git init -q lib; git -C lib config core.fsmonitor $EVIL; git init -q evil2; mv evil2/.git old/x; git -C old/x config core.fsmonitor $EVIL",
        reported: Some("core.fsmonitor"),
    },
    attack(
        "rebase with exec",
        "mkdir .git/rebase-merge; printf 'exec %s\\n' $EVIL > .git/rebase-merge/git-rebase-todo; echo refs/heads/main > .git/rebase-merge/head-name; git rev-parse HEAD | tee .git/rebase-merge/onto > .git/rebase-merge/orig-head; echo > .git/rebase-merge/interactive; echo 0 > .git/rebase-merge/msgnum; echo 1 > .git/rebase-merge/end; : > .git/rebase-merge/done",
        None,
    ),
    Attack {
        name: "existing submodule",
        before: "git -c protocol.file.allow=always submodule --quiet add ./ m; git commit -qm m",
        inside: "git -C m config core.fsmonitor $EVIL; echo 'gitdir: ../x' > m/.git; mv m n; mv .git/modules x; cp evil .git/modules/m/hooks/post-index-change",
        reported: Some("core.fsmonitor"),
    },
    Attack {
        name: "existing nested repository",
        before: "mkdir -p a/b; git init -q a/b/n",
        inside: "git -C a/b/n config core.fsmonitor $EVIL; mv a A; mv a/b A; mv a/b/n N; rm -rf a",
        reported: Some("core.fsmonitor"),
    },
    Attack {
        name: "existing worktree",
        before: "git worktree add -q w",
        inside: "echo ../../c > .git/worktrees/w/commondir; echo 'gitdir: ../c' > w/.git; git -C w config core.fsmonitor $EVIL",
        reported: None,
    },
    Attack {
        name: "existing bare repository",
        before: "git init -q --bare b; git -C b config core.bare false",
        inside: "git -C b config core.fsmonitor $EVIL; echo x > b/commondir; cp evil b/hooks/post-index-change; mv b/config x",
        reported: None,
    },
    Attack {
        name: "linked hooks",
        before: "mkdir s; printf '#!/bin/sh\\n' > s/post-index-change; chmod +x s/*; rm -rf .git/hooks; ln -s ../s .git/hooks",
        inside: "cp evil s/post-index-change; rm -rf s; mv s t; cp evil s/post-checkout",
        reported: None,
    },
    Attack {
        name: "hook linked into the tree",
        before: "printf '#!/bin/sh\\n' > p; chmod +x p; mkdir -p .git/hooks; ln -s ../../p .git/hooks/post-index-change",
        inside: "cp evil p; rm p; mv evil p",
        reported: None,
    },
    Attack {
        name: "named hooks",
        before: "mkdir h; git config core.hooksPath h",
        inside: "cp evil h/post-index-change",
        reported: None,
    },
    Attack {
        name: "named hooks that are missing",
        before: "git config core.hooksPath hh",
        inside: "mkdir -p hh; cp evil hh/post-index-change",
        reported: None,
    },
    Attack {
        name: "named include",
        before: "echo > inc; git config include.path ../inc",
        inside: "printf '[core]\\nfsmonitor=%s\\n' $EVIL > inc; rm inc; mv evil inc",
        reported: None,
    },
    Attack {
        name: "named include that is missing",
        before: "git config include.path ../inc",
        inside: "printf '[core]\\nfsmonitor=%s\\n' $EVIL > inc",
        reported: None,
    },
    Attack {
        name: "named program",
        before: "printf '#!/bin/sh\\ncat\\n' > f.sh; chmod +x f.sh; git config filter.x.clean ./f.sh; echo 'file filter=x' > .gitattributes",
        inside: "cp evil f.sh; rm f.sh; touch file",
        reported: None,
    },
];

/// Asserts that the host runs nothing of what each attack leaves. Git is used in every directory after each of them,
/// which takes most of the time.
fn assert_host_runs_nothing(site: &Site) {
    let mut wrong = Vec::new();
    for attack in ATTACKS {
        let case = site.repository();
        case.host(attack.before);
        let output = case.inside(&format!("EVIL={}\n{}", case.evil().display(), attack.inside));
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        case.use_git_everywhere();
        let is_reported = attack.reported.is_none_or(|expected| reported.contains(expected));
        let is_refused = output.status.code() == Some(125);
        if case.was_marked() || !is_reported || is_refused {
            let ran = if case.was_marked() { "ran" } else { "said something else" };
            wrong.push(format!("{} {ran} ({site}): {reported}", attack.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_host_runs_nothing_that_a_session_planted() {
    assert_host_runs_nothing(&sites()[0]);
}

#[test]
fn the_host_runs_nothing_that_a_session_without_an_account_planted() {
    match sites().get(1) {
        Some(site) => assert_host_runs_nothing(site),
        None => skip("the_host_runs_nothing_that_a_session_without", "only root has other users"),
    }
}
