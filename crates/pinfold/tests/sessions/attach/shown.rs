//! What is shown to somebody who attaches and leaves, in a real terminal.

use std::fs;

use pinfold_testkit::{Stage, Tmux, executable, installed, people, skip};

use super::{detached, end};

#[test]
fn editor_is_painted_again_for_each_attached_client() {
    if !installed("tmux") || !installed("vim") {
        skip("editor_is_painted_again", "tmux or vim is not installed");
        return;
    }
    let pinfold = executable();
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/file", "first line\nsecond line\n");
        detached(&stage, &["--tty"], "vim -u NONE file; echo left; exit 5");
        let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
        tmux.line(&format!("{pinfold} attach desk"));
        tmux.wait_for_line("second line");
        tmux.text("ihello ");
        tmux.wait_for_line("hello first line");
        tmux.keys(&["Escape", "C-p", "C-q"]);
        tmux.wait_for_prompt("outer>");
        let screen = tmux.wait_for("detached");
        assert!(!screen.contains("second line"), "{screen}");
        tmux.resize(100, 30);
        tmux.line(&format!("clear; {pinfold} attach desk"));
        tmux.wait_for_line("hello first line");
        // Stopped by the keyboard, as any editor, it is continued and painted again.
        tmux.keys(&["C-z"]);
        tmux.wait_for_line("hello first line");
        tmux.line(":wq");
        tmux.wait_for_prompt("outer>");
        tmux.line("echo status $?");
        tmux.wait_for_line("status 5");
        assert_eq!(fs::read(stage.path("ws/file")).unwrap(), b"hello first line\nsecond line\n");
    }
}

/// A string that has no end takes all that follows, and what is shown after it is seen by nobody.
#[test]
fn unfinished_sequence_ends_on_detach() {
    if !installed("tmux") {
        skip("unfinished_sequence_ends_on_detach", "tmux is not installed");
        return;
    }
    let pinfold = executable();
    for user in people() {
        for begun in ["\\033P", "\\033]2;", "\\033_", "\\033^", "\\033X", "\\033[38;5", "\\033"] {
            let stage = Stage::new(user);
            let script = format!("read -r go; printf 'ready\\n{begun}'; sleep 60");
            detached(&stage, &["--tty"], &script);
            let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
            tmux.line(&format!("{pinfold} attach desk"));
            tmux.wait_for("ctrl-p,ctrl-q detaches");
            tmux.keys(&["Enter"]);
            tmux.wait_for("ready");
            tmux.keys(&["C-p", "C-q"]);
            tmux.wait_for_prompt("outer>");
            tmux.line("echo se''en");
            tmux.wait_for_line("seen");
            end(&stage);
        }
    }
}
