//! An activated environment: a directory of the workspace is first on the `PATH` of the user's shell.

use super::common::{Case, Site, sites, text, wait_for_line};

/// What a session makes in `env/bin`: names of the system's programs, and one of its own.
const PLANT: &str = "mkdir -p env/bin; for name in git ls own-tool; do cp evil env/bin/$name; done; ln -sf $PWD/evil env/bin/cat";
const MADE: &str = "env/bin/git env/bin/ls env/bin/cat";

fn repository(site: &Site) -> (Case, String) {
    let case = site.repository();
    case.host("mkdir -p env/bin; echo env >.gitignore; git add .gitignore; git commit -qm second");
    let path = format!("{}/env/bin:/usr/local/bin:/usr/bin:/bin", case.path().display());
    (case, path)
}

/// Works as the user does, in a shell that has the environment.
fn is_safe(case: &Case, path: &str) -> bool {
    case.host(&format!("PATH={path}; git status >/dev/null; ls >/dev/null; cat file >/dev/null"));
    !case.was_marked()
}

#[test]
fn programs_that_a_session_puts_before_the_systems_are_set_aside() {
    for site in sites() {
        let (case, path) = repository(&site);
        // A link to the very program that it stands before is that program.
        let inside = format!("{PLANT}; ln -s $(command -v sh) env/bin/sh");
        let output = case.pinfold(&[], &inside).env("PATH", &path).output().unwrap();
        let (_, stderr) = text(&output);
        assert!(is_safe(&case, &path), "{site}: {stderr}");
        assert!(stderr.contains("a shell with your PATH runs it instead of /"), "{site}: {stderr}");
        assert!(stderr.contains("--opt-in commands"), "{site}: {stderr}");
        case.host("test -x env/bin/own-tool; test -L env/bin/sh");

        let wanted = ["--opt-in", "commands"];
        case.pinfold(&wanted, PLANT).env("PATH", &path).output().unwrap();
        case.host(&format!("ls {MADE}"));
    }
}

#[test]
fn programs_that_a_killed_session_put_before_the_systems_are_set_aside_by_the_next_start() {
    for site in sites() {
        let (case, path) = repository(&site);
        let mut command = case.pinfold(&[], &format!("{PLANT}; echo ready; sleep 60"));
        command.env("PATH", &path).stdout(std::process::Stdio::piped());
        let mut run = command.spawn().unwrap();
        wait_for_line(&mut run, "ready");
        run.kill().unwrap();
        run.wait().unwrap();
        // The next shell has no environment.
        let (_, stderr) = text(&case.inside("true"));
        assert!(is_safe(&case, &path), "{site}: {stderr}");
    }
}

/// What leads the shell to another directory, or hides this one.
#[test]
fn links_and_new_repositories_put_no_program_before_the_systems() {
    const HOST: &str = "mkdir -p env/bin bin ../home/env/bin; ln -s bin link; ln -s ../home/env away; ln -s \"$PWD/link\" ../home/far";
    const CASES: [(&str, &str); 8] = [
        // An environment outside of the workspace, and a link there that leads to a link in the workspace.
        ("away/bin", "rm away; mkdir -p away/bin; cp evil away/bin/git"),
        ("../home/far", "rm link; ln -s o link"),
        ("link", "rm link; ln -s o link"),
        ("link", "rm link; mkdir link; cp evil link/git"),
        ("env/bin", "rm -r env; ln -s o env; mkdir o/bin; cp evil o/bin/git"),
        ("env/bin", "rmdir env/bin; ln -s ../o env/bin"),
        ("env/bin", "cp evil env/bin/git; chmod 111 env/bin env"),
        ("new/bin", "git init -q new; mkdir new/bin; cp evil new/bin/git"),
    ];
    for (site, (on_path, inside)) in sites().iter().flat_map(|site| CASES.map(|case| (site, case)))
    {
        for view in [false, true] {
            let case = site.repository();
            case.host(HOST);
            let path = case.path().join(on_path);
            let path = format!("{}:/usr/local/bin:/usr/bin:/bin", path.display());
            let inside = format!("PATH=/usr/bin:/usr/local/bin; mkdir o; cp evil o/git; {inside}");
            let options: &[&str] = if view { &["--workspace", "overlay"] } else { &[] };
            let run = case.pinfold(options, &inside).env("PATH", &path).output().unwrap();
            let (_, mut said) = text(&run);
            if view {
                said += &text(&case.pinfold_itself(&["apply"])).1;
            }
            assert!(is_safe(&case, &path), "{site}, {on_path}: {inside}: {view}: {said}");
        }
    }
}

/// An empty repository of Mercurial, and others' settings that name programs. No such program is needed to see what is left.
#[test]
fn settings_of_other_version_control_systems_are_set_aside() {
    const MAKE: &str = "mkdir -p .hg/store a/.hg .jj/repo/store b/.jj .sl .pijul _darcs/prefs
        for file in .hg/hgrc .hg/sharedpath a/.hg/hgrc-not-shared .jj/repo/config.toml .jj/repo/store/git_target \
            b/.jj/repo .sl/config .pijul/config _darcs/prefs/defaults .p4config; do echo x >$file; done; echo x >.hg/requires";
    for site in sites() {
        let case = site.repository();
        let (_, stderr) = text(&case.inside(MAKE));
        let left = case.host("find . -path ./.git -prune -o -type f -print | sort");
        assert_eq!(left, "./.hg/requires\n./evil\n./file\n", "{site}: {stderr}");
        assert!(stderr.contains("a version control system runs what it names"), "{site}: {stderr}");
    }
}

#[test]
fn programs_before_the_systems_wait_in_a_view_and_in_commits() {
    for site in sites() {
        let (case, path) = repository(&site);
        let view = ["--workspace", "overlay"];
        let (_, started) = text(&case.pinfold(&view, PLANT).env("PATH", &path).output().unwrap());
        let (_, stderr) = text(&case.pinfold_itself(&["apply"]));
        let stderr = started + &stderr;
        assert!(is_safe(&case, &path), "{site}: {stderr}");
        case.host("test -x env/bin/own-tool");

        let commit = format!(
            "{PLANT}; PATH=/usr/local/bin:/usr/bin:/bin; git add -f env; git commit -qm planted; rm {MADE}"
        );
        let output = case.pinfold(&[], &commit).env("PATH", &path).output().unwrap();
        let (_, stderr) = text(&output);
        assert_eq!(case.host("git log -1 --format=%s"), "second\n", "{site}: {stderr}");
        assert!(stderr.contains("it brings env/bin/"), "{site}: {stderr}");
    }
}

/// What `.envrc` names, which its user trusts by its own content alone.
#[test]
fn files_that_a_directory_hook_loads_are_named_and_wait_in_a_view() {
    const CHANGE: &str = "for file in x.sh y.sh new.sh other.sh; do echo y >>$file; done";
    for site in sites() {
        let case = site.repository();
        case.host("touch x.sh y.sh other.sh; echo '. ./y.sh' >x.sh; echo 'source x.sh; source_env_if_exists new.sh' >.envrc");
        let (_, stderr) = text(&case.inside(CHANGE));
        let note = "changed, and direnv or mise loads it at your next prompt: new.sh, x.sh, y.sh\n";
        assert!(stderr.contains(note), "{site}: {stderr}");

        case.host("rm new.sh");
        case.run(&["--workspace", "overlay"], CHANGE);
        let (_, stderr) = text(&case.pinfold_itself(&["apply"]));
        for file in ["new.sh", "x.sh", "y.sh"] {
            let note = format!("left: {file}: direnv or mise loads it at your next prompt");
            assert!(stderr.contains(&note), "{site}: {stderr}");
        }
        assert_eq!(case.host("cat other.sh; test ! -e new.sh"), "y\ny\n", "{site}: {stderr}");

        let (_, stderr) = text(&case.run(&["--opt-in", "directory-environment"], CHANGE));
        assert!(!stderr.contains("next prompt"), "{site}: {stderr}");
    }
}

#[test]
fn commits_that_change_what_a_directory_hook_loads_wait() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "touch x.sh other.sh; echo 'source x.sh' >.envrc; git add .; git commit -qm hook",
        );
        let commit = |file: &str| format!("echo y >>{file}; git commit -qam {file}");
        let (_, stderr) = text(&case.inside(&commit("other.sh")));
        assert_eq!(case.host("git log -1 --format=%s"), "other.sh\n", "{site}: {stderr}");
        let (_, stderr) = text(&case.inside(&commit("x.sh")));
        assert_eq!(case.host("git log -1 --format=%s"), "other.sh\n", "{site}: {stderr}");
        assert!(stderr.contains("it brings x.sh"), "{site}: {stderr}");
        let waiting = "git for-each-ref --format='%(subject)' refs/pinfold";
        assert_eq!(case.host(waiting), "x.sh\n", "{site}: {stderr}");

        let lifted = ["--opt-in", "directory-environment"];
        let (_, stderr) = text(&case.run(&lifted, &commit("x.sh")));
        assert!(!stderr.contains("it brings"), "{site}: {stderr}");
    }
}

#[test]
fn next_start_names_what_a_killed_session_changed_for_a_directory_hook() {
    for site in sites() {
        let case = site.repository();
        case.host("touch x.sh; echo 'source x.sh' >.envrc");
        let mut child = case.spawn_inside("echo y >>x.sh; echo ready; read line");
        wait_for_line(&mut child, "ready");
        child.kill().unwrap();
        child.wait().unwrap();
        let (_, stderr) = text(&case.inside("true"));
        let note = "after a session that was killed: changed, and direnv or mise loads it at your next prompt: x.sh";
        assert!(stderr.contains(note), "{site}: {stderr}");
    }
}
