//! What groups' sessions see besides their own files.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

use pinfold_testkit::{Stage, people};

use super::{ALLOWLIST, SETTINGS, refused, run, said, scene, shown};

#[test]
fn extras_are_what_the_allowlist_lets_through_and_nothing_else() {
    for user in people() {
        let stage = Stage::new(user);
        scene(&stage);
        for file in ["projects/passwords/mark", "projects/.ssh/mark", "private/mark"] {
            stage.write(&format!("home/{file}"), "not for groups");
        }
        symlink(stage.path("home/private"), stage.path("home/projects/out")).unwrap();
        symlink("passwords", stage.path("home/projects/hidden")).unwrap();
        symlink("../projects/notes", stage.path("home/docs/in")).unwrap();
        let extra = |place: &str| {
            let mounts = format!(
                "[group_home]\nroot = \"~/assistant\"\n[[groups.dev.mounts]]\nhost_path = \"{place}\"\n\
                 container_path = \"x\"\nreadonly = false\n"
            );
            stage.write("home/.config/pinfold/config.toml", mounts);
            let output = run(&stage, "dev", "cat /workspace/extra/x/mark 2>/dev/null; true");
            (String::from_utf8_lossy(&output.stdout).into_owned(), said(&output))
        };
        for (place, why) in [
            ("~/private", "is not below an allowed root"),
            ("~/projects/out", "is not below an allowed root"),
            ("~/projects/passwords", "holds the blocked text \"password\""),
            ("~/projects/hidden", "holds the blocked text \"password\""),
            ("~/projects/.ssh", "holds the blocked text \".ssh\""),
            ("~/projects/missing", "No such file"),
            ("~/assistant/groups/main", "it would show "),
            ("/", "it would show "),
        ] {
            let (shown, said) = extra(place);
            assert!(said.contains("left out: ") && said.contains(why), "{place}: {said}");
            assert_eq!(shown, "", "{place}");
        }
        // A link is what it leads to: this one may be there, and its own root decides.
        let (shown, said) = extra("~/docs/in");
        assert_eq!(shown, "notes", "{said}");
        assert!(said.contains("is read-only: only groups of admins may write there"), "{said}");
        let (_, error) = extra("~/projects/../private");
        assert!(error.contains("contains `..`"), "{error}");
        for name in ["../x", "/x", "a/../b", "", ".", "a//b"] {
            let text = SETTINGS.replace("team/notes", name);
            stage.write("home/.config/pinfold/config.toml", text);
            let error = refused(&stage, "dev");
            assert!(error.contains("expected a relative path"), "{name:?}: {error}");
        }
        // Groups' files are nobody's extras, even where the allowlist has them.
        let all = ALLOWLIST.replace("~/projects", "~/");
        stage.write("home/.config/pinfold/mount-allowlist.toml", all);
        for place in ["~/assistant/groups/main", "~/assistant", "~"] {
            let (shown, said) = extra(place);
            assert!(said.contains("it would show "), "{place}: {said}");
            assert_eq!(shown, "");
        }
        fs::remove_file(stage.path("home/.config/pinfold/mount-allowlist.toml")).unwrap();
        let (shown, said) = extra("~/projects/notes");
        assert!(said.contains("1 mounts are left out: there is no "), "{said}");
        assert_eq!(shown, "");
    }
}

#[test]
fn an_allowlist_that_a_session_could_write_is_refused() {
    for user in people() {
        let stage = Stage::new(user);
        scene(&stage);
        let path = stage.path("home/.config/pinfold/mount-allowlist.toml");
        // Hidden with pinfold's other files.
        let config = stage.path("home/.config").display().to_string();
        let options = ["--group", "dev", "--write", &config];
        let output = stage.run_shell(&options, &format!("cat {}; echo ran", path.display()));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n", "{}", said(&output));
        for place in [
            "ws",
            "home/projects/notes",
            "home/checkout",
            "home/assistant/groups/dev",
            "home/assistant/groups/main",
            "home/assistant/data/ipc/main",
            "home/written",
        ] {
            let list =
                ALLOWLIST.replace("non_admin_read_only = true", "non_admin_read_only = false");
            let kept = stage.write(&format!("{place}/mount-allowlist.toml"), list);
            fs::remove_file(&path).unwrap();
            symlink(&kept, &path).unwrap();
            let written = stage.path("home/written");
            fs::create_dir_all(&written).unwrap();
            let options = ["--group", "dev", "--write", &written.display().to_string()];
            let output = stage.run_shell(&options, "echo ran");
            let error = said(&output);
            assert!(error.contains("is where a session could write it"), "{place}: {error}");
            assert!(output.stdout.is_empty());
        }
        let kept = stage.write("home/dotfiles/mount-allowlist.toml", ALLOWLIST);
        fs::remove_file(&path).unwrap();
        symlink(&kept, &path).unwrap();
        assert_eq!(shown(&stage, "dev", "cat /workspace/extra/docs/mark"), "docs");
    }
}

#[test]
fn pinfolds_own_files_are_no_groups() {
    for user in people() {
        let stage = Stage::new(user);
        scene(&stage);
        let own = stage.path("home/.config/pinfold");
        let list = ALLOWLIST.replace("~/docs", "~/.config");
        let secrets = "home/.config/pinfold/secrets/mark";
        stage.write(secrets, "a key");
        let settings = |from: &str, to: &str| {
            assert!(SETTINGS.contains(from));
            stage.write("home/.config/pinfold/config.toml", SETTINGS.replace(from, to));
        };
        stage.write("home/.config/pinfold/mount-allowlist.toml", list);
        for place in ["~/.config/pinfold", "~/.config/pinfold/secrets"] {
            settings("~/docs", &format!("{place}\"\ncontainer_path = \"docs"));
            let output = run(&stage, "dev", "cat /workspace/extra/docs/*; true");
            assert!(output.stdout.is_empty() && output.status.success());
            let why = format!("left out: it would show {}", own.display());
            assert!(said(&output).contains(&why), "{}", said(&output));
            settings("~/checkout", place);
            assert!(refused(&stage, "dev").contains("which groups do not share"));
        }
        settings("~/assistant\"", "~/.config/pinfold\"");
        assert!(refused(&stage, "dev").contains("is among pinfold's own files"));
        settings("~/docs", "~/.config");
        let look =
            "ls -A /workspace/extra/.config; cat /workspace/extra/.config/pinfold/config.toml";
        let output = run(&stage, "dev", look);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "pinfold\n");
        assert!(!output.status.success());
        let mut there = stage.pinfold(&["run", "--group", "dev", "--", "echo", "ran"]);
        let output = there.current_dir(&own).output().unwrap();
        assert!(said(&output).contains("which groups do not share"), "{}", said(&output));
    }
}

#[test]
fn a_mount_in_another_is_refused_and_makes_nothing_on_the_host() {
    for user in people() {
        let stage = Stage::new(user);
        scene(&stage);
        let nested = SETTINGS.replace(
            "readonly = false\n[groups.dev]",
            "readonly = false\n[[groups.main.mounts]]\nhost_path = \"~/docs\"\n\
             container_path = \"notes/made\"\n[groups.dev]",
        );
        stage.write("home/.config/pinfold/config.toml", nested);
        let error = refused(&stage, "main");
        assert!(error.contains("the mount notes/made would lie in the mount notes"), "{error}");
        assert!(!stage.path("home/projects/notes/made").exists());
    }
}

#[test]
fn a_link_that_is_put_there_after_the_decision_is_not_followed() {
    for user in people() {
        let stage = Stage::new(user);
        scene(&stage);
        stage.write("home/projects/x/notes/mark", "notes");
        stage.write("home/projects/x/notes/.env", "SECRET=1");
        stage.write("home/private/notes/mark", "not for groups");
        // What is granted itself, and what lies on the way to it.
        for (place, leads_to) in [("x", "private"), ("x/notes", "private/notes")] {
            let text = SETTINGS
                .replace("~/projects/notes\"\ncontainer", "~/projects/x/notes\"\ncontainer");
            stage.write("home/.config/pinfold/config.toml", text);
            let place = stage.path(&format!("home/projects/{place}"));
            let link = stage.path("home/projects/link");
            symlink(stage.path(&format!("home/{leads_to}")), &link).unwrap();
            let is_over = AtomicBool::new(false);
            let shown: Vec<Output> = std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let flags = rustix::fs::RenameFlags::EXCHANGE;
                        let cwd = rustix::fs::CWD;
                        rustix::fs::renameat_with(cwd, &place, cwd, &link, flags).unwrap();
                    }
                });
                let look = "cat /workspace/extra/team/notes/mark /workspace/extra/team/notes/.env \
                            2>/dev/null; true";
                let shown = (0..30).map(|_| run(&stage, "dev", look)).collect();
                is_over.store(true, Ordering::Relaxed);
                shown
            });
            for output in shown {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let said = said(&output);
                assert!(text == "notes" || text.is_empty(), "{text}: {said}");
                assert!(matches!(output.status.code(), Some(0 | 125)), "{said}");
            }
            let is_swapped = fs::symlink_metadata(&place).unwrap().is_symlink();
            let own = if is_swapped { &place } else { &link };
            fs::remove_file(own).unwrap();
            if is_swapped {
                fs::rename(&link, &place).unwrap();
            }
        }
    }
}
