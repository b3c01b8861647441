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
