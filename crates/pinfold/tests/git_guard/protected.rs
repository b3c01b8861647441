//! Protected directories that the sandbox can write: git works in them, and the host takes only what
//! its own branches had.

use super::common::{Case, Site, sites, text, wait_for_line};

/// A repository whose branches differ in protected directories. `other` adds to `.vscode`, has its own
/// `.claude`, changes a hook of `.husky` and removes another one.
fn repository(site: &Site) -> Case {
    let case = site.repository();
    case.host(
        "mkdir -p .vscode .husky/lib; echo main > .vscode/settings.json; ln -s settings.json .vscode/link; \
         echo old > .vscode/old.json; printf '#!/bin/sh\\n' > .husky/pre-commit; \
         chmod +x .husky/pre-commit; echo l > .husky/lib/l; git add .; git commit -qm tools; \
         git branch same; git checkout -q -b other; echo other > .vscode/settings.json; \
         echo t > .vscode/tasks.json; git rm -q .vscode/old.json .husky/lib/l; \
         printf '#!/bin/sh\\ntrue\\n' > .husky/pre-commit; rm .vscode/link; \
         ln -s tasks.json .vscode/link; mkdir .claude; echo c > .claude/settings.json; git add .; \
         git commit -qm other; git checkout -q -b without main; \
         git rm -qr .vscode .husky; git commit -qm without; git checkout -q main",
    );
    case
}

/// What tells a branch's files: content, modes and links.
const LOOK: &str = "git status --porcelain; git symbolic-ref -q HEAD; git ls-files -s | grep -v evil | git hash-object --stdin; \
    for f in .vscode/* .husky/* .claude/*; do if [ -e $f ]; then stat -c '%n %F %u %g %A' $f; fi; done";

/// Runs git inside, and the same on a copy of the repository outside; both must look the same.
fn compare(site: &Site, script: &str) {
    let (inside, outside) = (repository(site), repository(site));
    outside.host(script);
    let (_, stderr) = text(&inside.inside(&format!("set -e\n{script}\ngit status --porcelain")));
    assert!(
        !stderr.contains("rror") && !stderr.contains("not taken over"),
        "{site}: {script}: {stderr}"
    );
    let (now, expected) = (inside.host(LOOK), outside.host(LOOK));
    assert_eq!(now, expected, "{site}: {script}: {stderr}");
    assert!(!now.starts_with([' ', '?', 'M', 'A', 'D']), "{site}: {script}: {now}");
}

#[test]
fn git_commands_over_protected_directories_leave_the_host_clean() {
    for site in sites() {
        for script in [
            "git checkout -q other",
            "git checkout -q other; git checkout -q main",
            "git merge -q other",
            "git checkout -q without",
            "git checkout -q without; git checkout -q other",
            "git checkout -q -b mine; echo m > m; git add m; git commit -qm m --no-verify; git rebase -q other",
            "git checkout -q -b mine same; echo m > m; git add m; git commit -qm m --no-verify; \
             git merge -q --no-edit other",
            "git checkout -q -b mine without; echo m > m; git add m; git commit -qm m --no-verify",
            "git checkout -q without; git merge -q --no-edit same",
            "git checkout -q other -- .vscode/tasks.json; git stash -q; git checkout -q other",
            "echo x > .vscode/settings.json; git stash -q; git stash drop -q; git checkout -q other",
            "git switch -q --detach other; git switch -q main; git reset -q --hard other",
        ] {
            compare(&site, script);
        }
    }
}

#[test]
fn a_stash_over_a_protected_directory_keeps_both_sides() {
    for site in sites() {
        let case = repository(&site);
        let script = "echo x > .vscode/settings.json; git stash -q; git checkout -q other; \
                      git checkout -q main; git stash pop -q; cat .vscode/settings.json";
        let (shown, stderr) = text(&case.inside(script));
        assert_eq!(shown, "x\n", "{site}: {stderr}");
        assert!(stderr.contains(".vscode/settings.json (set aside;"), "{site}: {stderr}");
        assert_eq!(
            case.host("cat .vscode/settings.json; git status --porcelain"),
            "main\n",
            "{site}"
        );
    }
}

#[test]
fn gitfile_that_a_session_writes_is_set_aside_and_named() {
    for site in sites() {
        let case = repository(&site);
        let before =
            case.host("git ls-files -s; stat -c '%i %Z' .vscode/settings.json .husky/pre-commit");
        let script = "echo evil > .vscode/settings.json; echo evil > .vscode/tasks.json; \
                      cp evil .husky/pre-commit; mkdir .claude/hooks; cp evil .claude/hooks/x; \
                      chmod -x .husky/pre-commit; rm .vscode/old.json; cat .vscode/tasks.json";
        let (shown, stderr) = text(&case.inside(script));
        assert_eq!(shown, "evil\n", "{site}: {stderr}");
        for name in [".vscode/settings.json", ".vscode/tasks.json", ".husky/pre-commit", ".claude"]
        {
            let said = stderr
                .contains(&format!("{name} (set aside; `pinfold adopt {name}` puts it back)"));
            assert!(said, "{site}: {name}: {stderr}");
        }
        assert!(
            stderr.contains(".vscode/old.json (deleted in the sandbox; it stays)"),
            "{site}: {stderr}"
        );
        let look = "git status --porcelain; git ls-files -s; stat -c '%i %Z' .vscode/settings.json .husky/pre-commit";
        assert_eq!(case.host(look), before, "{site}");
        let adopted = case.pinfold_itself(&["adopt", ".vscode/tasks.json"]);
        assert!(adopted.status.success(), "{site}: {}", text(&adopted).1);
        let look = "cat .vscode/tasks.json; stat -c %u:%g .vscode/tasks.json .";
        let shown = case.host(look);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0] == "evil" && lines[1] == lines[2], "{site}: {shown}");
        let adopted = case.pinfold_itself(&["adopt", ".claude"]);
        assert!(adopted.status.success(), "{site}: {}", text(&adopted).1);
        assert_eq!(case.host("ls .claude/hooks"), "x\n", "{site}");
    }
}

#[test]
fn commits_of_a_session_are_not_applied_to_a_branch_that_is_checked_out() {
    for site in sites() {
        let case = repository(&site);
        let script = "git config user.name t; git config user.email t@t; git checkout -q -b bad; \
                      cp evil .husky/pre-commit; cp evil .husky/post-checkout; git add .husky; \
                      git commit -qm bad --no-verify; git checkout -q main; git branch -f same bad; \
                      sleep 2; git checkout -q bad; git status --porcelain";
        let (shown, stderr) = text(&case.inside(script));
        assert_eq!(shown, "", "{site}: {stderr}");
        assert!(stderr.contains(".husky/pre-commit (set aside;"), "{site}: {stderr}");
        assert!(stderr.contains(".husky/post-checkout (set aside;"), "{site}: {stderr}");
        let look = "git status --porcelain; ls .husky; git config core.hooksPath .husky; git commit -q --allow-empty -m x";
        assert_eq!(case.host(look), "lib\npre-commit\n", "{site}: {stderr}");
        assert!(!case.was_marked(), "{site}");
    }
}

#[test]
fn content_of_another_path_or_mode_is_not_applied() {
    for site in sites() {
        let case = repository(&site);
        case.host("git branch -q keep; cp .husky/pre-commit run; git add run; git commit -qm run");
        // The link's target as a file, a tracked file at another path, one without its mode, a link in
        // the place of a file with the same bytes, and what only a tag or a remote branch has.
        case.host(
            "git checkout -q -b fetched; echo f > .vscode/fetched.json; git add .; git commit -qm f; \
             git update-ref refs/remotes/o/f HEAD; git tag v HEAD; git checkout -q main; git branch -qD fetched",
        );
        let script = "cp .vscode/settings.json .vscode/tasks.json; cp run .husky/post-checkout; \
                      rm .vscode/link; printf settings.json > .vscode/link; chmod -x .husky/pre-commit; \
                      rm .vscode/old.json; ln -s old .vscode/old.json; \
                      git show v:.vscode/fetched.json > .vscode/fetched.json";
        let (_, stderr) = text(&case.inside(script));
        let names = [
            ".vscode/tasks.json",
            ".husky/post-checkout",
            ".vscode/link",
            ".husky/pre-commit",
            ".vscode/old.json",
            ".vscode/fetched.json",
        ];
        for name in names {
            assert!(stderr.contains(&format!("{name} (set aside")), "{site}: {name}: {stderr}");
        }
        assert!(!stderr.contains("as your branches"), "{site}: {stderr}");
        assert_eq!(case.host("git status --porcelain"), "", "{site}: {stderr}");
    }
}

#[test]
fn links_pipes_and_masses_of_files_are_harmless() {
    for site in sites() {
        let case = repository(&site);
        case.host("echo precious > $HOME/precious; ln .vscode/settings.json .vscode/second");
        let script = "ln -s $HOME/precious .vscode/x; ln -s /etc .vscode/etc; mkfifo .vscode/fifo; \
                      rm -r .husky/lib; ln -s / .husky/lib; mkdir .vscode/a; (cd .vscode/a; \
                      i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done); \
                      ln file .vscode/hard 2>/dev/null; mkdir .vscode/closed; echo c > .vscode/closed/c; \
                      chmod 0 .vscode/closed .vscode/settings.json; mv .vscode .v 2>/dev/null; \
                      mkdir .claude/many; seq 1 25000 | (cd .claude/many && xargs touch); echo done";
        let (shown, stderr) = text(&case.inside(script));
        assert_eq!(shown, "done\n", "{site}: {stderr}");
        let look = "git status --porcelain; cat $HOME/precious; ls .claude 2>/dev/null || true; \
                    ls .vscode; ls .husky/lib";
        let expected = "?? .vscode/second\nprecious\nlink\nold.json\nsecond\nsettings.json\nl\n";
        assert_eq!(case.host(look), expected, "{site}: {stderr}");
        for name in [".claude", ".vscode/a", ".vscode/closed", ".vscode/fifo", ".vscode/x"] {
            assert!(stderr.contains(&format!("{name} (set aside")), "{site}: {name}: {stderr}");
        }
        assert!(stderr.len() < 20_000, "{site}: {}", stderr.len());
    }
}

#[test]
fn a_link_in_the_place_of_a_copy_leads_nowhere() {
    for site in sites() {
        let case = repository(&site);
        let script = "cd /run/pinfold/git/protected; for n in *; do mv $n x$n; \
                      ln -s $HOME $n; done; echo done";
        let (shown, stderr) = text(&case.inside(script));
        assert_eq!(shown, "done\n", "{site}: {stderr}");
        assert!(stderr.contains("the sandbox moved its copy"), "{site}: {stderr}");
        assert_eq!(case.host("git status --porcelain"), "", "{site}: {stderr}");
    }
}

#[test]
fn changes_of_the_host_during_the_session_stay() {
    for site in sites() {
        let case = repository(&site);
        let mut run = case.spawn_inside("echo ready; read go; git checkout -q other");
        wait_for_line(&mut run, "ready");
        case.host(
            "echo mine >> .vscode/settings.json; echo mine > .vscode/tasks.json; \
             touch -d 2001-01-01 .vscode/old.json; echo h > .husky/new; mv .husky/lib .husky/l2",
        );
        drop(run.stdin.take());
        let (_, stderr) = text(&run.wait_with_output().unwrap());
        for name in [".vscode/settings.json", ".vscode/tasks.json"] {
            assert!(stderr.contains(&format!("{name} (set aside")), "{site}: {stderr}");
        }
        assert!(stderr.contains("the host changed it in the meantime"), "{site}: {stderr}");
        let look = "cat .vscode/settings.json .vscode/tasks.json .husky/new .husky/l2/l .vscode/old.json; ls -A .vscode";
        let expected = "main\nmine\nmine\nh\nl\nold\nlink\nold.json\nsettings.json\ntasks.json\n";
        assert_eq!(case.host(look), expected, "{site}: {stderr}");
    }
}

#[test]
fn a_directory_that_the_host_replaced_is_set_aside_whole() {
    for site in sites() {
        let case = repository(&site);
        let mut run =
            case.spawn_inside("echo ready; read go; git checkout -q other; echo x > .vscode/x");
        wait_for_line(&mut run, "ready");
        case.host("mkdir ../n; echo mine > ../n/mine; mv .vscode ../v; mv ../n .vscode");
        std::thread::sleep(std::time::Duration::from_millis(500));
        drop(run.stdin.take());
        let (_, stderr) = text(&run.wait_with_output().unwrap());
        assert!(
            stderr.contains("the host replaced the directory in the meantime"),
            "{site}: {stderr}"
        );
        // The name was free for a moment: nobody knows who made the new one.
        assert!(stderr.contains("by the host or by the sandbox"), "{site}: {stderr}");
        assert_eq!(case.host("ls -A .vscode 2>/dev/null || cat ../v/settings.json"), "main\n");
        let adopted = case.pinfold_itself(&["adopt", ".vscode"]);
        assert!(adopted.status.success(), "{site}: {}", text(&adopted).1);
        assert_eq!(
            case.host("ls -A .vscode; cat .vscode/mine"),
            "mine\nmine\n",
            "{site}: {stderr}"
        );
    }
}

#[test]
fn the_next_start_settles_the_copies_of_a_killed_session() {
    for site in sites() {
        let case = repository(&site);
        let script =
            "git checkout -q other; echo evil > .vscode/evil.json; sleep 2; echo ready; read go";
        let mut run = case.spawn_inside(script);
        wait_for_line(&mut run, "ready");
        run.kill().unwrap();
        run.wait().unwrap();
        let (shown, stderr) = text(&case.inside(
            "cat .vscode/evil.json 2>/dev/null; git status --porcelain; cat .vscode/tasks.json",
        ));
        assert_eq!(shown, "t\n", "{site}: {stderr}");
        assert!(stderr.contains("killed: not taken over: "), "{site}: {stderr}");
        assert!(stderr.contains(".vscode/evil.json (set aside;"), "{site}: {stderr}");
        assert_eq!(
            case.host("git status --porcelain; git symbolic-ref HEAD"),
            "refs/heads/other\n",
            "{site}: {stderr}"
        );
    }
}

#[test]
fn secrets_in_a_protected_directory_stay_hidden() {
    for site in sites() {
        let case = repository(&site);
        case.host(
            "mkdir .claude; echo key > .claude/.credentials.json; echo key > .vscode/.env; \
             mkdir .husky/.aws; echo key > .husky/.aws/credentials; ln .vscode/.env .vscode/notes",
        );
        let script = "cat .claude/.credentials.json .vscode/.env .husky/.aws/credentials .vscode/notes; \
                      grep -r key . /run/pinfold; echo mine > .vscode/.env; rm -rf .husky/.aws; true";
        let (shown, stderr) = text(&case.inside(script));
        assert_eq!(shown, "", "{site}: {stderr}");
        assert!(stderr.contains(".vscode/.env (set aside;"), "{site}: {stderr}");
        let look =
            "cat .claude/.credentials.json .vscode/.env .husky/.aws/credentials .vscode/notes";
        assert_eq!(case.host(look), "key\nkey\nkey\nkey\n", "{site}: {stderr}");
    }
}

#[test]
fn nested_repositories_and_further_roots_are_judged_by_their_own_branches() {
    for site in sites() {
        let case = repository(&site);
        let nested = "git init -q -b main --template= N; (cd N; git config user.name t; git config user.email t@t; \
                      mkdir .vscode; echo a > .vscode/settings.json; git add .; git commit -qm a; \
                      git checkout -q -b b; echo b > .vscode/settings.json; git commit -qam b; git checkout -q main)";
        case.host(&nested.replace('N', "lib"));
        case.host(&nested.replace('N', "../second"));
        case.host("mkdir ../plain ../plain/.vscode; echo p > ../plain/.vscode/p");
        let (second, plain) = (case.path().join("../second"), case.path().join("../plain"));
        let (second, plain) = (second.canonicalize().unwrap(), plain.canonicalize().unwrap());
        let options = ["--write", second.to_str().unwrap(), "--write", plain.to_str().unwrap()];
        // What the outer repository has is nothing that the inner one had.
        let script = format!(
            "git -C lib checkout -q b; git -C {} checkout -q b; cp .vscode/old.json lib/.vscode/old.json; \
             echo q > {}/.vscode/p",
            second.display(),
            plain.display()
        );
        let (_, stderr) = text(&case.run(&options, &script));
        assert!(stderr.contains("lib/.vscode/old.json (set aside;"), "{site}: {stderr}");
        assert!(stderr.contains("plain/.vscode/p (set aside;"), "{site}: {stderr}");
        let look = "for r in lib ../second; do git -C $r status --porcelain; cat $r/.vscode/settings.json; done; cat ../plain/.vscode/p";
        assert_eq!(case.host(look), "b\nb\np\n", "{site}: {stderr}");
    }
}

#[test]
fn a_large_protected_directory_stays_read_only_and_is_named() {
    for site in sites() {
        let case = repository(&site);
        case.host("mkdir .idea .direnv; for i in $(seq 1 300); do echo > .idea/$i; echo > .direnv/$i; done; \
             git add .idea; git commit -qm idea; mkdir sub .vscode/n; git init -q .vscode/n");
        let (shown, stderr) = text(
            &case.inside("echo x > .idea/1; echo x > .direnv/1; echo x > .vscode/x; echo x > .husky/x && echo wrote"),
        );
        assert_eq!(shown, "wrote\n", "{site}: {stderr}");
        assert!(
            stderr.contains(".idea is read-only: protected directories of more than"),
            "{site}: {stderr}"
        );
        assert!(!stderr.contains(".direnv is read-only"), "{site}: {stderr}");
        assert_eq!(
            case.host("cat .idea/1; ls .vscode/x 2>&1 | wc -l"),
            "\n1\n",
            "{site}: {stderr}"
        );
    }
}

#[test]
fn new_protected_files_of_a_branch_stay_and_others_are_set_aside() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "git checkout -q -b tools; mkdir -p .husky/_ pkg/.vscode; echo h > .husky/pre-commit; \
             chmod +x .husky/pre-commit; echo e > .envrc; echo {} > .mcp.json; echo v > pkg/.vscode/v; \
             echo '_' > .husky/.gitignore; git add .; git commit -qm tools; git checkout -q main; rm -rf .husky pkg",
        );
        let script = "git checkout -q tools; mkdir .husky/_; cp evil .husky/_/h; echo evil > pkg/.vscode/tasks.json; \
                      chmod 777 .husky/pre-commit";
        let (_, stderr) = text(&case.inside(script));
        assert!(stderr.contains(".husky/_ (set aside;"), "{site}: {stderr}");
        assert!(stderr.contains("pkg/.vscode/tasks.json (set aside;"), "{site}: {stderr}");
        let look = "git status --porcelain; git symbolic-ref HEAD; stat -c '%A %U' .husky/pre-commit; stat -c %U .";
        let shown = case.host(look);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "refs/heads/tools", "{site}: {stderr}");
        assert_eq!(lines[1], format!("-rwxr-xr-x {}", lines[2]), "{site}: {stderr}");
    }
}

#[test]
fn links_on_the_way_to_the_copies_lead_nowhere() {
    for site in sites() {
        let case = repository(&site);
        case.host("mkdir -p $HOME/p/0/new $HOME/p/1; echo mine > $HOME/p/0/new/f; chmod 500 $HOME/p/0/new");
        let script = "cd /run/pinfold/git; mv protected x; ln -s $H/p protected; echo done";
        let home = case.path().with_file_name("home");
        let (shown, stderr) = text(&case.inside(&script.replace("$H", home.to_str().unwrap())));
        assert_eq!(shown, "done\n", "{site}: {stderr}");
        let look = "cat $HOME/p/0/new/f; stat -c %a $HOME/p/0/new; git status --porcelain";
        assert_eq!(case.host(look), "mine\n500\n", "{site}: {stderr}");
    }
}

#[test]
fn large_files_are_not_read_at_the_end() {
    for site in sites() {
        let case = repository(&site);
        let script = "for i in $(seq 1 2000); do truncate -s 16M .vscode/$i; done; \
                      truncate -s 8T .vscode/settings.json; echo done";
        let started = std::time::Instant::now();
        let (shown, stderr) = text(&case.inside(script));
        assert_eq!(shown, "done\n", "{site}: {stderr}");
        assert!(stderr.contains(".vscode (set aside;"), "{site}: {stderr}");
        assert!(started.elapsed().as_secs() < 20, "{site}");
        assert_eq!(case.host("git status --porcelain"), "", "{site}");
    }
}

#[test]
fn branches_of_a_repository_that_a_session_made_do_not_count() {
    for site in sites() {
        let case = repository(&site);
        case.host("mkdir -p sub/.vscode; echo mine > sub/.vscode/tasks.json; git add .; git commit -qm sub");
        // The repository of the second session's working tree has the content that it wants.
        let script = "cd sub; git init -q -b main; git config user.name t; git config user.email t@t; \
                      cp ../evil x; git add x; git commit -qm x; b=$(git hash-object -w ../evil); \
                      git update-index --add --cacheinfo 100644,$b,.vscode/tasks.json; \
                      git commit -qm evil; git branch evil; git reset -q --hard HEAD~";
        let (_, stderr) = text(&case.inside(script));
        case.host("git -C sub rev-parse -q --verify evil:.vscode/tasks.json");
        let (shown, second) = text(
            &case
                .inside("cd sub; git show evil:.vscode/tasks.json > .vscode/tasks.json; echo done"),
        );
        assert_eq!(shown, "done\n", "{site}: {stderr}: {second}");
        assert!(second.contains("a session made this repository"), "{site}: {stderr}: {second}");
        assert_eq!(case.host("cat sub/.vscode/tasks.json"), "mine\n", "{site}: {stderr}: {second}");
    }
}

#[test]
fn deletions_that_a_session_commits_are_not_applied() {
    for site in sites() {
        for script in [
            "git rm -q .husky/pre-commit; git commit -qm gone",
            "git merge -q --no-commit side; git rm -qf .husky/pre-commit; git commit -qm merged",
            "git checkout -q --orphan new; git rm -qrf .husky; git commit -qm new",
            "git checkout -q -b old main~1; git commit -q --allow-empty -m old",
            "git checkout -q --detach main~1",
        ] {
            let case = repository(&site);
            case.host(
                "git checkout -q -b side main~1; echo s > side; git add .; git commit -qm side; \
                 git checkout -q main",
            );
            let script = format!("set -e; {script}; ls .husky/pre-commit || true; sleep 2");
            let (shown, stderr) = text(&case.inside(&script));
            assert_eq!(shown, "", "{site}: {script}: {stderr}");
            let stays = ".husky/pre-commit (deleted in the sandbox; it stays)";
            assert!(stderr.contains(stays), "{site}: {script}: {stderr}");
            assert_eq!(case.host("test -x .husky/pre-commit; echo there"), "there\n", "{site}");
        }
    }
}
