//! Commits of other repositories that a session's commits record (gitlinks).

use super::common::{Case, Site, sites, text};

/// The same commit has the same name in each session.
const SETTINGS: &str = "set -e; export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' \
    GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=b; ";

/// A commit that puts a file in place that tools run, on no branch.
const PLANT: &str = "git commit -q --allow-empty -m nest; b=$(echo evil | git hash-object -w --stdin); \
    git update-index --add --cacheinfo 100644,$b,.envrc; git commit -qm planted; p=$(git rev-parse HEAD); \
    git reset -q --hard HEAD~; ";

/// Records it in the repository around.
const RECORD: &str = "printf '[submodule \"nest\"]\\npath = nest\\nurl = ./nest\\n' >.gitmodules; git add .gitmodules; \
    git update-index --add --cacheinfo 160000,$p,nest; git commit -qm bump; ";

/// Runs scripts in a session each, and returns what a user who then updates submodules finds in the planted one.
fn after(case: &Case, scripts: &[String]) -> String {
    let mut said = String::new();
    for script in scripts {
        let output = case.inside(&format!("{SETTINGS}{script}"));
        let (shown, stderr) = text(&output);
        assert!(output.status.success(), "{shown}{stderr}");
        said.push_str(&stderr);
    }
    let look =
        "git submodule --quiet update --init 2>/dev/null || :; git log -1 --format=%s; ls -A nest";
    case.host(look) + &said
}

fn assert_waits(site: &Site, case: &Case, scripts: &[String]) {
    let said = after(case, scripts);
    assert!(said.starts_with("first\n.git\n"), "{site}: {said}");
    assert!(said.contains("the submodule nest, which tools run"), "{site}: {said}");
}

#[test]
fn commit_of_a_new_repository_that_it_is_not_at_is_not_recorded_on_the_host() {
    for site in sites() {
        let case = site.repository();
        let nest =
            format!("git init -q -b main nest; cd nest; {PLANT} git branch planted $p; cd ..; ");
        assert_waits(&site, &case, &[nest + RECORD]);
    }
}

#[test]
fn commit_below_head_of_a_new_repository_is_not_recorded_on_the_host() {
    for site in sites() {
        let case = site.repository();
        let nest = format!(
            "git init -q -b main nest; cd nest; {PLANT} git reset -q --hard $p; git rm -q .envrc; \
             git commit -qm clean; cd ..; "
        );
        let said = after(&case, &[nest + RECORD]);
        assert!(said.starts_with("first\n.git\n"), "{site}: {said}");
    }
}

#[test]
fn commit_of_a_branch_that_an_earlier_session_made_is_not_recorded_on_the_host() {
    for site in sites() {
        let case = site.repository();
        let nest =
            format!("git init -q -b main nest; cd nest; {PLANT} git branch planted $p; cd ..; ");
        let record = format!("p=$(git -C nest rev-parse planted); {RECORD}");
        assert_waits(&site, &case, &[nest, record]);
    }
}

#[test]
fn earlier_head_of_a_new_repository_with_a_file_that_was_never_in_place_is_not_recorded_on_the_host()
 {
    for site in sites() {
        let case = site.repository();
        let nest = format!(
            "git init -q -b main nest; cd nest; {PLANT} git reset -q --soft $p; git reset -q; rm -f .envrc; cd ..; "
        );
        let record = format!(
            "cd nest; p=$(git rev-parse HEAD); git rm -q --cached .envrc; git commit -qm clean; cd ..; {RECORD}"
        );
        assert_waits(&site, &case, &[nest, record]);
    }
}

#[test]
fn commit_that_no_repository_has_yet_is_not_recorded_on_the_host() {
    for site in sites() {
        let nest = format!("cd nest; {PLANT} git branch planted $p; ");
        // The repository is there before, or comes with its commit.
        let case = site.repository();
        case.host("git init -q -b main nest; mkdir -p .git/info; echo nest >.git/info/exclude");
        assert_waits(&site, &case, &[format!("cd nest; {PLANT} cd ..; {RECORD}"), nest.clone()]);
        let case = site.repository();
        let elsewhere = format!(
            "git init -q -b main /tmp/nest; (cd /tmp/nest; {PLANT} echo $p >/tmp/p); p=$(cat /tmp/p); {RECORD}"
        );
        let made = format!("git init -q -b main nest; {nest}");
        assert_waits(&site, &case, &[elsewhere, made]);
    }
}

#[test]
fn commit_that_a_new_repository_is_at_is_recorded_on_the_host() {
    for site in sites() {
        let case = site.repository();
        let script = format!(
            "git init -q -b main nest; cd nest; {PLANT} p=$(git rev-parse HEAD); cd ..; {RECORD}"
        );
        let said = after(&case, &[script]);
        assert!(said.starts_with("bump\n.git\n"), "{site}: {said}");
    }
}

/// Commits of two repositories that record each other's, of which each had all below it judged again.
#[test]
fn very_deep_chain_of_recorded_commits_waits() {
    let chain = "prev=; for n in $(seq 16); do [ $((n % 2)) = 0 ] && d=x || d=y; \
        t=$([ -z \"$prev\" ] || printf '160000 commit %s\\tsub\\n' $prev | git -C $d mktree --missing); \
        t=${t:-$(git -C $d mktree </dev/null)}; prev=$(git -C $d commit-tree -m $n $t); \
        git -C $d update-ref refs/heads/k$n $prev; done; \
        git update-index --add --cacheinfo 160000,$prev,x; git commit -qm bump";
    for site in sites() {
        let case = site.repository();
        case.host(
            "for d in x y; do git init -q -b main $d; done; mkdir -p .git/info; printf 'x\\ny\\n' >.git/info/exclude",
        );
        let (_, stderr) = text(&case.inside(&format!("{SETTINGS}{chain}")));
        assert_eq!(case.host("git log -1 --format=%s"), "first\n", "{site}: {stderr}");
        let branches =
            case.host("for d in x y; do git -C $d branch --list 'k*'; done | tr -d '\\n'");
        assert!(
            branches.contains("k1 ") && !branches.contains("k16"),
            "{site}: {branches}{stderr}"
        );
    }
}
