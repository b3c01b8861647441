//! Protected files under the switches of branches: what git says, and what becomes of the host's.

use super::common::{Case, Site, sites, text};

#[test]
fn git_says_that_a_protected_file_is_read_only() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "echo a > .envrc; echo {} > .mcp.json; git add .; git commit -qm a; git checkout -q -b b; \
             echo b > .envrc; echo '{ }' > .mcp.json; git commit -qam b; git checkout -q main",
        );
        let output = case.inside("git checkout b; git status --porcelain");
        let (_, stderr) = text(&output);
        assert!(stderr.contains(".envrc'") && stderr.contains("busy"), "{site}: {stderr}");
        println!("{stderr}");
        // The host gets what its branch has once nothing is masked any more.
        let look = "cat .envrc .mcp.json; git status --porcelain";
        assert_eq!(case.host(look), "b\n{ }\n", "{site}: {stderr}");
    }
}

/// A repository on a branch with protected files, which `main` does not have and `other` has otherwise.
fn with_protected_files(site: &Site) -> Case {
    let case = site.repository();
    case.host(
        "git checkout -q -b tools; mkdir pkg; echo a | tee .envrc pkg/.envrc > .pre-commit-config.yaml; \
         chmod +x pkg/.envrc; git add .; git commit -qm tools; git checkout -q -b other; echo b > .envrc; \
         git commit -qam other; git checkout -q tools",
    );
    case
}

#[test]
fn branch_with_protected_files_can_be_left_and_entered_again() {
    const LOOK: &str =
        "git status --porcelain; git symbolic-ref HEAD; find . -name .envrc -o -name .pre*";
    for site in sites() {
        let case = with_protected_files(&site);
        let to = |branch: &str| format!("git checkout -q {branch} && git status --porcelain && ");
        let script = [to("main"), to("tools"), to("main"), "echo left".into()].concat();
        let (shown, stderr) = text(&case.inside(&script));
        assert_eq!(shown, "left\n", "{site}: {stderr}");
        assert!(stderr.contains("removed, as in your branches"), "{site}: {stderr}");
        assert_eq!(case.host(LOOK), "refs/heads/main\n", "{site}: {stderr}");
        case.host("git checkout -q tools");
        let (_, stderr) = text(&case.inside("git checkout -q main; git checkout -q other"));
        let look = "git status --porcelain; git symbolic-ref HEAD; cat .envrc; stat -c '%A %U' pkg/.envrc; stat -c %U .";
        let shown = case.host(look);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[..2], ["refs/heads/other", "b"], "{site}: {stderr}");
        assert!(lines[2].starts_with("-rwx") && lines[2].ends_with(lines[3]), "{site}: {shown}");
    }
}

#[test]
fn protected_file_that_is_not_as_its_branch_had_it_stays() {
    for site in sites() {
        // Changed by the user, deleted by a commit of the session's, and of no branch that is checked out.
        let cases = [
            ("echo mine > .envrc", "git checkout -q -f main", "mine\n"),
            (
                "true",
                "git rm -q --cached .envrc; git commit -qm gone; git checkout -q -b new",
                "a\n",
            ),
            ("true", "git checkout -q -f main", ""),
            (
                "git checkout -q main; git show tools:.envrc > .envrc",
                "git checkout -q -b new",
                "a\n",
            ),
            (
                "git update-index --assume-unchanged .envrc; echo mine > .envrc",
                "git checkout -q -f main",
                "mine\n",
            ),
        ];
        for (host, inside, expected) in cases {
            let case = with_protected_files(&site);
            case.host(host);
            let (_, stderr) = text(&case.inside(inside));
            let shown = case.host("cat .envrc 2>/dev/null || true");
            assert_eq!(shown, expected, "{site}: {host}; {inside}: {stderr}");
        }
    }
}

/// `.mvn/jvm.config` has another name where `.mvn` is a link.
#[test]
fn names_behind_a_link_are_protected_as_the_host_finds_them() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "mkdir old; echo a > old/maven.config; ln -s old .mvn; git add .; git commit -qm a",
        );
        let (_, stderr) = text(&case.inside(
            "mkdir new; echo x > new/jvm.config; ln -s new pkg; mkdir sub; ln -s ../new sub/.mvn; \
             echo x > old/jvm.config; echo x >> old/maven.config; ln -sfn new .mvn; true",
        ));
        let look = "readlink .mvn; cat .mvn/*; ls -A sub; ls new pkg/";
        assert_eq!(
            case.host(look),
            "old\na\nnew:\njvm.config\n\npkg/:\njvm.config\n",
            "{site}: {stderr}"
        );
    }
}

/// A file with two names is one file.
#[test]
fn other_names_of_a_protected_file_are_protected() {
    for site in sites() {
        let case = site.repository();
        case.host("echo a > .mcp.json; ln .mcp.json other; echo b > apart");
        let (_, stderr) =
            text(&case.inside("echo x >> other; echo x >> .mcp.json; echo x > apart; true"));
        assert_eq!(case.host("cat .mcp.json other apart"), "a\na\nx\n", "{site}: {stderr}");
    }
}

#[test]
fn names_that_are_protected_at_the_top_of_a_grant_are_so_in_commits() {
    for site in sites() {
        let case = site.repository();
        case.host("mkdir sub; touch sub/s; git add sub; git commit -qm sub");
        let script = "b=$(echo evil | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$b,sub/.bashrc; \
                      git commit -qm planted; git branch other HEAD~";
        let sub = case.path().join("sub").display().to_string();
        let (_, stderr) = text(&case.run(&["--write", &sub], script));
        assert!(stderr.contains("it brings sub/.bashrc"), "{site}: {stderr}");
        assert_eq!(case.host("git log -1 --format=%s; git branch --list other"), "sub\n  other\n");
    }
}
