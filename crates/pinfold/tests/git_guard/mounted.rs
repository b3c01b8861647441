//! A workspace that is mounted a second time: its programs are no safer by the other path.

use pinfold_testkit::{User, skip};

use super::common::{sites, text};

#[test]
fn programs_of_the_workspace_are_not_run_by_another_mount() {
    if !User::current().is_root() {
        return skip("programs_of_the_workspace_are_not_run_by_another_mount", "it needs root");
    }
    for site in sites() {
        for (from, at, path) in [(".", "other", "other/bin"), ("bin", "tools", "tools")] {
            let case = site.repository();
            case.host(&format!("mkdir bin ../{at}; cp evil bin/git"));
            let outer = case.path().parent().unwrap();
            let (from, at) = (case.path().join(from), outer.join(at));
            let path = format!("{}:/usr/local/bin:/usr/bin:/bin", outer.join(path).display());
            let mut planted = case.with_mount(&from, &at, &["git", "status"]);
            assert!(planted.env("PATH", &path).output().unwrap().status.success());
            assert!(case.was_marked(), "{site}: it is not the first one on PATH");
            case.host("rm ../mark");
            let script = "echo y > file; git -c user.name=t -c user.email=t@t commit -qam second";
            let run = [pinfold_testkit::executable(), "run", "--", "sh", "-c", script];
            let mut run = case.with_mount(&from, &at, &run);
            let (_, stderr) = text(&run.env("PATH", &path).output().unwrap());
            assert!(!case.was_marked(), "{site}: {path}: {stderr}");
            assert_eq!(case.host("git log -1 --format=%s"), "second\n", "{site}: {stderr}");
            let mut accept =
                case.with_mount(&from, &at, &[pinfold_testkit::executable(), "accept"]);
            accept.env("PATH", &path).output().unwrap();
            assert!(!case.was_marked(), "{site}: {path}");
        }
    }
}

#[test]
fn programs_that_a_session_makes_where_another_mount_leads_are_set_aside() {
    const SCRIPT: &str = "\"$@\"; git status; ls; cat file";
    const PLANT: &str = "PATH=/usr/bin:/bin; mkdir -p new; for at in bin new; do for name in git ls cat; do cp evil $at/$name; done; done";
    if !User::current().is_root() {
        let test = "programs_that_a_session_makes_where_another_mount_leads_are_set_aside";
        return skip(test, "it needs root");
    }
    for site in sites() {
        for (from, path) in [(".", "other/bin"), ("bin", "other"), (".", "other/new")] {
            let case = site.repository();
            case.host("mkdir bin ../other");
            let outer = case.path().parent().unwrap();
            let path = format!("{}:/usr/local/bin:/usr/bin:/bin", outer.join(path).display());
            let run = ["sh", "-c", SCRIPT, "sh", pinfold_testkit::executable(), "run", "--"];
            let run = [&run[..], &["sh", "-c", PLANT]].concat();
            let (from, at) = (case.path().join(from), outer.join("other"));
            let mut run = case.with_mount(&from, &at, &run);
            let (_, stderr) = text(&run.env("PATH", &path).output().unwrap());
            assert!(!case.was_marked(), "{site}: {path}: {stderr}");
            assert!(stderr.contains("a shell with your PATH runs it"), "{site}: {stderr}");
        }
    }
}
