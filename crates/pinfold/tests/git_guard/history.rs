//! Repositories of which a session changed where history begins, or which have HEAD somewhere else than on a branch.

use super::common::{Case, Site, sites, text};

/// Returns a repository with another one next to it that has four commits.
fn with_upstream(site: &Site) -> (Case, String) {
    let case = site.repository();
    case.host(
        "git init -q -b main ../up; cd ../up; git config user.name a; git config user.email b; \
         for n in 1 2 3 4; do echo $n >f; git add f; git commit -qm up$n; done",
    );
    let up = case.path().with_file_name("up").display().to_string();
    (case, up)
}

/// Returns the git directory that is kept of a session.
fn kept(case: &Case) -> String {
    case.host("ls -d ${PWD%/*}/home/.local/state/pinfold/private/kept-*[0-9] 2>/dev/null || :")
        .trim()
        .to_owned()
}

/// Has git in a session fetch from a directory of another owner.
const ALLOW: &str = "export GIT_CONFIG_GLOBAL=/tmp/settings; git config --global safe.directory '*'; \
                     git config --global user.name a; git config --global user.email b; ";

#[test]
fn history_that_a_session_cuts_off_keeps_back_no_other_branch() {
    for site in sites() {
        let (case, up) = with_upstream(&site);
        case.host("git branch old");
        let script = format!(
            "{ALLOW}git commit -q --allow-empty -m work; git fetch -q --depth 1 file://{up} main; \
             git checkout -q -b cut FETCH_HEAD; git commit -q --allow-empty -m 'on it'; git branch -f old; \
             git checkout -q main; git commit -q --allow-empty -m more"
        );
        let (_, stderr) = text(&case.run(&["--read", &up], &script));
        let look = "git for-each-ref --format='%(refname:short) %(subject)'; git fsck --no-dangling; git status --porcelain";
        assert_eq!(case.host(look), "main more\nold first\n", "{site}: {stderr}");
        assert!(stderr.contains("refs/heads/cut, refs/heads/old: part of"), "{site}: {stderr}");
        // Nothing is lost, also where not all of the copy can come.
        let copy = kept(&case);
        let adopted = case.pinfold_itself(&["adopt", &copy]);
        let (_, said) = text(&adopted);
        assert!(!adopted.status.success() && said.contains("the rest stays in"), "{site}: {said}");
        let log = format!("git --git-dir {copy} log -1 --format=%s cut");
        assert_eq!(case.host(&log), "on it\n", "{site}: {stderr}");
    }
}

/// Makes a branch with a commit whose date git does not accept (git-fsck(1), zeroPaddedDate).
const DATED: &str = "printf 'tree %s\\nparent %s\\nauthor a <a@b> 01 +0000\\ncommitter a <a@b> 1 +0000\\n\\nodd\\n' \
                     $(git rev-parse HEAD^{tree} HEAD) | git hash-object -t commit -w --stdin --literally \
                     | xargs git update-ref refs/heads/odd; ";

#[test]
fn a_commit_that_git_refuses_keeps_back_no_other_branch() {
    for site in sites() {
        let case = site.repository();
        let script = format!(
            "{DATED} for n in 1 2 3 4 5 6 7; do git branch before$n; done; git commit -q --allow-empty -m more; \
             git tag odd-tag odd; git branch after; git checkout -q odd; echo s >s; git add s; git stash -q"
        );
        let (_, stderr) = text(&case.inside(&script));
        let look = "git log --format=%s; git branch --format='%(refname:short)' | paste -sd ' '; git tag; \
                    git fsck --no-dangling; git status --porcelain; git symbolic-ref HEAD";
        let branches = "after before1 before2 before3 before4 before5 before6 before7 main";
        let expected = format!("more\nfirst\n{branches}\nrefs/heads/main\n");
        assert_eq!(case.host(look), expected, "{site}: {stderr}");
        let said = "refs/heads/odd, refs/stash, refs/tags/odd-tag: git refuses an object of them (";
        assert!(stderr.contains(said) && stderr.contains("zeroPaddedDate"), "{site}: {stderr}");
        let log = format!("git --git-dir {} cat-file commit odd | tail -1", kept(&case));
        assert_eq!(case.host(&log), "odd\n", "{site}: {stderr}");
    }
}

#[test]
fn commits_come_out_of_a_session_that_completes_or_grafts_history() {
    for site in sites() {
        let (case, up) = with_upstream(&site);
        case.host(&format!(
            "git clone -q --depth 1 file://{up} clone; cd clone; git config user.name a; git config user.email b"
        ));
        let script = format!(
            "{ALLOW}git commit -q --allow-empty -m work; git fetch -q --unshallow file://{up}; git branch old HEAD~3; \
             git rev-parse HEAD >.git/info/grafts; git commit -q --allow-empty -m more 2>/dev/null; \
             git replace HEAD~1 old 2>/dev/null"
        );
        let (_, stderr) = text(&case.run_in("clone", &["--read", &up], &script));
        let look = "cd clone; git log --format=%s; git log --format=%s old; git fsck --no-dangling; git replace";
        assert_eq!(case.host(look), "more\nwork\nup4\nup2\nup1\n", "{site}: {stderr}");
        assert!(!stderr.contains("not taken over"), "{site}: {stderr}");
    }
}

#[test]
fn commits_on_a_head_that_is_on_no_branch_are_kept() {
    for site in sites() {
        let case = site.repository();
        let script = "git symbolic-ref HEAD refs/remotes/x/y; git commit -q --allow-empty -m one; \
                      git commit -q --allow-empty -m two";
        let (_, stderr) = text(&case.inside(script));
        let look = "git symbolic-ref HEAD; git for-each-ref --format='%(subject)'";
        assert_eq!(case.host(look), "refs/heads/main\nfirst\ntwo\n", "{site}: {stderr}");
        assert!(stderr.contains("refs/remotes/x/y in "), "{site}: {stderr}");
    }
}

#[test]
fn notes_and_other_references_of_a_session_are_kept() {
    for site in sites() {
        let case = site.repository();
        case.host("git notes add -m old; git update-ref refs/odd/host HEAD");
        let script = "git notes append -m new; \
                      git update-ref refs/custom/thing $(git commit-tree -m aside HEAD^{tree} -p HEAD); \
                      git checkout -q --detach; echo x >.envrc; git add -f .envrc; git commit -qm planted; \
                      git update-ref refs/custom/planted HEAD; git checkout -q main";
        let (_, stderr) = text(&case.inside(script));
        let look =
            "git notes show; git for-each-ref --format='%(subject)' refs/pinfold | LC_ALL=C sort";
        let expected = "old\nNotes added by 'git notes append'\naside\nplanted\n";
        assert_eq!(case.host(look), expected, "{site}: {stderr}");
        for name in ["refs/custom/thing in ", "refs/notes/commits in ", "it brings .envrc"] {
            assert!(stderr.contains(name), "{site}: {stderr}");
        }
        let (_, stderr) = text(&case.inside("git commit -q --allow-empty -m more"));
        assert!(!stderr.contains("not taken over"), "{site}: {stderr}");
    }
}

#[test]
fn commits_that_only_a_detached_worktree_or_an_odd_stash_leads_to_are_kept() {
    for site in sites() {
        let case = site.repository();
        case.host("git worktree add -q --detach ../elsewhere; git -C ../elsewhere commit -q --allow-empty -m host");
        let script = "git worktree add -q --detach /tmp/one; git -C /tmp/one commit -q --allow-empty -m detached; \
                      git worktree add -q --detach /tmp/two; \
                      git update-ref refs/stash $(git commit-tree -m listless HEAD^{tree})";
        let (_, stderr) = text(&case.inside(script));
        let look = "git for-each-ref --format='%(subject)' refs/pinfold | LC_ALL=C sort";
        assert_eq!(case.host(look), "detached\nlistless\n", "{site}: {stderr}");
        for name in ["worktrees/one/HEAD in ", "refs/stash in "] {
            assert!(stderr.contains(name), "{site}: {stderr}");
        }
        let script =
            "git update-ref --create-reflog refs/stash $(git commit-tree -m listed HEAD^{tree})";
        let (_, stderr) = text(&case.inside(script));
        assert!(case.host(look).contains("listed\n"), "{site}: {stderr}");
        assert!(
            stderr.contains("a stash in ") && case.host("git stash list").is_empty(),
            "{site}: {stderr}"
        );
    }
}

/// A sandbox wrote the copy, with its configuration: no git of the host's reads it.
#[test]
fn references_beyond_those_that_are_kept_stay_in_a_copy_that_can_be_adopted() {
    for site in sites() {
        let case = site.repository();
        let evil = case.evil();
        let script = format!(
            "for name in fsmonitor pager sshCommand hooksPath; do git config core.$name {0}; done; git config alias.log '!{0}'; \
             git config gpg.program {0}; git config log.showSignature true; printf '#!/bin/sh\n{0}\n' >.git/post-checkout; mkdir .git/hooks; mv .git/post-checkout .git/hooks; \
             for number in $(seq 101); do \
             echo create refs/custom/$number $(git commit-tree -m $number HEAD^{{tree}}); done | git update-ref --stdin",
            evil.display()
        );
        let (_, stderr) = text(&case.inside(&script));
        let came = || case.host("git for-each-ref refs/pinfold | wc -l");
        assert_eq!(came(), "100\n", "{site}: {stderr}");
        let copy = kept(&case);
        assert!(
            stderr.contains("`pinfold adopt` puts back what was set aside"),
            "{site}: {stderr}"
        );
        let (listed, _) = text(&case.pinfold_itself(&["adopt"]));
        assert!(listed.contains(&copy), "{site}: {listed}");
        let adopted = case.pinfold_itself(&["adopt", &copy]);
        let (_, said) = text(&adopted);
        assert!(adopted.status.success() && said.contains(" 101 references"), "{site}: {said}");
        assert_eq!((came().as_str(), kept(&case).as_str()), ("101\n", ""), "{site}: {said}");
        assert!(!case.was_marked(), "{site}");
    }
}

#[test]
fn branches_of_a_copy_wait_below_names_of_their_own() {
    for site in sites() {
        let case = site.repository();
        // A FIFO keeps git waiting, and without the right to write a directory cannot be moved elsewhere.
        let script = "git commit -q --allow-empty -m more; git branch side; echo s >s; git add s; git stash -q; \
                      git checkout -q --detach; git commit -q --allow-empty -m detached; \
                      mkfifo .git/refs/pipe; chmod 0 .git/objects; chmod 500 .git";
        let (_, stderr) = text(&case.inside(script));
        let look = "git log --format=%s; git for-each-ref --format='%(refname:lstrip=3) %(subject)' refs/pinfold; git stash list";
        assert_eq!(case.host(look), "first\n", "{site}: {stderr}");
        let copy = kept(&case);
        assert!(stderr.contains(&format!("`pinfold adopt {copy}`")), "{site}: {stderr}");
        let adopted = case.pinfold_itself(&["adopt", &copy]);
        let (_, said) = text(&adopted);
        assert!(adopted.status.success() && kept(&case).is_empty(), "{site}: {said}");
        let came = case.host(look);
        assert!(
            came.starts_with("first\nheads/main more\nheads/side more\nstash/"),
            "{site}: {came}"
        );
        assert!(came.contains(" detached\n"), "{site}: {came}");
        let command = said.split('`').nth(1).unwrap();
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let accepted = case.pinfold_itself(&words);
        assert!(accepted.status.success(), "{site}: {command}: {}", text(&accepted).1);
        let look = "git log --format=%s; git rev-parse --abbrev-ref side; git fsck --no-dangling; git status --porcelain";
        assert_eq!(case.host(look), "more\nfirst\nside\n", "{site}: {said}");
    }
}

/// By the record of its session: which names are protected there, and what the configuration names.
#[test]
fn branches_of_a_copy_that_bring_what_tools_run_are_named() {
    for site in sites() {
        let case = site.repository();
        case.host("git config core.hooksPath tools; mkdir tools; echo x >tools/x; git add tools; git commit -qm tools");
        let script = "echo o >o; git add o; git commit -qm plain; git branch plain; \
                      git checkout -q -b direnv; echo x >.envrc; git add -f .envrc; git commit -qm direnv; \
                      git checkout -q -b hooked main; git update-index --add --cacheinfo 100755,$(git hash-object -w o),tools/pre-commit; \
                      git commit -qm hooked; git reset -q --hard; git checkout -q main; git tag planted direnv; \
                      git stash store $(git commit-tree -p HEAD -p direnv -m wip direnv^{tree}); mkfifo .git/refs/pipe";
        let (_, stderr) = text(&case.inside(script));
        let copy = kept(&case);
        assert!(!copy.is_empty(), "{site}: {stderr}");
        let (_, said) = text(&case.pinfold_itself(&["adopt", &copy]));
        let line =
            |name: &str| said.lines().find(|line| line.contains(&format!("refs/{name} in ")));
        let brings = |name: &str, path: &str| {
            line(name).is_some_and(|it| it.contains(&format!("it brings {path}, which tools run")))
        };
        assert!(brings("heads/direnv", ".envrc"), "{site}: {said}");
        assert!(brings("heads/hooked", "tools/pre-commit"), "{site}: {said}");
        assert!(brings("tags/planted", ".envrc"), "{site}: {said}");
        let stash = said.lines().find(|line| line.contains("a stash in "));
        assert!(stash.is_some_and(|it| it.contains("it brings .envrc")), "{site}: {said}");
        assert!(line("heads/plain").is_none() && line("heads/main").is_none(), "{site}: {said}");
        assert!(said.contains("takes branches: look first at what is named"), "{site}: {said}");
    }
}

/// In a file, a name may be a directory of others, too. The host's git takes only one of both, so each is tried by itself.
#[test]
fn session_with_many_names_that_exclude_each_other_ends_soon_and_its_copy_is_kept() {
    for site in sites() {
        let case = site.repository();
        let script = "git pack-refs --all; h=$(git rev-parse HEAD); for n in $(seq 10000 12000); do \
                      echo $h refs/tags/t$n; echo $h refs/tags/t$n/x; done >>.git/packed-refs";
        let began = std::time::Instant::now();
        let (_, stderr) = text(&case.inside(script));
        assert!(
            stderr.contains("git refused references of the session too often"),
            "{site}: {stderr}"
        );
        assert!(!kept(&case).is_empty(), "{site}: {stderr}");
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{site}: {stderr}");
    }
}

/// Returns a script that makes `$tree` of ten levels of ten names each: few objects, and more files than git has memory for.
/// It reaches its bound after a second with names of 200 characters, after some six with names of one.
fn too_many_files(width: usize) -> String {
    let names = format!("for n in $(seq -f %0{width}.0f 0 9)");
    format!(
        "tree=$(git hash-object -w file); kind='100644 blob'; for level in $(seq 10); do \
         tree=$({names}; do printf '%s %s\\t%s\\n' \"$kind\" $tree $n; done | git mktree); kind='040000 tree'; done"
    )
}

#[test]
fn branch_that_git_cannot_judge_within_its_bounds_keeps_back_no_other() {
    let site = sites().pop().unwrap();
    let case = site.repository();
    let script = "git branch many $(git commit-tree -p HEAD -m many $tree); \
                  git checkout -q -b good; git commit -q --allow-empty -m good; git checkout -q main; git commit -q --allow-empty -m more";
    let (_, stderr) = text(&case.inside(&format!("{}; {script}", too_many_files(200))));
    let refs = case.host("git for-each-ref --format='%(refname) %(subject)'");
    let (kept, moved): (Vec<&str>, Vec<&str>) =
        refs.lines().partition(|line| line.starts_with("refs/pinfold/"));
    assert_eq!(moved, ["refs/heads/good good", "refs/heads/main more"], "{stderr}");
    assert!(kept.len() == 1 && kept[0].ends_with("/heads/many many"), "{refs}");
    assert!(stderr.contains("by themselves (git may have 1024 MiB of memory"), "{stderr}");
}

#[test]
fn number_of_programs_of_git_does_not_grow_with_tags_of_trees() {
    let site = sites().pop().unwrap();
    let case = site.repository();
    let script = "git pack-refs --all; o=$(git hash-object -w file); \
                  for n in $(seq 500); do printf '100644 blob %s\\t%s\\n\\n' $o $n; done | git mktree --batch | \
                  while read -r t; do echo $t refs/tags/t$t; done | sort -k2 >>.git/packed-refs";
    let (_, stderr) = text(&case.inside(script));
    assert_eq!(case.host("git tag | wc -l").trim(), "500", "{stderr}");
    // While the session lives, up to 512 trees are compared by themselves for new submodules (`gitlinks.rs`).
    let programs = case.host("grep -c '\"--raw\"' ${PWD%/*}/home/.local/state/pinfold/audit.jsonl");
    assert!(programs.trim().parse::<u32>().unwrap() < 20, "{programs}");
}

/// The time of all judgements is over after a dozen of the slow ones.
#[test]
#[ignore = "90 s of git: .ci/weekly"]
fn stash_that_git_has_no_time_left_to_judge_waits() {
    let site = sites().pop().unwrap();
    let case = site.repository();
    let script = "git config user.name x; git config user.email x; o=$(git hash-object -w file); \
                  run=$(printf '100644 blob %s\\ttasks.json\\n' $o | git mktree); run=$(printf '040000 tree %s\\t.vscode\\n' $run | git mktree); \
                  i=$(git commit-tree -p HEAD -m index HEAD^{tree}); \
                  put() { git stash store -m $1 $(git commit-tree -p HEAD -p $i -m $1 $2); }; \
                  put brings $run; for n in $(seq 16); do put slow$n $tree; done; put brings-too $run; git stash list | wc -l";
    let (inside, stderr) = text(&case.inside(&format!("{}; {script}", too_many_files(1))));
    assert_eq!(inside.trim(), "18", "{stderr}");
    assert_eq!(case.host("git stash list"), "", "{stderr}");
}

/// Each of the slow ones has a commit that git cannot check out within its bounds, which takes it seconds.
#[test]
fn end_of_a_session_with_many_slow_repositories_sets_them_aside_and_rebuilds_the_others() {
    let site = sites().pop().unwrap();
    let case = site.repository();
    let script = "git update-ref HEAD $(git -c user.name=x -c user.email=x commit-tree -m many $tree); cd ..; \
                  for n in $(seq 20); do mkdir -p r/$n; cp -r slow/.git r/$n; done; \
                  for n in $(seq 5); do git init -q r/good$n; cp file r/good$n; git -C r/good$n add file; \
                  git -C r/good$n -c user.name=x -c user.email=x commit -qm good; done; true";
    let make = format!("git init -q slow; cd slow; cp ../file .; {}", too_many_files(1));
    let (_, stderr) = text(&case.inside(&format!("{make}; {script}")));
    assert!(!stderr.contains("not everything that the session changed"), "{stderr}");
    let left = case.host("find . -mindepth 2 -name .git | sort");
    let good: Vec<String> = (1..=5).map(|n| format!("./r/good{n}/.git")).collect();
    assert_eq!(left.lines().collect::<Vec<_>>(), good, "{stderr}");
    assert_eq!(case.host("git -C r/good1 log --format=%s").trim(), "good");
}
