//! What shells complete.

use std::path::Path;

use pinfold_testkit::{Stage, Tmux, executable, installed, people, skip};

/// How a shell is started, and how it loads what completes.
const SHELLS: [(&str, &str, &str); 3] = [
    ("bash", "bash --noprofile --norc", "source <(pinfold completions bash)"),
    ("zsh", "zsh -f", "autoload -U compinit; compinit -u -D; source <(pinfold completions zsh)"),
    ("fish", "fish --no-config", "pinfold completions fish | source"),
];

#[test]
fn names_of_live_sessions_are_completed() {
    let program = Path::new(executable());
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    for (shell, start, load) in SHELLS {
        if !installed("tmux") || !installed(shell) {
            skip(
                "names_of_live_sessions_are_completed",
                &format!("tmux or {shell} is not installed"),
            );
            continue;
        }
        for user in people() {
            let stage = Stage::new(user);
            let mut run = stage.pinfold(&["run", "-d", "--name", "nightly", "--", "sleep", "1000"]);
            assert!(run.status().unwrap().success());
            let tmux = Tmux::start(&stage, &stage.workspace(), &[("PATH", &path)]);
            tmux.line(&format!("exec env PATH={path} {start}"));
            tmux.line(&format!("{load}; echo load''ed"));
            tmux.wait_for_line("loaded");
            tmux.line("clear");
            tmux.text("pinfold exec nig");
            tmux.wait_for("pinfold exec nig");
            tmux.keys(&["Tab"]);
            tmux.wait_for("pinfold exec nightly");
            tmux.keys(&["C-u"]);
            tmux.text("pinfold compl");
            tmux.wait_for("pinfold compl");
            tmux.keys(&["Tab"]);
            tmux.wait_for("pinfold completions");
            assert!(stage.pinfold(&["stop", "nightly"]).status().unwrap().success());
        }
    }
}

#[test]
fn a_name_of_a_session_is_offered_instead_of_its_number() {
    for user in people() {
        let stage = Stage::new(user);
        let detach = |options: &[&str]| {
            let run =
                stage.pinfold(&["run", "-d"]).args(options).args(["--", "sleep", "1000"]).output();
            String::from_utf8(run.unwrap().stdout).unwrap().trim().to_owned()
        };
        let (named, other) = (detach(&["--name", "nightly"]), detach(&[]));
        let ask = |words: &[&str]| {
            let mut ask = stage.pinfold(&["--", "pinfold"]);
            ask.args(words).env("PINFOLD_COMPLETE", "bash");
            ask.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
            let said = String::from_utf8(ask.output().unwrap().stdout).unwrap();
            said.split(['\n', '\u{b}']).map(str::to_owned).collect::<Vec<_>>()
        };
        for command in ["exec", "shell", "attach", "stop", "logs"] {
            let offered = ask(&[command, ""]);
            assert!(offered.contains(&"nightly".to_owned()), "{command}: {offered:?}");
            assert!(
                offered.contains(&other) && !offered.contains(&named),
                "{command}: {offered:?}"
            );
        }
        assert_eq!(ask(&["exec", &named[..5]]).join(" "), named);
        for session in ["nightly", &other] {
            assert!(stage.pinfold(&["stop", session]).status().unwrap().success());
        }
        assert!(!ask(&["exec", ""]).contains(&other));
        // It has a log, still.
        assert!(ask(&["logs", ""]).contains(&other));
    }
}
