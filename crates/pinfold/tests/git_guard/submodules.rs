//! Submodules that a session adds or checks out.

use super::common::{Case, Site, sites, text, wait_for_line};

/// A library next to the workspace, with a submodule `inner` of its own, and a workspace with a
/// submodule `known` that is checked out and `later` that is not.
const PREPARE: &str = "git config --global protocol.file.allow always; cd ..; \
    for name in inner lib; do git init -q -b main $name; (cd $name; git config user.name a; \
    git config user.email b; echo $name >$name; git add .; git commit -qm $name); done; \
    (cd lib; git submodule --quiet add $PWD/../inner inner; git commit -qm with; git branch other); \
    cd work; git submodule --quiet add $PWD/../lib known; git submodule --quiet add $PWD/../lib later; \
    git commit -qm modules; git submodule --quiet deinit -f later; rm -rf .git/modules/later";

/// What a user does afterwards; each of it fails where a `.git` file leads nowhere.
const USE: &str = "git status --porcelain; git diff --submodule; git submodule --quiet update; \
    git submodule foreach --quiet 'git status --porcelain; git fsck --no-progress --no-dangling'; \
    git submodule status --recursive | cut -c1,43-";

fn prepared(site: &Site) -> Case {
    let case = site.repository();
    case.host(PREPARE);
    case
}

/// Has git in a session clone from directories of another owner.
const ALLOW: &str = "export GIT_CONFIG_GLOBAL=/tmp/settings; git config --global protocol.file.allow always; \
    git config --global safe.directory '*'; git config --global user.name a; git config --global user.email b; ";

fn outer(case: &Case) -> String {
    case.path().parent().unwrap().display().to_string()
}

/// Runs a script in a session that can read the libraries.
fn inside(case: &Case, script: &str) -> String {
    let outer = outer(case);
    let (lib, inner) = (format!("{outer}/lib"), format!("{outer}/inner"));
    let script = format!("set -e; {ALLOW}{script}");
    let output = case.run(&["--read", &lib, "--read", &inner], &script);
    let (shown, stderr) = text(&output);
    assert!(output.status.success(), "{shown}{stderr}");
    stderr
}

#[test]
fn submodules_of_a_session_work_on_the_host_afterwards() {
    for site in sites() {
        let case = prepared(&site);
        let lib = format!("{}/lib", outer(&case));
        let stderr = inside(
            &case,
            &format!(
                "git submodule --quiet add {lib} vendor/dep; git -C vendor/dep submodule --quiet update --init; \
                 git submodule --quiet update --init later; cd vendor/dep; git checkout -q -b own; \
                 echo more >>lib; git commit -qam more; cd ../..; \
                 git commit -qam added"
            ),
        );
        let shown = case.host(USE);
        let expected = " known (heads/main)\n later (heads/main)\n vendor/dep (heads/own)\n";
        let without: String = shown
            .lines()
            .filter(|line| !line.contains("inner"))
            .map(|it| format!("{it}\n"))
            .collect();
        assert_eq!(without, expected, "{site}: {shown}{stderr}");
        assert!(shown.contains(" vendor/dep/inner (heads/main)"), "{site}: {shown}{stderr}");
        assert!(stderr.contains("taken over: submodule"), "{site}: {stderr}");
        assert!(!stderr.contains("/.git (set aside"), "{site}: {stderr}");
        assert_eq!(case.host("cat vendor/dep/.git"), "gitdir: ../../.git/modules/vendor/dep\n");
        assert_eq!(
            case.host("git -C vendor/dep log -1 --format=%s own"),
            "more\n",
            "{site}: {stderr}"
        );
        // The next session sees them as any other, and its commits cross.
        inside(&case, "cd vendor/dep; git commit -q --allow-empty -m again");
        assert_eq!(case.host("git -C vendor/dep log -1 --format=%s own"), "again\n", "{site}");
    }
}

#[test]
fn git_on_the_host_works_while_a_session_checks_a_submodule_out() {
    for site in sites() {
        let case = prepared(&site);
        let script = "git submodule --quiet update --init later; echo ready; read line; \
                      cd later; git checkout -q -b late; git commit -q --allow-empty -m late";
        let lib = format!("{}/lib", outer(&case));
        let mut child = case.spawn(&["--read", &lib], &format!("{ALLOW}{script}"));
        wait_for_line(&mut child, "ready");
        let look = "for n in $(seq 100); do git status >/dev/null 2>&1 && break; sleep .1; done; \
                    git status --porcelain; git submodule status later | cut -c1,43-";
        assert_eq!(case.host(look), " later (heads/main)\n", "{site}");
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(case.host("git -C later log -1 --format=%s late"), "late\n", "{site}: {stderr}");
    }
}

#[test]
fn a_new_submodule_waits_until_git_on_the_host_can_enter_it() {
    for site in sites() {
        for branch in
            ["true", "git checkout -q -b other", "git checkout -q -b other; git checkout -q main"]
        {
            let case = prepared(&site);
            let evil = case.evil().display().to_string();
            let script = format!(
                "{ALLOW}{branch}; git init -q -b main nest; git -C nest commit -q --allow-empty -m nest; \
                 git -C nest config core.fsmonitor {evil}; git add -f nest 2>/dev/null; \
                 git commit -qm nest; echo x >plain; git branch plain main~; echo ready; read line"
            );
            let mut child = case.spawn_inside(&script);
            wait_for_line(&mut child, "ready");
            // Another branch shows that both sides are in step.
            case.host("for n in $(seq 100); do git rev-parse -q --verify plain && break; sleep .1; done >/dev/null; \
                       git status; git diff; git submodule status; git checkout -q -f other || :; git status");
            assert!(!case.was_marked(), "{site}, {branch}");
            drop(child.stdin.take());
            let (_, stderr) = text(&child.wait_with_output().unwrap());
            case.use_git_everywhere();
            assert!(!case.was_marked(), "{site}, {branch}: {stderr}");
        }
    }
}

/// git leaves a submodule out of a comparison that `.gitmodules` ignores, and the session can take that back.
#[test]
fn new_submodule_that_git_ignores_waits_as_well() {
    for site in sites() {
        let case = prepared(&site);
        let evil = case.evil().display().to_string();
        let settings = "git config -f .gitmodules submodule.nest.path nest; \
                        git config -f .gitmodules submodule.nest.url ./x";
        let script = format!(
            "{ALLOW}{settings}; git config -f .gitmodules submodule.nest.ignore all; git commit -qam modules; \
             git branch first; echo ready; until git rev-parse -q --verify seen >/dev/null; do sleep .1; done; \
             git init -q -b main nest; git -C nest commit -q --allow-empty -m nest; \
             git -C nest config core.fsmonitor {evil}; git add -f nest 2>/dev/null; git commit -qm nest; \
             git branch plain first; git config -f .gitmodules --unset submodule.nest.ignore; read line"
        );
        let mut child = case.spawn_inside(&script);
        wait_for_line(&mut child, "ready");
        let wait = |branch: &str| {
            format!(
                "for n in $(seq 100); do git rev-parse -q --verify {branch} && break; sleep .1; done >/dev/null"
            )
        };
        // Each step of the session is in step with the host before the next one.
        case.host(&format!("{}; git branch seen; {}", wait("first"), wait("plain")));
        case.host("git status; git diff; git submodule status");
        assert!(!case.was_marked(), "{site}");
        drop(child.stdin.take());
        let (_, stderr) = text(&child.wait_with_output().unwrap());
        case.use_git_everywhere();
        assert!(!case.was_marked(), "{site}: {stderr}");
    }
}

#[test]
fn a_fetch_on_the_host_calls_no_remote_of_a_submodule_of_a_session() {
    for site in sites() {
        let case = prepared(&site);
        case.host("git init -q --bare -b main ../upstream; git remote add origin ../upstream; git push -q origin main");
        let lib = format!("{}/lib", outer(&case));
        let stderr = inside(
            &case,
            &format!(
                "git submodule --quiet add {lib} dep; git -C dep remote set-url origin https://localhost:1/x; \
                 git config -f .gitmodules submodule.dep.fetchRecurseSubmodules true; \
                 git submodule --quiet update --init later; \
                 git -C later remote set-url origin https://localhost:1/x; \
                 git config -f .gitmodules submodule.later.fetchRecurseSubmodules true; \
                 git add .gitmodules; git commit -qm added"
            ),
        );
        let fetched = case.host("GIT_TRACE=1 git fetch origin 2>&1; git pull -q origin main");
        assert!(!fetched.contains("localhost"), "{site}: {fetched}{stderr}");
        assert!(case.host("git -C dep remote -v").contains("localhost"), "{site}: {stderr}");
    }
}

/// So it is when pinfold was killed after it had rebuilt a submodule and set the session's own aside.
#[test]
fn a_git_file_that_leads_to_a_git_directory_of_the_host_stays() {
    for site in sites() {
        let case = prepared(&site);
        case.host("rm known/.git");
        let script = "rm -rf .git/modules; echo 'gitdir: ../.git/modules/known' >known/.git; ln known/.git copy";
        let (_, stderr) = text(&case.inside(script));
        assert!(!stderr.contains("known/.git (set aside"), "{site}: {stderr}");
        let look = "cat known/.git; git -C known log -1 --format=%s; stat -c %h known/.git";
        assert_eq!(case.host(look), "gitdir: ../.git/modules/known\nwith\n1\n", "{site}: {stderr}");
    }
}

/// A supervisor that is killed between the two renames that replace a git directory leaves the submodules
/// of the old one in the new one.
#[test]
fn submodules_of_a_submodule_that_was_being_replaced_come_back() {
    for site in sites() {
        let case = prepared(&site);
        let (lib, inner) = (format!("{}/lib", outer(&case)), format!("{}/inner", outer(&case)));
        let script = format!(
            "set -e; {ALLOW}git submodule --quiet update --init --recursive later; echo ready; read go"
        );
        let mut child = case.spawn(&["--read", &lib, "--read", &inner], &script);
        wait_for_line(&mut child, "ready");
        let nested = ".git/modules/later/modules/inner/HEAD";
        case.host(&format!(
            "for n in $(seq 100); do test -f {nested} && break; sleep 0.1; done; cat {nested}"
        ));
        child.kill().unwrap();
        child.wait().unwrap();
        case.host(
            "s=$(ls ../home/.local/state/pinfold/sessions | grep -v lock); cd .git/modules; \
             cp -r later .pinfold-new-$s; rm -r .pinfold-new-$s/modules; \
             mv later/modules .pinfold-new-$s/modules",
        );
        let (_, stderr) = text(&case.inside("true"));
        let look = format!("ls -A .git/modules; test -f {nested} && echo nested");
        assert_eq!(case.host(&look), "known\nlater\nnested\n", "{site}: {stderr}");
    }
}

#[test]
fn a_new_submodule_comes_at_the_end() {
    for site in sites() {
        let case = prepared(&site);
        let script =
            "git submodule --quiet add $PWD/../lib dep && git commit -qam added; sleep 1.5";
        let lib = format!("{}/lib", outer(&case));
        let (_, stderr) = text(&case.run(&["--read", &lib], &format!("{ALLOW}{script}")));
        let look = "git log -1 --format=%s; git status --porcelain; git submodule status dep | cut -c1,43-";
        assert_eq!(case.host(look), "added\n dep (heads/main)\n", "{site}: {stderr}");
    }
}

/// A git directory that looks like a submodule's, with a working tree, made by hand.
const PLANT: &str = "plant() { g=$1; w=$2; d=.git/modules/$g; mkdir -p \"$d\" \"$w\"; \
    git init -q --bare \"$d\"; up=$(printf '%s' \"$d\" | sed 's|[^/]*|..|g'); \
    git -C \"$d\" config core.bare false; git -C \"$d\" config core.worktree \"$up/$w\"; \
    git -C \"$d\" config core.fsmonitor $PWD/evil; mkdir -p \"$d/hooks\"; cp evil \"$d/hooks/post-checkout\"; \
    down=$(printf '%s' \"$w\" | sed 's|[^/]*|..|g'); printf 'gitdir: %s/%s\\n' \"$down\" \"$d\" >\"$w/.git\"; }; ";

#[test]
fn nothing_that_a_planted_submodule_says_reaches_the_host() {
    for site in sites() {
        let case = prepared(&site);
        let before =
            case.host("cat .git/config; ls .git .git/modules/known; cat .git/modules/known/config");
        let script = format!(
            "{PLANT} plant fine fine; plant a/../../hooks up; plant known/hooks nest; plant KNOWN case; \
             plant .git/x dotgit; plant 'a b' blank; plant -u option; plant fine2 .vscode/x; \
             mkdir real; ln -s real link; plant linked real; git -C .git/modules/linked config core.worktree ../../../link; \
             plant outside o; git -C .git/modules/outside config core.worktree ../../../../home; \
             plant top t; git -C .git/modules/top config core.worktree ../../..; \
             ln -s known .git/modules/soft; mkdir s; printf 'gitdir: ../.git/modules/soft\\n' >s/.git; \
             ln -s /etc .git/modules/etc; mkdir e; printf 'gitdir: ../.git/modules/etc\\n' >e/.git; true"
        );
        let output = case.inside(&script);
        let (shown, stderr) = text(&output);
        assert!(output.status.success(), "{site}: {shown}{stderr}");
        let config = case.host("cat .git/modules/fine/config");
        assert!(
            !config.contains("fsmonitor") && config.contains("../../../fine"),
            "{site}: {config}{stderr}"
        );
        assert_eq!(
            case.host("ls .git/modules; ls .git/modules/fine/hooks 2>/dev/null || :"),
            "fine\nknown\n",
            "{site}: {stderr}"
        );
        let left = case.host("find . -name .git -type f | LC_ALL=C sort");
        assert_eq!(left, "./fine/.git\n./known/.git\n", "{site}: {stderr}");
        let after = case.host("git config --unset submodule.fine.active; git config --remove-section submodule.fine 2>/dev/null || :; \
            cat .git/config; ls .git .git/modules/known; cat .git/modules/known/config");
        assert_eq!(after, before, "{site}: {stderr}");
        case.use_git_everywhere();
        assert!(!case.was_marked(), "{site}: {stderr}");
    }
}

#[test]
fn submodule_that_the_host_made_during_the_session_stays() {
    for site in sites() {
        let case = prepared(&site);
        let lib = format!("{}/lib", outer(&case));
        let script = "echo ready; read line; git submodule --quiet update --init later; cd later; \
                      git commit -q --allow-empty -m inside";
        let mut child = case.spawn(&["--read", &lib], &format!("{ALLOW}{script}"));
        wait_for_line(&mut child, "ready");
        case.host("git init -q --bare .git/modules/later; git -C .git/modules/later config core.bare false");
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("the host has a git directory of its own"), "{site}: {stderr}");
        assert_eq!(
            case.host("git --git-dir=.git/modules/later for-each-ref"),
            "",
            "{site}: {stderr}"
        );
    }
}

#[test]
fn a_clone_with_submodules_works_on_the_host_afterwards() {
    for site in sites() {
        for place in [".", "new"] {
            let case = site.bare_directory();
            let prepare = PREPARE.split(" cd work;").next().unwrap();
            case.host(prepare);
            let clone = format!(
                "git clone -q --recurse-submodules {}/lib {place}; cd {place}; rm -rf .git/hooks",
                outer(&case)
            );
            let stderr = inside(&case, &clone);
            let look = format!("cd {place}; {USE}; cat inner/.git; git -C inner log --format=%s");
            let expected = " inner (heads/main)\ngitdir: ../.git/modules/inner\ninner\n";
            assert_eq!(case.host(&look), expected, "{site}: {stderr}");
            assert!(!stderr.contains("inner/.git (set aside"), "{site}: {stderr}");
        }
    }
}

#[test]
fn commit_of_a_submodule_that_waits_is_recorded_nowhere_on_the_host() {
    const PLANT: &str = "cd known; b=$(echo evil | git hash-object -w --stdin); \
        git update-index --add --cacheinfo 100644,$b,.envrc; git commit -qm planted; p=$(git rev-parse HEAD); \
        git reset -q --hard HEAD~; cd ..; ";
    let bump = "git update-index --cacheinfo 160000,$p,known; ";
    let elsewhere = "git -C known branch planted $p; printf '[submodule \"known\"]\\npath = other\\nurl = x\\n' \
        >.gitmodules; git add .gitmodules; git update-index --add --cacheinfo 160000,$p,other; git commit -qm bump";
    for site in sites() {
        for script in [
            format!("git -C known branch planted $p; {bump} git commit -qm bump"),
            format!(
                "git -C known branch planted $p; git checkout -q -b bump; {bump} git commit -qm bump"
            ),
            format!("git -C known branch planted $p; {bump} true"),
            format!("{bump} git stash -q"),
            // No branch of the submodule has it until the next session.
            format!("{bump} git commit -qm bump; echo $p >planted"),
            elsewhere.to_owned(),
        ] {
            let case = prepared(&site);
            let stderr = inside(&case, &format!("{PLANT}{script}; git -C known checkout -q main"));
            inside(&case, "! test -e planted || git -C known branch planted $(cat planted) || :");
            let looked = case.host(
                "git stash pop -q 2>/dev/null || :; git checkout -q -f bump 2>/dev/null || :; \
                 git submodule --quiet update --init known other 2>/dev/null || git submodule --quiet update || :; \
                 ls -A known other 2>/dev/null | grep envrc || :",
            );
            assert_eq!(looked, "", "{site}, {script}: {stderr}");
            assert!(stderr.contains("the submodule "), "{site}, {script}: {stderr}");
        }
    }
}

#[test]
fn commit_of_a_new_submodule_that_it_is_not_at_is_not_recorded_on_the_host() {
    for site in sites() {
        for submodule in ["vendor", "later"] {
            let case = prepared(&site);
            let lib = format!("{}/lib", outer(&case));
            let script = format!(
                "git submodule --quiet update --init later; git submodule --quiet add {lib} vendor; \
                 git commit -qm new; git tag plain; cd {submodule}; \
                 b=$(echo evil | git hash-object -w --stdin); git checkout -q -b planted; \
                 git update-index --add --cacheinfo 100644,$b,.envrc; git commit -qm planted; \
                 p=$(git rev-parse HEAD); git checkout -q -f main; cd ..; git checkout -q -b bump; \
                 git update-index --cacheinfo 160000,$p,{submodule}; git commit -qm bump"
            );
            let stderr = inside(&case, &script);
            let looked = case.host(
                "git branch; git tag; git checkout -q -f bump 2>/dev/null || :; \
                 git submodule --quiet update; ls -A vendor later 2>/dev/null | grep envrc || :",
            );
            assert_eq!(looked, "* main\nplain\n", "{site}, {submodule}: {stderr}");
        }
    }
}

#[test]
fn commit_of_a_submodule_and_what_records_it_come_out_together() {
    for site in sites() {
        let case = prepared(&site);
        // What the user has checked out, no branch has.
        case.host(
            "cd known; git checkout -q --detach; mkdir .vscode; echo {} >.vscode/tasks.json; git add -f .vscode; \
             git -c user.name=a -c user.email=b commit -qm mine; cd ..; git commit -qam mine",
        );
        let script = "cd known; echo more >>lib; git commit -qam more; cd ..; git commit -qam bump";
        let stderr = inside(&case, script);
        assert_eq!(
            case.host("git log -1 --format=%s; git status --porcelain"),
            "bump\n",
            "{stderr}"
        );
        assert_eq!(case.host("git -C known log -1 --format=%s"), "more\n", "{site}: {stderr}");
    }
}
