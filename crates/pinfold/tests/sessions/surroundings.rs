//! What a command next to a session's own has for itself: limits, a terminal or none, a user.

use std::io::Write as _;
use std::process::{Output, Stdio};

use pinfold_testkit::{Session, Stage, Tmux, executable, installed, people, skip};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn limits_of_its_own_hold_for_it_alone() {
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &["--files", "200"]);
        let script = ["sh", "-c", "ulimit -n; ulimit -Hn; nice"];
        let own = session.exec(&["--files", "50", "--nice", "7"], &script);
        // Relative to the nice value of the process that runs this test.
        let before = rustix::process::getpriority_process(None).unwrap();
        let nice = (before + 7).min(19);
        assert_eq!(said(&own), format!("50\n50\n{nice}\n"), "{}", errors(&own));
        let others = session.exec(&[], &script);
        assert_eq!(said(&others), format!("200\n200\n{before}\n"), "{}", errors(&others));
        let more = session.exec(&["--files", "201"], &script);
        assert_eq!((said(&more).as_str(), more.status.code()), ("", Some(126)));
        let says = errors(&more);
        assert!(says.contains("201 open files, where the session has 200"), "{says}");
        session.end();
    }
}

#[test]
fn there_is_one_user_and_no_other_is_pretended() {
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let own = session.exec(&["--user", "agent"], &["sh", "-c", "echo $USER"]);
        assert_eq!(said(&own), "agent\n", "{}", errors(&own));
        for (user, why) in
            [("root", "while a snapshot is built"), ("0", "one user"), ("me", "agent")]
        {
            let other = session.exec(&["--user", user], &["true"]);
            assert_eq!(other.status.code(), Some(125));
            assert!(errors(&other).contains(why), "{}", errors(&other));
        }
        session.end();
    }
}

#[test]
fn a_terminal_is_given_where_the_caller_has_none() {
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        for input in ["line\n", "no end of line"] {
            let mut exec =
                session.command(&["--tty"], &["sh", "-c", "tty; stty size; cat; exit 4"]);
            exec.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut exec = exec.spawn().unwrap();
            exec.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            let output = exec.wait_with_output().unwrap();
            let text = said(&output);
            assert!(text.contains("/dev/pts/") && text.contains("24 80\r\n"), "{text:?}");
            // Once as it was typed and once by cat.
            assert_eq!(text.matches(input.trim_end()).count(), 2, "{text:?}");
            assert_eq!(output.status.code(), Some(4), "{}", errors(&output));
        }
        session.end();
    }
}

#[test]
fn a_terminal_here_is_kept_from_it() {
    if !installed("tmux") {
        skip("a_terminal_here_is_kept_from_it", "tmux is not installed");
        return;
    }
    let pinfold = executable();
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
        tmux.line(&format!("{pinfold} exec {} -T -- sh -c 'tty; cat; echo end'", session.id));
        tmux.wait_for_line("not a tty");
        tmux.line("typed");
        tmux.wait_until("it back", |screen| screen.matches("typed").count() == 2);
        tmux.keys(&["C-d"]);
        tmux.wait_for_line("end");
        session.end();
    }
}
