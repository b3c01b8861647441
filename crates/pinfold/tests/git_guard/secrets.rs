//! Files that are secret by name, where git tracks them.

use super::common::{sites, text};

/// Two files that git has as they are, and one with something typed into it.
const TRACKED: &str = "mkdir -p testdata sub/.aws; echo pem > testdata/server.pem; echo A= > .env; \
    echo B= > prod.env; echo c > sub/.aws/credentials; git add .; git commit -qm more; \
    echo secret >> prod.env; echo typed >> sub/.aws/credentials; echo free > sub/local.env";

#[test]
fn what_git_has_as_it_is_is_not_hidden() {
    for site in sites() {
        let case = site.repository();
        case.host(TRACKED);
        case.host("git update-index --index-version 4");
        let script = "cat testdata/server.pem .env; cat prod.env sub/local.env sub/.aws/credentials; \
                      echo more >> .env; echo more >> testdata/server.pem";
        let (shown, told) = text(&case.inside(script));
        assert_eq!(shown, "pem\nA=\n", "{site}: {told}");
        assert_eq!(case.host("cat .env; tail -n1 testdata/server.pem"), "A=\nmore\nmore\n");
    }
}

#[test]
fn check_says_why_a_secret_by_name_is_not_hidden() {
    for site in sites() {
        let case = site.repository();
        case.host(TRACKED);
        let check = |path: &str| text(&case.pinfold_itself(&["check", "read", path])).0;
        assert!(check(".env").contains("git has this very content"), "{site}: {}", check(".env"));
        assert!(check("prod.env").contains("is hidden"), "{site}: {}", check("prod.env"));
        case.host("echo typed > .env");
        assert!(check(".env").contains("is hidden"), "{site}: {}", check(".env"));
    }
}

#[test]
fn git_skips_what_is_hidden() {
    for site in sites() {
        let case = site.repository();
        case.host(TRACKED);
        let script = "set -e; git status --porcelain; echo a >> file; git commit -qam a; \
                      echo b >> file; git stash -q; git stash pop -q; git reset -q --hard; \
                      git checkout -q -b b HEAD~; git checkout -q main; git rebase -q b";
        let output = case.inside(script);
        let (shown, told) = text(&output);
        assert!(output.status.success(), "{site}: {shown}{told}");
        assert_eq!(shown, "?? sub/local.env\n", "{site}: {told}");
        let look = "git show --stat --format=%s HEAD; git status --porcelain; tail -n1 prod.env";
        let expected = "a\n\n file | 1 +\n 1 file changed, 1 insertion(+)\n M prod.env\n \
                        M sub/.aws/credentials\n?? sub/local.env\nsecret\n";
        assert_eq!(case.host(look), expected, "{site}: {told}");
    }
}

#[test]
fn an_index_that_lies_shows_nothing() {
    for site in sites() {
        let case = site.repository();
        // The name is tracked with another content, in a repository around the secret, too.
        case.host("mkdir s; cd s; git init -q; echo key > .env; echo x > x; git add x");
        let lie = "cd s; git update-index --add --cacheinfo 100644,$(git hash-object x),.env; \
                   git update-index --assume-unchanged .env; cd ..; cp s/.git/index .git/index; \
                   printf 'DIRC\\000\\000\\000\\004\\377\\377\\377\\377' > s/.git/index";
        case.inside(lie);
        let (shown, told) = text(&case.inside("cat s/.env"));
        assert_eq!(shown, "", "{site}: {told}");
    }
}
