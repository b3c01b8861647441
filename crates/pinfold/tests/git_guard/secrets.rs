//! Files that are secret by name, where git tracks them.

use super::common::{sites, text};

/// Two files that git has as they are, and one with something typed into it.
const TRACKED: &str = "mkdir -p testdata sub/.aws; echo pem > testdata/server.pem; echo A= > .env; \
    echo B= > prod.env; echo c > sub/.aws/credentials; git add .; git commit -qm more; \
    echo secret >> prod.env; echo typed >> sub/.aws/credentials; echo free > sub/local.env";

#[test]
fn secret_names_with_committed_content_are_not_hidden() {
    for site in sites() {
        let case = site.repository();
        case.host(TRACKED);
        case.host("git update-index --index-version 4");
        let script = "cat testdata/server.pem .env; cat prod.env sub/local.env sub/.aws/credentials; \
                      echo more >> .env; echo more >> testdata/server.pem";
        let (shown, stderr) = text(&case.inside(script));
        assert_eq!(shown, "pem\nA=\n", "{site}: {stderr}");
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
        let (shown, stderr) = text(&output);
        assert!(output.status.success(), "{site}: {shown}{stderr}");
        assert_eq!(shown, "", "{site}: {stderr}");
        let look = "git show --stat --format=%s HEAD; git status --porcelain; tail -n1 prod.env";
        let expected = "a\n\n file | 1 +\n 1 file changed, 1 insertion(+)\n M prod.env\n \
                        M sub/.aws/credentials\n?? sub/local.env\nsecret\n";
        assert_eq!(case.host(look), expected, "{site}: {stderr}");
    }
}

#[test]
fn hidden_files_look_empty_and_cannot_be_changed() {
    for site in sites() {
        for mode in ["shared_mount", "overlay"] {
            let case = site.repository();
            case.host(
                "echo key >.env; chmod 600 .env; mkdir .aws; echo key >.aws/credentials; echo key >x.pem
                 echo key >.envrc
                 touch -d 2001-01-01 .env .aws",
            );
            let before = case.host("stat -c '%n %i %s %Y %a' .env .aws x.pem; cat .env x.pem");
            let script = "
                stat -c '%n %F %s %A' .env x.pem; stat -c '%n %F %A' .aws; ls -A .aws; cat .env x.pem
                stat -c %Y .env | cut -c1-3
                for c in 'echo x >.env' 'echo x >>.env' 'rm -f .env' 'mv .env y' 'chmod 600 .env' \
                    'touch .env' 'ln .env y' 'echo x >.aws/x' 'rmdir .aws' 'mv x.pem .env' 'truncate -s 9 .env' \
                    './.env'; do (eval \"$c\") 2>/dev/null && echo \"did $c\"; done; echo end";
            let (shown, stderr) = text(&case.run(&["--workspace", mode], script));
            let year = &case.host("date +%s | cut -c1-3");
            let expected = format!(
                ".env regular empty file 0 -r--r--r--\nx.pem regular empty file 0 -r--r--r--\n\
                 .aws directory dr-xr-xr-x\n{year}end\n"
            );
            assert_eq!(shown, expected, "{site}, {mode}: {stderr}");
            let note = "pinfold: note: hidden in the sandbox: .aws, .env, .envrc and 1 more (`pinfold check read .aws`";
            assert!(stderr.starts_with(note), "{site}, {mode}: {stderr}");
            assert_eq!(stderr.matches("hidden in the sandbox").count(), 1, "{stderr}");
            let after = case.host("stat -c '%n %i %s %Y %a' .env .aws x.pem; cat .env x.pem");
            assert_eq!(after, before, "{site}, {mode}");
        }
    }
}

#[test]
fn the_note_names_few_hidden_files_and_says_nothing_without_any() {
    for site in sites() {
        let case = site.repository();
        let note = |case: &super::common::Case| text(&case.inside("true")).1;
        assert_eq!(note(&case), "", "{site}");
        case.host("for n in 1 2 3 4 5; do echo x >$n.pem; done; mkdir sub");
        assert!(
            note(&case).contains(": 1.pem, 2.pem, 3.pem and 2 more ("),
            "{site}: {}",
            note(&case)
        );
        let (_, stderr) = text(&case.run_in("sub", &[], "true"));
        assert!(stderr.contains("/work/1.pem, "), "{site}: {stderr}");
    }
}

#[test]
fn git_takes_nothing_of_what_stands_for_a_hidden_file() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "mkdir -p .git/info; printf '*.log\\n/wt\\n' >.git/info/exclude; echo k >'a [b]*.env'; echo k >.env
             mkdir .aws; echo k >.aws/credentials; echo l >x.log; git worktree add -q wt -b wt; echo k >wt/.env",
        );
        let script = "set -e; git status --short; echo new >new; git add -A; git add .; git commit -qm new
             git ls-files; git stash -qu 2>/dev/null || true; git clean -fdq; cd wt; git add -A; git status --short";
        let (shown, stderr) = text(&case.inside(script));
        assert_eq!(shown, "evil\nfile\nnew\n", "{site}: {stderr}");
        assert_eq!(
            case.host("cat .env wt/.env 'a [b]*.env' .git/info/exclude"),
            "k\nk\nk\n*.log\n/wt\n"
        );
    }
}

#[test]
fn no_link_in_a_git_directory_leads_what_is_written_elsewhere() {
    for site in sites() {
        for prepare in [
            "mkdir ../other; rm -rf .git/info; ln -s ../../other .git/info",
            "mkdir ../other .git/info; echo mine >../other/exclude; ln -s ../../../other/exclude .git/info/exclude",
            "git init -q --template= ../other; git worktree add -q wt -b wt; echo k >wt/.env
             echo $PWD/../other/.git >.git/worktrees/wt/commondir",
        ] {
            let case = site.repository();
            case.host(prepare);
            case.host("echo k >.env");
            let look = "cd ../other; find . -type f -exec cat {} + -print | LC_ALL=C sort";
            let before = case.host(look);
            case.inside("git status; git add -A");
            assert_eq!(case.host(look), before, "{site}: {prepare}");
        }
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
        let (shown, stderr) = text(&case.inside("cat s/.env"));
        assert_eq!(shown, "", "{site}: {stderr}");
    }
}
