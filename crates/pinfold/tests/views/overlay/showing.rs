//! What a user sees.

use pinfold_testkit::{Stage, Tmux, executable, installed, people, skip};

use super::{host, pinfold, sessions, work};

#[test]
fn a_patch_is_one_that_git_applies() {
    if !installed("git") {
        return skip("a_patch_is_one_that_git_applies", "it takes git");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(
            &stage,
            "seq 100 >numbers; echo x >gone; echo same >old-name; printf 'no end' >end; echo k >kind; cp -a . ../other/copy",
        );
        work(
            &stage,
            "sed -i 's/^50$/fifty/; 3d' numbers; rm gone; mv old-name new-name; printf 'no end\\n' >end; chmod 755 end; mkdir d; echo n >'d/with blank'; rm kind; ln -s numbers kind; : >empty",
        );
        let (patch, _) = pinfold(&stage, &["diff"]).unwrap();
        assert!(patch.contains("rename from old-name\nrename to new-name\n"), "{patch}");
        stage.write("other/patch", &patch);
        host(&stage, "cd ../other/copy; git apply ../patch");
        pinfold(&stage, &["apply"]).unwrap();
        host(&stage, "diff -r --no-dereference . ../other/copy");
        assert_eq!(host(&stage, "stat -c %a end ../other/copy/end"), "755\n755\n");
    }
}

#[test]
fn summaries_count_and_name() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "seq 10 >numbers; echo x >gone");
        work(
            &stage,
            "sed -i 5d numbers; rm gone; printf 'a\\0' >binary; mkdir new; mkdir empty; echo n >new/n",
        );
        let (names, _) = pinfold(&stage, &["diff", "--name-only"]).unwrap();
        assert_eq!(names, "binary\nempty\ngone\nnew/n\nnumbers\n");
        let (stat, _) = pinfold(&stage, &["diff", "--stat"]).unwrap();
        assert!(stat.contains(" binary  | binary\n"), "{stat}");
        assert!(stat.ends_with(" 4 files changed, 1 lines added, 2 lines removed\n"), "{stat}");
        let (json, _) = pinfold(&stage, &["diff", "--json", "gone"]).unwrap();
        assert!(json.contains("\"change\": \"deleted\""), "{json}");
        let session = sessions(&stage).remove(0);
        let (list, _) = pinfold(&stage, &["ps", "--all", "--json"]).unwrap();
        assert!(list.contains(&format!("\"session\": \"{session}\"")), "{list}");
        assert!(pinfold(&stage, &["ps"]).unwrap().0.is_empty());
        let stderr = pinfold(&stage, &["diff", "../elsewhere"]).unwrap_err();
        assert!(stderr.contains("path escapes workspace: ../elsewhere"), "{stderr}");
        pinfold(&stage, &["discard"]).unwrap();
        let stderr = pinfold(&stage, &["diff"]).unwrap_err();
        assert!(stderr.contains("no session has changes"), "{stderr}");
        assert_eq!(host(&stage, "ls"), "gone\nnumbers\n");
    }
}

#[test]
fn a_terminal_gets_colours_and_no_command_of_the_session() {
    if !installed("script") {
        return skip("a_terminal_gets_colours", "it takes script");
    }
    for user in people() {
        let stage = Stage::new(user);
        work(
            &stage,
            "printf 'a\\033]0;title\\007b\\r\\n' >evil; echo x >\"$(printf 'n\\033[2J')\"",
        );
        let line = format!("{} diff", executable());
        let show = |colours: &str| {
            let mut script = stage.command("script");
            script
                .args(["-qec", &line, "/dev/null"])
                .env("PAGER", "sed s/^/P:/")
                .env("NO_COLOR", colours);
            String::from_utf8_lossy(&script.output().unwrap().stdout).into_owned()
        };
        let shown = show("");
        assert!(shown.contains("\x1b[32m+a\\u{1b}]0;title\\u{7}b\\r"), "{shown:?}");
        assert!(!shown.contains("\x1b]0;") && !shown.contains("\x1b[2J"), "{shown:?}");
        assert!(shown.contains("P:"), "the pager was not used: {shown:?}");
        let shown = show("1");
        assert!(!shown.contains('\x1b'), "{shown:?}");
    }
}

#[test]
fn the_newest_session_of_this_directory_is_meant() {
    for user in people() {
        let stage = Stage::new(user);
        work(&stage, "echo 1 >first");
        work(&stage, "echo 2 >second");
        assert_eq!(pinfold(&stage, &["diff", "--name-only"]).unwrap().0, "second\n");
        pinfold(&stage, &["apply"]).unwrap();
        assert_eq!(pinfold(&stage, &["diff", "--name-only"]).unwrap().0, "first\n");
        let elsewhere = |args: &[&str]| {
            let output = stage.pinfold(args).current_dir(stage.path("other")).output().unwrap();
            (output.status.success(), super::errors(&output))
        };
        let session = sessions(&stage).remove(0);
        let (done, stderr) = elsewhere(&["diff"]);
        assert!(!done && stderr.contains(&session), "{stderr}");
        let (done, stderr) = elsewhere(&["apply", &session[..4], "first"]);
        assert!(done, "{stderr}");
        assert_eq!(host(&stage, "cat first second"), "1\n2\n");
    }
}

#[test]
fn a_change_is_shown_with_what_it_lies_in_and_a_rename_as_one() {
    for user in people() {
        let stage = Stage::new(user);
        host(
            &stage,
            "{ echo 'fn first() {'; seq 1 20 | sed 's/^/  /'; echo '}'; } >code; mkdir d; echo x >d/old",
        );
        work(&stage, "sed -i 's/^  15$/  fifteen/' code; mv d e");
        let (patch, _) = pinfold(&stage, &["diff", "code"]).unwrap();
        assert!(patch.contains("@@ -13,7 +13,7 @@ fn first() {\n"), "{patch}");
        let (stat, _) = pinfold(&stage, &["diff", "--stat"]).unwrap();
        assert!(stat.contains(" d/old => e/old |     0\n"), "{stat}");
        assert!(stat.ends_with(" 2 files changed, 1 lines added, 1 lines removed\n"), "{stat}");
    }
}

#[test]
fn keys_are_the_pagers_while_it_shows_a_large_change() {
    if !installed("tmux") || !installed("less") {
        return skip("keys_are_the_pagers", "it takes tmux and less");
    }
    for user in people() {
        let stage = Stage::new(user);
        work(&stage, "seq -f 'line %g' 100000 >long; echo end >zlast");
        let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
        tmux.line(&format!("{} diff; echo shown: $?", executable()));
        tmux.wait_for("+line 10");
        // Ends a search in the pager, and nothing else.
        tmux.keys(&["C-c"]);
        // Keys that come with it less may skip.
        tmux.wait_until("the end", |screen| {
            tmux.keys(&["G"]);
            screen.contains("+end")
        });
        tmux.keys(&["q"]);
        tmux.wait_for("shown: 0");
        tmux.line("clear; echo typed");
        tmux.wait_for("typed");
    }
}
