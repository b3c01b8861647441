//! A terminal inside behaves as one outside, and the caller's is given back whatever happens.

use std::fs;
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, Tmux, installed, people, processes_with, run_line, skip};

use pinfold_testkit::agent::{self, AgentScene};

/// Whether tmux is there; says if not.
fn tmux_is_there(test: &str) -> bool {
    let there = installed("tmux") && installed("bash");
    if !there {
        skip(test, "tmux or bash is not installed");
    }
    there
}

/// Writes the terminal's modes to a file in the workspace, as the outer shell sees them.
fn modes(tmux: &Tmux<'_>, stage: &Stage, name: &str) -> String {
    let file = stage.path("tmp").join(name);
    tmux.keys(&["C-u"]);
    tmux.line(&format!("clear; stty -a >{0}.part; mv {0}.part {0}", file.display()));
    tmux.wait_until(name, |_| file.exists());
    // The size is the test's to change.
    let text = fs::read_to_string(file).unwrap();
    text.lines().filter(|line| !line.contains("rows")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_shell_inside_has_colours_size_and_interrupts() {
    if !tmux_is_there("a shell inside") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
        let before = modes(&tmux, &stage, "before");
        let run = run_line();
        tmux.line(&format!("{run} --env PS1='inner> ' -- bash --noprofile --norc"));
        tmux.wait_for_prompt("inner>");
        tmux.line("stty size; tty; printf '\\033[31mred\\033[0m\\n'");
        let screen = tmux.wait_for("\nred");
        assert!(screen.contains("\n24 80\n") && screen.contains("\n/dev/pts/0\n"), "{screen}");
        assert!(tmux.coloured().contains("\u{1b}[31mred"), "{}", tmux.coloured());
        tmux.resize(100, 30);
        tmux.wait_for_prompt("inner>");
        tmux.line("clear; stty size");
        tmux.wait_for("30 100");
        tmux.has_job_control("inner>", &format!("sleep 31{}", std::process::id()));
        tmux.line("exit 9");
        tmux.wait_for_prompt("outer>");
        tmux.line("echo status $?");
        tmux.wait_for_line("status 9");
        assert_eq!(modes(&tmux, &stage, "after"), before);
    }
}

#[test]
fn a_command_is_suspended_and_resumed_as_a_job() {
    if !tmux_is_there("suspending") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
        let before = modes(&tmux, &stage, "before");
        // In two parts, because the shell shows the command itself, too.
        // Without a program in the loop: bash ignores an interrupt if the program that it waits for ends by itself.
        let script =
            "trap \"printf %s-%s re sumed\" CONT; echo started; while :; do read -r line; done";
        let run = run_line();
        tmux.line(&format!("clear; {run} -- bash -c '{script}'"));
        tmux.wait_for_line("started");
        for round in ["one", "two"] {
            tmux.keys(&["C-z"]);
            tmux.wait_for("Stopped");
            tmux.wait_for_prompt("outer>");
            assert_eq!(modes(&tmux, &stage, round), before, "while it is stopped");
            tmux.line("clear; fg");
            tmux.wait_for("re-sumed");
        }
        tmux.keys(&["C-c"]);
        tmux.wait_for_prompt("outer>");
        tmux.line("echo status $?");
        tmux.wait_for_line("status 130");
        assert_eq!(modes(&tmux, &stage, "after"), before);
    }
}

#[test]
fn writers_that_a_command_leaves_end_with_it() {
    if !tmux_is_there("what a command leaves") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
        let before = modes(&tmux, &stage, "before");
        let run = run_line();
        tmux.line(&format!("clear; {run} -- sh -c 'yes left & sleep 1; exit 3'; echo status $?"));
        // Maybe within a line that was cut.
        tmux.wait_for("status 3");
        tmux.wait_for_prompt("outer>");
        assert_eq!(modes(&tmux, &stage, "after"), before);
    }
}

#[test]
fn vim_draws_resizes_suspends_and_writes() {
    if !tmux_is_there("vim") || !installed("vim") {
        return skip("vim", "vim or tmux is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
        let before = modes(&tmux, &stage, "before");
        let run = run_line();
        tmux.line(&format!("{run} -- vim -u NONE -N notes"));
        tmux.wait_for("\"notes\" [New]");
        tmux.keys(&["i"]);
        tmux.text("written inside");
        tmux.keys(&["Escape"]);
        tmux.wait_for("written inside");
        tmux.resize(100, 40);
        // A file's end is drawn as tildes down to the last line but one.
        let tildes = |screen: &str| screen.lines().filter(|line| line.starts_with('~')).count();
        tmux.wait_until("a taller screen", |screen| tildes(screen) == 38);
        tmux.resize(60, 12);
        tmux.wait_until("a smaller screen", |screen| tildes(screen) == 10);
        tmux.keys(&["C-z"]);
        tmux.wait_for("Stopped");
        assert_eq!(modes(&tmux, &stage, "stopped"), before);
        tmux.resize(80, 20);
        tmux.line("fg");
        tmux.wait_until("vim again", |screen| tildes(screen) == 18);
        tmux.line(":wq");
        tmux.wait_for_prompt("outer>");
        assert_eq!(fs::read_to_string(stage.path("ws/notes")).unwrap(), "written inside\n");
        assert_eq!(modes(&tmux, &stage, "after"), before);
    }
}

#[test]
fn a_killed_pinfold_leaves_the_terminal_as_it_was() {
    if !tmux_is_there("a killed pinfold") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
        let before = modes(&tmux, &stage, "before");
        let marker = stage.base().file_name().unwrap().to_str().unwrap().to_owned();
        let run = run_line();
        tmux.line(&format!("clear; {run} -- bash -c 'echo started; sleep 1000' {marker}"));
        tmux.wait_for_line("started");
        // pinfold itself and its guardian have the same command line; the guardian is the child.
        let all = processes_with(&format!("\0--\0bash\0-c\0echo started; sleep 1000\0{marker}"));
        let supervisor = *all.iter().min().unwrap();
        kill(supervisor);
        tmux.wait_for("Killed");
        tmux.wait_for_prompt("outer>");
        assert_eq!(modes(&tmux, &stage, "after"), before);
        tmux.wait_until("everything to end", |_| {
            processes_with(&format!("1000\0{marker}")).is_empty()
        });
    }
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Starts an agent's full-screen interface, looks at it at two sizes, and leaves it.
fn full_screen(agent: &str, greeting: &str) {
    if !tmux_is_there(agent) {
        return;
    }
    let Some(scene) = AgentScene::ready(agent) else { return };
    let cache = agent::cache(scene.stage.user);
    let cache = cache.to_str().unwrap();
    assert!(scene.run(agent, &["--version"]).output().unwrap().status.success(), "provisioned");
    let tmux = Tmux::start(&scene.stage, scene.repo.path(), &[("XDG_CACHE_HOME", cache)]);
    let before = modes(&tmux, &scene.stage, "before");
    let run = run_line();
    tmux.line(&format!("clear; {run} {agent}"));
    tmux.wait_for(greeting);
    tmux.text("a question half typed");
    tmux.wait_for("a question half typed");
    tmux.resize(120, 40);
    // Keys typed before the agent draws at the new size may be lost: codex asks the terminal for the cursor's position
    // first, and drops what it reads before the answer.
    tmux.wait_until("the agent to draw at the new size", |screen| {
        let is_used = |line: &str| !line.trim().is_empty();
        screen.lines().skip(24).any(is_used) || screen.lines().any(|line| line.chars().count() > 80)
    });
    // More than fitted on a line before.
    let more = " and then a good deal more, so that it goes past the eightieth column";
    tmux.text(more);
    let whole = format!("a question half typed{more}");
    tmux.wait_until("the wider screen", |screen| screen.contains(&whole));
    leave(&tmux);
    assert_eq!(modes(&tmux, &scene.stage, "after"), before, "{agent}");
}

/// Presses Ctrl-C until the shell is back. The first empties the line, and an agent ends only if another one follows
/// soon, so each waits no longer for the shell than this interval.
fn leave(tmux: &Tmux<'_>) {
    const INTERVAL: Duration = Duration::from_millis(300);
    let mut pressed: Option<Instant> = None;
    tmux.wait_until("the agent to end", |screen| {
        let last = screen.lines().rev().find(|line| !line.trim().is_empty());
        let is_over = last.is_some_and(|line| line.trim_end().ends_with("outer>"));
        if !is_over && pressed.is_none_or(|at| at.elapsed() > INTERVAL) {
            tmux.keys(&["C-c"]);
            pressed = Some(Instant::now());
        }
        is_over
    });
}

#[test]
fn claude_draws_its_interface() {
    full_screen("claude", "Claude Code");
}

#[test]
fn codex_draws_its_interface() {
    full_screen("codex", "OpenAI Codex");
}

#[test]
fn pi_draws_its_interface() {
    full_screen("pi", "pi v");
}

#[test]
fn a_command_cannot_hide_what_pinfold_says_after_it() {
    if !tmux_is_there("what pinfold says") {
        return;
    }
    // Hidden text, one column between margins, line drawing, and the alternate screen as it is spelled
    // for a test that looks for it in one piece.
    let hide = [
        "\\033[8m",
        "\\033[2;3r",
        "\\033(0\\016",
        "\\033[?10\\n49h",
        "\\302\\233?1049h",
        "\\033[?69h\\033[1;1s",
        "\\033]10;#000000\\007\\033[30;40m",
        "\\033P unfinished",
        "\\033[?1049h\\033[8m\\033(0\\033[4h\\033[3;4r",
    ];
    for user in people() {
        for hide in hide {
            let stage = Stage::new(user);
            let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
            let run = run_line();
            let script = format!("printf '{hide}'; sleep 1000");
            stage.write("ws/hide", script);
            tmux.line(&format!("clear; {run} --timeout 1s -- sh hide"));
            let screen = tmux.wait_for("pinfold: the timeout limit ended the run");
            tmux.wait_for_prompt("outer>");
            let colours = tmux.coloured();
            let said = colours.lines().find(|line| line.contains("timeout limit")).unwrap();
            assert!(
                !said.contains("\u{1b}[8m") && !said.contains("[30"),
                "{hide}: {said:?}\n{screen}"
            );
        }
    }
}

/// A mouse that is reported as keys, and a screen that is not the shell's, from a program that ends well and of which
/// pinfold says nothing.
#[test]
fn a_program_that_ends_leaves_its_modes_on_no_terminal() {
    if !tmux_is_there("modes of a program that ends") {
        return;
    }
    const FLAGS: &str = "#{alternate_on}#{mouse_all_flag}#{origin_flag}#{wrap_flag}";
    for user in people() {
        // As it is, and with resets that tmux does not take for any.
        for reset in ["", "\\302\\233?1003;1049l"] {
            let stage = Stage::new(user);
            let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
            let before = tmux.format(FLAGS);
            stage.write("ws/leave", format!("printf '\\033[?1003;1049;6h\\033[?7l{reset}'"));
            tmux.line(&format!("clear; {} -- sh leave; echo status $?", run_line()));
            tmux.wait_for_line("status 0");
            assert_eq!(tmux.format(FLAGS), before, "{reset}");
        }
    }
}
