//! A user is asked: at the session's terminal, and by `pinfold approvals`.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Tmux, executable, installed, people, skip};

use super::{Scene, said};

/// Waits until something is asked, and gives it as `pinfold approvals --json` shows it.
pub(super) fn wait_for_request(scene: &Scene) -> serde_json::Value {
    let started = Instant::now();
    loop {
        let listed = scene.pinfold(&["approvals", "--json"]).output().unwrap();
        if let Some(first) = listed.stdout.split(|byte| *byte == b'\n').find(|it| !it.is_empty()) {
            return serde_json::from_slice(first).unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(30), "nothing is asked");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn answer(scene: &Scene, words: &[&str]) {
    let id = wait_for_request(scene)["id"].to_string();
    let mut all = vec!["approvals", words[0], &id];
    all.extend(&words[1..]);
    let output = scene.pinfold(&all).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

/// A run without a terminal that waits for answers.
fn waiting(scene: &Scene, script: &str) -> Child {
    let mut run = scene.pinfold(&["run", "--wait-for-approvals", "--", "sh", "-c", script]);
    run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn answers_count_once_for_the_session_or_always_and_no_more_than_was_shown() {
    for user in people() {
        let scene = Scene::new(user, "");
        let ask = |rest: &str| format!("pinfold-host moltnet a 'b c' </dev/null; {rest}");
        let child = waiting(&scene, &ask("pinfold-host moltnet a 'b c' </dev/null; echo $?"));
        answer(&scene, &["approve"]);
        answer(&scene, &["deny", "--reason", "no \u{1b}[2Jmore"]);
        let output = said(&child.wait_with_output().unwrap());
        assert!(output.contains("moltnet ran\n126"), "{output}");
        assert!(output.contains("denied by its user: no \\e[2Jmore"), "{output}");

        let child =
            waiting(&scene, &ask(&ask("pinfold-host moltnet a 'b c' d </dev/null; echo $?")));
        answer(&scene, &["approve", "--session"]);
        answer(&scene, &["deny"]);
        let output = said(&child.wait_with_output().unwrap());
        assert!(output.contains("moltnet ran\nmoltnet ran\n126"), "{output}");

        let child = waiting(&scene, &ask("true"));
        answer(&scene, &["approve", "--always"]);
        assert!(said(&child.wait_with_output().unwrap()).contains("moltnet ran"));
        // Without anybody, in another session: this, and nothing near it.
        let near = "mkdir -p d; for a in 'a' 'a b\\ c d' 'a b c' \"'a b c'\"; do eval pinfold-host moltnet $a \
                    </dev/null; done; cd d; pinfold-host moltnet a 'b c'";
        let output = said(&scene.run(&[], &ask(near)));
        assert_eq!(output.matches("moltnet ran").count(), 1, "{output}");
        assert_eq!(output.matches("no user can be asked").count(), 5, "{output}");
        let rules = scene.pinfold(&["approvals", "rules"]).output().unwrap();
        assert!(said(&rules).contains("1  moltnet a 'b c' in "), "{}", said(&rules));
        assert!(scene.pinfold(&["approvals", "forget", "1"]).status().unwrap().success());
        assert!(!said(&scene.run(&[], &ask("true"))).contains("moltnet ran"));
    }
}

#[test]
fn a_detached_session_waits_where_somebody_watches() {
    let scene = Scene::new(people()[0], "approvalTimeout = \"1s\"");
    let output = scene.pinfold(&["run", "-d", "--host-exec", "--name", "n", "--", "sh", "-c",
        "while [ ! -f go ]; do sleep 0.05; done; pinfold-host moltnet </dev/null; echo $? >status; sleep 60"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let mut watch = scene.pinfold(&["approvals", "--watch", "--json", "--session", "n"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut errors = std::io::BufReader::new(watch.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut errors, &mut line).unwrap();
    assert!(line.contains("wait for an answer"), "{line}");
    scene.stage.write("ws/go", "");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().unwrap()));
    let asked: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(asked["command"], "moltnet");
    // Nobody answers.
    let settled: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(settled["settled"], asked["id"]);
    let status = scene.stage.path("ws/status");
    let started = Instant::now();
    while std::fs::read_to_string(&status).unwrap_or_default().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    scene.pinfold(&["stop", "n"]).status().unwrap();
    watch.wait().unwrap();
    assert_eq!(std::fs::read_to_string(&status).unwrap(), "126\n");
    let log = scene.audit();
    assert!(log.iter().any(|one| one["reason"] == "denied: nobody answered within 1s"), "{log:?}");
}

/// What has no room in a message is too much to be read, too: it is refused, and hides no other request
/// from clients that list or watch.
#[test]
fn a_request_that_is_too_long_to_be_shown_hides_no_other() {
    let scene = Scene::new(people()[0], "");
    let script = r#"deep=$PWD; name=$(printf '%0250d' 0 | tr 0 '\\')
        while [ ${#deep} -lt 3500 ]; do deep=$deep/$name; mkdir "$deep" && cd "$deep" || exit; done
        quotes() { printf "%0$1d" 0 | tr 0 "'"; }
        for count in 100 1000 2000 7900; do
            pinfold-host moltnet "$(quotes $count)" </dev/null >"$OLDPWD/out.$count" 2>&1 &
        done
        cd /; pinfold-host moltnet later </dev/null"#;
    let script = script.replace("$OLDPWD", &scene.stage.workspace().display().to_string());
    let script = script.replace("cd /;", &format!("cd '{}';", scene.stage.workspace().display()));
    let child = waiting(&scene, &script);
    let started = Instant::now();
    let shown = loop {
        let listed = scene.pinfold(&["approvals", "--json"]).output().unwrap();
        let shown = String::from_utf8_lossy(&listed.stdout).into_owned();
        let out = |count: u32| std::fs::read(scene.stage.path(&format!("ws/out.{count}")));
        let is_refused = |count| !out(count).unwrap_or_default().is_empty();
        let is_asked = shown.contains("moltnet later") && shown.lines().count() > 1;
        if is_asked && is_refused(2000) && is_refused(7900) {
            assert!(listed.status.success());
            break shown;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{shown}");
        std::thread::sleep(Duration::from_millis(50));
    };
    for count in [2000, 7900] {
        let out = std::fs::read_to_string(scene.stage.path(&format!("ws/out.{count}"))).unwrap();
        assert!(out.contains("are too many to ask a user about"), "{out}");
    }
    // The session ends with the last one.
    let (last, first): (Vec<&str>, Vec<&str>) =
        shown.lines().partition(|line| line.contains("moltnet later"));
    for line in first.into_iter().chain(last) {
        let asked: serde_json::Value = serde_json::from_str(line).unwrap();
        let id = asked["id"].to_string();
        assert!(scene.pinfold(&["approvals", "deny", &id]).status().unwrap().success());
    }
    child.wait_with_output().unwrap();
}

/// Each session counts its own requests.
#[test]
fn a_number_that_two_sessions_have_answers_neither() {
    let scene = Scene::new(people()[0], "");
    let asking = || waiting(&scene, "pinfold-host moltnet </dev/null");
    let runs = [asking(), asking()];
    let started = Instant::now();
    let sessions = loop {
        let listed = scene.pinfold(&["approvals", "--json"]).output().unwrap();
        let lines = String::from_utf8_lossy(&listed.stdout).into_owned();
        let asked = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        let asked: Vec<serde_json::Value> = asked.collect();
        if asked.len() == 2 {
            assert!(asked.iter().all(|one| one["id"] == 1), "{lines}");
            let name = |one: &serde_json::Value| one["session"].as_str().unwrap().to_owned();
            break asked.iter().map(name).collect::<Vec<String>>();
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{lines}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let refused = scene.pinfold(&["approvals", "approve", "1"]).output().unwrap();
    let says = said(&refused);
    assert!(!refused.status.success() && says.contains("2 sessions have a request 1"), "{says}");
    for session in &sessions {
        assert!(says.contains(&format!("{session}:1")), "{says}");
        let denied = scene.pinfold(&["approvals", "deny", &format!("{session}:1")]).status();
        assert!(denied.unwrap().success());
    }
    for run in runs {
        assert!(!said(&run.wait_with_output().unwrap()).contains("moltnet ran"));
    }
}

#[test]
fn of_a_hundred_at_once_each_is_answered_by_its_number() {
    let scene = Scene::new(people()[0], "");
    let script = "i=0; while [ $i -lt 101 ]; do pinfold-host moltnet $i </dev/null >out.$i 2>&1 & i=$((i+1)); done; wait";
    let child = waiting(&scene, script);
    let started = Instant::now();
    let pending = loop {
        let listed = scene.pinfold(&["approvals", "--json"]).output().unwrap();
        let lines: Vec<serde_json::Value> = String::from_utf8_lossy(&listed.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        if lines.iter().any(|it| it["id"] == 101) && lines.len() == 100 {
            break lines;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{} wait", lines.len());
        std::thread::sleep(Duration::from_millis(50));
    };
    // A request has its number before it waits, so the oldest that waited then may be another one than the first.
    let ids: Vec<u64> = pending.iter().map(|it| it["id"].as_u64().unwrap()).collect();
    let denied: Vec<u64> = (1..=101).filter(|id| !ids.contains(id)).collect();
    assert!(matches!(denied[..], [id] if id < 50), "{denied:?}");
    let is_approved = |id: &&u64| id.is_multiple_of(2);
    let session = pending[0]["session"].as_str().unwrap();
    for one in &ids {
        let id = format!("{session}:{one}");
        let answer = if is_approved(&one) { "approve" } else { "deny" };
        assert!(scene.pinfold(&["approvals", answer, &id]).status().unwrap().success());
    }
    child.wait_with_output().unwrap();
    let outs = (0..101)
        .map(|i| std::fs::read_to_string(scene.stage.path(&format!("ws/out.{i}"))).unwrap());
    let outs: Vec<String> = outs.collect();
    let ran = outs.iter().filter(|out| out.contains("moltnet ran")).count();
    assert_eq!(ran, ids.iter().filter(is_approved).count());
    assert_eq!(
        outs.iter().filter(|out| out.contains("too many requests came after it")).count(),
        1
    );
}

/// What a sandbox would try: bury the user in questions by a command or a webhook, so that nobody reads them.
#[test]
fn flood_of_commands_meets_caps_on_the_way_to_a_user_who_is_away() {
    for user in people() {
        let scene = Scene::new(user, "");
        // Counts questions, and says what the most at once were.
        let script = "#!/bin/sh\ncat >/dev/null\necho x >>\"$HOME/questions\"\n\
            mkdir -p \"$HOME/now\"; touch \"$HOME/now/$$\"; ls \"$HOME/now\" | wc -l >>\"$HOME/most\"\n\
            sleep 0.3; rm \"$HOME/now/$$\"; echo deny\n";
        scene.program("ask", script);
        let ask = scene.stage.path("bin/ask");
        let config =
            format!("[hostExec]\n[ask]\nconnections = false\ncommand = [\"{}\"]\n", ask.display());
        scene.stage.write("home/.config/pinfold/config.toml", config);
        let output = scene.run(
            &["--host-exec"],
            "for n in 0 1 2 3 4 5; do i=0; while [ $i -lt 40 ]; do pinfold-host moltnet $n$i </dev/null >out.$n.$i 2>&1 & i=$((i+1)); done; wait; done; \
             cat out.* | sort | uniq -c",
        );
        let lines = |name: &str| {
            let text = std::fs::read_to_string(scene.stage.path(name)).unwrap();
            text.lines().map(|line| line.trim().to_owned()).collect::<Vec<String>>()
        };
        let says = said(&output);
        let count = lines("home/questions").len();
        assert!((100..=140).contains(&count), "{count} questions: {says}");
        let most = lines("home/most").iter().map(|it| it.parse::<usize>().unwrap()).max();
        assert!(most <= Some(10), "{most:?} at once");
        assert!(says.contains("asked for too much that was not approved"), "{says}");
        assert!(!says.contains("moltnet ran"), "{says}");
    }
}

/// Starts something at a terminal, with the scene's programs on its PATH.
fn terminal<'a>(scene: &'a Scene, test: &str) -> Option<Tmux<'a>> {
    if !installed("tmux") || !installed("bash") {
        skip(test, "tmux or bash is not installed");
        return None;
    }
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", scene.stage.path("bin").display());
    Some(Tmux::start(&scene.stage, &scene.stage.workspace(), &[("PATH", &path)]))
}

const READY: &str = "[y]es, once";

#[test]
fn a_question_comes_over_the_screen_and_leaves_it_as_it_was() {
    let pinfold = executable();
    for user in people() {
        let scene = Scene::new(user, "");
        let Some(tmux) = terminal(&scene, "a question") else { return };
        scene.stage.write(
            "ws/ask.sh",
            "echo above; pinfold-host moltnet \"$@\" </dev/null; echo status $?\n",
        );
        tmux.line(&format!("clear; {pinfold} run -- bash --noprofile --norc"));
        tmux.wait_for("$");
        for (key, status) in [("y", 0), ("n", 126), ("C-c", 126), ("s", 0)] {
            tmux.line("clear; sh ask.sh it 'a b'");
            let screen = tmux.wait_for(READY);
            assert!(screen.contains("moltnet it 'a b'") && !screen.contains("above"), "{screen}");
            tmux.keys(&[key]);
            let screen = tmux.wait_for(&format!("\nstatus {status}\n"));
            assert!(screen.contains("above") && !screen.contains(READY), "{key}: {screen}");
        }
        // Approved for the session: not asked again.
        tmux.line("clear; sh ask.sh it 'a b'");
        tmux.wait_for("\nstatus 0\n");
        tmux.line("clear; sh ask.sh always");
        tmux.wait_for(READY);
        tmux.keys(&["a"]);
        tmux.wait_for("\nstatus 0\n");
        tmux.line("exit");
        tmux.wait_for_prompt("outer>");
        tmux.line(&format!("clear; {pinfold} run -- sh ask.sh always"));
        tmux.wait_for("\nstatus 0\n");
    }
}

#[test]
fn keys_that_were_typed_before_a_question_never_answer_it() {
    let pinfold = executable();
    let scene = Scene::new(people()[0], "approvalTimeout = \"6s\"");
    let Some(tmux) = terminal(&scene, "type-ahead") else { return };
    tmux.line(&format!("clear; {pinfold} run -- sh -c 'sleep 1; pinfold-host moltnet; echo status $?; read x; echo $x'"));
    // Before the question, while it appears, and pasted into it.
    for _ in 0..30 {
        tmux.text("y");
        std::thread::sleep(Duration::from_millis(50));
    }
    tmux.wait_for(READY);
    tmux.text("yyyy");
    tmux.keys(&["Enter"]);
    let screen = tmux.wait_for("status 126");
    assert!(
        screen.contains("nobody answered within 6s") && !screen.contains("moltnet ran"),
        "{screen}"
    );
}

#[test]
fn nothing_that_was_left_unfinished_or_set_hides_a_question() {
    let pinfold = executable();
    let scene = Scene::new(people()[0], "");
    let Some(tmux) = terminal(&scene, "hidden questions") else { return };
    let hidings = [
        // A string that the terminal reads until it is ended, a sequence, and a window of five rows.
        "\\033Pz",
        "\\033]0;",
        "\\033[1;5r\\033[?6h",
        "\\033[?1049h\\033[1;4r\\033[?6h\\033[4h\\033(0",
        "\\033[",
    ];
    for (number, hiding) in hidings.into_iter().enumerate() {
        let script = format!(
            "printf 'Proceed? [y/n] {hiding}'; pinfold-host moltnet {number} </dev/null >out 2>&1; \
             printf '\\033\\\\\\033c'; echo status $?"
        );
        scene.stage.write("ws/hide.sh", script);
        tmux.line(&format!("clear; {pinfold} run -- sh hide.sh"));
        let screen = tmux.wait_for(READY);
        assert!(!screen.contains("Proceed?"), "{hiding}: {screen}");
        assert!(screen.contains(&format!("\n  moltnet {number}\n\n  in /")), "{hiding}: {screen}");
        tmux.keys(&["n"]);
        tmux.wait_for("status 0");
        tmux.wait_for_prompt("outer>");
    }
}

#[test]
fn a_full_screen_program_draws_its_screen_again() {
    let pinfold = executable();
    let scene = Scene::new(people()[0], "");
    if !installed("vim") {
        return skip("a full screen", "vim is not installed");
    }
    let Some(tmux) = terminal(&scene, "a full screen") else { return };
    scene.stage.write("ws/notes", "first line\nsecond line\n");
    scene.stage.write("ws/job", "pinfold-host moltnet x </dev/null >out 2>&1\n");
    tmux.line(&format!("clear; {pinfold} run -- vim -u NONE -N notes"));
    let is_drawn = |screen: &str| {
        screen.starts_with("first line\nsecond line\n~\n") && screen.matches("\n~").count() == 21
    };
    let before = tmux.wait_until("the screen before", is_drawn);
    tmux.line(":call job_start('sh job')");
    let screen = tmux.wait_for(READY);
    assert!(!screen.contains("second line"), "{screen}");
    tmux.keys(&["y"]);
    let after = tmux.wait_until("the screen again", is_drawn);
    let text = |screen: &str| screen.lines().take(20).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(text(&after), text(&before));
    let out = scene.stage.path("ws/out");
    tmux.wait_until("the result", |_| {
        std::fs::read_to_string(&out).is_ok_and(|said| said.contains("moltnet ran"))
    });
    tmux.line(":q");
    tmux.wait_for_prompt("outer>");
}

#[test]
fn a_hundred_questions_leave_the_terminal_usable() {
    let pinfold = executable();
    let scene = Scene::new(people()[0], "");
    let Some(tmux) = terminal(&scene, "a hundred questions") else { return };
    scene.stage.write("ws/many.sh", "i=0; while [ $i -lt 100 ]; do pinfold-host moltnet $i </dev/null >/dev/null 2>&1 & i=$((i+1)); done; wait; echo all done\n");
    tmux.line(&format!("clear; {pinfold} run -- sh many.sh"));
    tmux.wait_for("more wait)");
    tmux.wait_for(READY);
    tmux.keys(&["d"]);
    tmux.wait_until("the end", |screen| {
        if screen.contains("[d]eny all") || screen.contains(READY) {
            tmux.keys(&["d"]);
        }
        screen.contains("all done")
    });
    // A key that was meant for a question which had just gone waits in the shell's line.
    tmux.wait_for("outer>");
    tmux.keys(&["C-u"]);
    tmux.line("clear; echo usable $((1 + 1))");
    tmux.wait_for_line("usable 2");
    tmux.wait_for_prompt("outer>");
}
