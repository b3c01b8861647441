//! What runs on the host, with which words, where, and what comes back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use pinfold_testkit::{people, processes_with};

use super::{ALL, Scene, said};

const SHOW: &str = "#!/bin/sh\nfor word; do printf '<%s>' \"$word\"; done\nprintf '\\n'\npwd\n";

#[test]
fn words_streams_and_status_are_the_programs_own() {
    for user in people() {
        let scene = Scene::new(user, ALL);
        scene.program(
            "moltnet",
            "#!/bin/sh\nfor w; do printf '<%s>' \"$w\"; done; cat; printf err >&2; exit 7\n",
        );
        let script = "printf 'in\\0put' | pinfold-host moltnet '' -x 'a b' \"$(printf 'l1\\nl2')\" \
                      --opt=v '*' \"$(printf '\\377')\" >out 2>err; echo $?";
        let output = scene.run(&[], script);
        assert_eq!(output.stdout, b"7\n", "{}", said(&output));
        let read = |name: &str| std::fs::read(scene.stage.workspace().join(name)).unwrap();
        assert_eq!(read("out"), b"<><-x><a b><l1\nl2><--opt=v><*><\xff>in\0put");
        assert_eq!(read("err"), b"err");
    }
}

#[test]
fn program_runs_from_a_directory_whose_name_is_not_utf8() {
    let scene = Scene::new(people()[0], ALL);
    scene.program("moltnet", "#!/bin/sh\necho ran\n");
    let mut name = scene.stage.path("").into_os_string();
    name.push(OsStr::from_bytes(b"bin-\xff"));
    std::fs::rename(scene.stage.path("bin"), &name).unwrap();
    name.push(":/usr/bin:/bin");
    let mut run = scene.pinfold(&["run", "--", "sh", "-c", "pinfold-host moltnet </dev/null"]);
    let output = run.env("PATH", name).output().unwrap();
    assert_eq!(output.stdout, b"ran\n", "{}", said(&output));
}

#[test]
fn a_result_in_json_has_a_status_that_is_no_error() {
    let scene = Scene::new(people()[0], ALL);
    scene.program("moltnet", "#!/bin/sh\necho out; echo err >&2; exit 3\n");
    let output = scene.run(&[], "pinfold-host --json moltnet a </dev/null");
    assert!(output.status.success());
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cwd = scene.stage.workspace();
    let expected = serde_json::json!({
        "host_exec": true, "executable": "moltnet", "args": ["a"], "cwd": cwd,
        "stdout": "out\n", "stderr": "err\n", "exit_code": 3,
    });
    assert_eq!(result, expected);
}

#[test]
fn program_has_few_variables_and_no_path_that_the_sandbox_writes() {
    let scene = Scene::new(people()[0], ALL);
    scene.program("moltnet", "#!/bin/sh\nenv\n");
    let planted = scene.stage.write("ws/bin/moltnet", "#!/bin/sh\necho planted\n");
    std::fs::set_permissions(planted, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("/bin/echo", scene.stage.path("ws/bin/gh")).unwrap();
    let (ws, bin) = (scene.stage.workspace(), scene.stage.path("bin"));
    let mut run = scene.pinfold(&["run", "--", "sh", "-c", "pinfold-host moltnet </dev/null"]);
    let path = format!("bin:{0}/bin:{1}:/usr/bin:/bin", ws.display(), bin.display());
    run.env("PATH", path)
        .env("SECRET_TOKEN", "x")
        .env("GIT_SSH_COMMAND", "x")
        .env("LD_PRELOAD", "");
    let said = said(&run.output().unwrap());
    assert!(said.contains(&format!("PATH={}:/usr/bin", bin.display())), "{said}");
    for name in ["SECRET_TOKEN", "GIT_SSH_COMMAND", "LD_PRELOAD", "planted"] {
        assert!(!said.contains(name), "{said}");
    }
    let mut gh = scene.pinfold(&["run", "--", "sh", "-c", "pinfold-host gh status"]);
    gh.env("PATH", format!("{}/bin", ws.display()));
    let output = gh.output().unwrap();
    assert!(super::said(&output).contains("gh is not on the host"), "{}", super::said(&output));
}

#[test]
fn program_that_is_not_listed_or_missing_is_refused_with_a_hint() {
    let scene = Scene::new(people()[0], ALL);
    let output = scene.run(
        &[],
        "for c in ls /bin/sh ./x .. '' -x \"$(printf 'a\\033[2J')\"; do pinfold-host -- \"$c\" </dev/null; \
         echo $?; done",
    );
    let said = said(&output);
    assert!(said.contains("ls is not on the list of executables (git, gh, moltnet)"), "{said}");
    assert!(said.contains("executables = [\"ls\"] under [hostExec]"), "{said}");
    assert!(said.contains("/bin/sh is not the name of an executable"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("126").count(), 7, "{said}");
    scene.settings("autoApprove = true\nexecutables = [\"made-up\"]");
    assert!(
        super::said(&scene.run(&[], "pinfold-host made-up")).contains("made-up is not on the host")
    );
}

#[test]
fn host_command_runs_in_the_callers_directory_and_nowhere_else() {
    for user in people() {
        let scene = Scene::new(user, ALL);
        scene.program("moltnet", SHOW);
        scene.stage.write("ws/deep/er/file", "");
        let deep = scene.stage.path("ws/deep/er");
        assert!(
            scene.inside("cd deep/er && pinfold-host moltnet").contains(deep.to_str().unwrap())
        );
        let output = scene.run(&[], "cd /tmp; pinfold-host moltnet; cd /usr; pinfold-host moltnet");
        assert_eq!(
            said(&output).matches("is not in the workspace").count(),
            2,
            "{}",
            said(&output)
        );
        // The directory is replaced by a link while somebody stands in it.
        let output = scene.run(
            &["--opt-in", "outward-links"],
            "cd deep && mv ../deep ../moved && ln -s /etc ../deep && \
                                     cd -P .. && cd deep && pinfold-host moltnet",
        );
        assert!(!said(&output).contains("<"), "{}", said(&output));
        let python = "import os, socket, struct\n\
            s = socket.socket(socket.AF_UNIX); s.connect('/run/pinfold/host-exec')\n\
            b = lambda x: struct.pack('<I', len(x)) + x\n\
            m = b(b'moltnet') + struct.pack('<I', 0) + b(os.fsencode(os.getcwd()) + b'/deep')\n\
            s.sendall(b(b'\\x02' + b(m))); print(s.recv(9999))";
        let output = scene.run(&[], &format!("python3 -c \"{python}\""));
        assert!(said(&output).contains("leads through a symbolic link"), "{}", said(&output));
    }
}

#[test]
fn sandbox_cannot_ask_unless_its_user_allows_it() {
    let scene = Scene::new(people()[0], ALL);
    std::fs::remove_file(scene.stage.path("home/.config/pinfold/config.toml")).unwrap();
    scene
        .stage
        .write("ws/sandbox.json", r#"{"hostExec": {"autoApprove": true, "onPath": ["git"]}}"#);
    let output = scene.run(&[], "ls /run/pinfold; pinfold-host moltnet; echo $?");
    assert!(
        said(&output).contains("127") && !said(&output).contains("host-exec"),
        "{}",
        said(&output)
    );
    let hash = scene.pinfold(&["trust", "--hash"]).output().unwrap();
    let hash = String::from_utf8_lossy(&hash.stdout).trim().to_owned();
    let output = scene.run(&["--trust-config", &hash], "pinfold-host moltnet");
    assert!(said(&output).contains("moltnet ran"), "{}", said(&output));
    let output = scene.run(&["--host-exec"], "pinfold-host moltnet; echo $?");
    assert!(said(&output).contains("no user can be asked"), "{}", said(&output));
    assert!(said(&output).contains("autoApprove = [{ executable = \"moltnet\", args = [] }]"));
}

#[test]
fn a_time_limit_ends_the_whole_tree() {
    for user in people() {
        let scene = Scene::new(user, "autoApprove = true\ntimeout = \"1s\"");
        let mark = format!("31{}", std::process::id());
        // One that has left its session, and one that has left its parent.
        scene.program(
            "moltnet",
            &format!(
                "#!/bin/sh\nsetsid sleep {mark}1 & (sleep {mark}2 &) ; echo began; sleep {mark}3\n"
            ),
        );
        let output = scene.run(&[], "pinfold-host moltnet; echo $?");
        assert!(said(&output).contains("moltnet ran longer than 1s"), "{}", said(&output));
        assert!(said(&output).contains("126") && said(&output).contains("began"));
        assert_eq!(processes_with(&format!("sleep\0{mark}")), [0; 0]);
        let end = scene.audit().pop().unwrap();
        assert_eq!(end["event"], "host-exec-end");
        assert!(end["reason"].as_str().unwrap().contains("longer than 1s"), "{end}");
    }
}

#[test]
fn processes_that_a_host_program_leaves_end_with_it_and_with_its_client() {
    let scene = Scene::new(people()[0], ALL);
    let mark = format!("32{}", std::process::id());
    scene.program("moltnet", &format!("#!/bin/sh\nsetsid sleep {mark} >/dev/null 2>&1 &\necho began\n[ -z \"$1\" ] || sleep {mark}9\n"));
    assert!(scene.inside("pinfold-host moltnet").contains("began"));
    assert_eq!(processes_with(&format!("sleep\0{mark}")), [0; 0]);
    let began = Instant::now();
    let script = "pinfold-host moltnet stay >said & while ! grep -q began said; do sleep 0.05; done; \
                  kill -9 $!; wait; sleep 0.1";
    scene.run(&[], script);
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(processes_with(&format!("sleep\0{mark}")), [0; 0]);
}

/// For want of memory the kernel may choose the process that minds a program.
#[test]
fn program_ends_with_its_killed_minder() {
    let scene = Scene::new(people()[0], ALL);
    let mark = format!("33{}", std::process::id());
    scene.program("moltnet", &format!("#!/bin/sh\nsleep {mark}1 & echo began; sleep {mark}2\n"));
    let script = "pinfold-host moltnet >said & while ! grep -q began said; do sleep 0.05; done; \
                  touch ready; wait $!; echo status $?";
    let mut run = scene.pinfold(&["run", "--", "sh", "-c", script]);
    let run = run.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while !scene.stage.path("ws/ready").exists() {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
    let program = scene.stage.path("bin/moltnet").display().to_string();
    let minders = processes_with("\0host-run\0");
    let minder = processes_with(&program).into_iter().find(|pid| minders.contains(pid));
    let minder = rustix::process::Pid::from_raw(i32::try_from(minder.unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(minder, rustix::process::Signal::KILL).unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "status 137\n");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(processes_with(&format!("sleep\0{mark}")), [0; 0]);
}

#[test]
fn a_gigabyte_passes_through_a_broker_that_stays_small() {
    let scene = Scene::new(people()[0], ALL);
    scene.program("moltnet", "#!/bin/sh\nhead -c 1000000000 /dev/zero\n");
    let mut run = scene.pinfold(&[
        "run",
        "--",
        "sh",
        "-c",
        "pinfold-host moltnet | wc -c; touch done; read x",
    ]);
    let run = run.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let child = run.spawn().unwrap();
    let started = Instant::now();
    while !scene.stage.path("ws/done").exists() {
        assert!(started.elapsed() < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").trim().parse().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1000000000");
    assert!(peak < 64 * 1024, "{peak} KiB");
    eprintln!("a gigabyte in {:?}, supervisor at {peak} KiB at most", started.elapsed());
}

#[test]
fn names_on_path_ask_and_of_git_only_what_needs_a_login() {
    for user in super::people_with_git("names on PATH") {
        let scene =
            Scene::with_repository(user, "autoApprove = true\nonPath = [\"git\", \"moltnet\"]");
        let said = scene.inside("moltnet; echo two >>file; git commit -qam two; git push -q origin main; git status -sb");
        assert!(said.contains("moltnet ran") && said.contains("## main"), "{said}");
        assert_eq!(
            scene.remote("main"),
            Some(scene.outside("git rev-parse HEAD").trim().to_owned())
        );
    }
}

#[test]
fn every_request_is_recorded_before_it_takes_effect() {
    let scene = Scene::new(
        people()[0],
        "autoApprove = [{ executable = \"moltnet\", argsPrefix = [\"ok\"] }]",
    );
    // The program reads the log of the session that asks for it.
    let log = scene.stage.state().join("audit.jsonl");
    scene.program("moltnet", &format!("#!/bin/sh\ngrep -c host-exec-decision {}\n", log.display()));
    assert_eq!(scene.inside("pinfold-host moltnet ok").trim(), "1");
    scene.run(&[], "pinfold-host moltnet no");
    let audit = scene.audit();
    let events: Vec<&str> = audit.iter().map(|one| one["event"].as_str().unwrap()).collect();
    let expected = ["host-exec-request", "host-exec-decision", "host-exec-end"];
    assert_eq!(events, [&expected[..], &expected[..2]].concat());
    assert_eq!(audit[1]["outcome"], "allow");
    assert!(audit[1]["by"].as_str().unwrap().ends_with("config.toml:2"), "{}", audit[1]);
    assert_eq!(audit[4]["outcome"], "deny");
}

#[test]
fn a_program_starts_with_no_signal_blocked() {
    let scene = Scene::new(people()[0], ALL);
    scene.program("moltnet", "#!/bin/sh\ngrep SigBlk /proc/self/status\nkill -15 $$\n");
    let said = said(&scene.run(&[], "pinfold-host moltnet </dev/null; echo $?"));
    assert!(said.contains("SigBlk:\t0000000000000000\n"), "{said}");
    assert!(said.contains("143"), "{said}");
}

#[test]
fn nothing_is_left_of_a_request() {
    for user in super::people_with_git("what is left") {
        let scene = Scene::with_repository(user, ALL);
        scene.inside("pinfold-host git push origin main; pinfold-host git push none; pinfold-host moltnet; ls -A /tmp >&2; true");
        let private = scene.stage.state().join("private");
        assert_eq!(std::fs::read_dir(private).unwrap().count(), 0);
        let ps = scene.pinfold(&["ps", "--json"]).output().unwrap();
        assert!(!said(&ps).contains("host-exec"), "{}", said(&ps));
    }
}

#[test]
fn host_command_runs_as_the_wrappers_change_it() {
    if !pinfold_testkit::installed("python3") {
        return pinfold_testkit::skip("wrappers", "python3 is not installed");
    }
    let wrap = "#!/usr/bin/python3\nimport json, sys\nit = json.load(sys.stdin)\n\
                if it['boundary'] == 'host':\n    it['args'].append('wrapped')\nprint(json.dumps(it))\n";
    let refuse = "#!/bin/sh\nexit 1\n";
    for user in people() {
        let scene = Scene::new(user, "");
        scene.program("moltnet", SHOW);
        let path = scene.stage.path("bin/wrap");
        let wrapper =
            format!("[[wrappers]]\nid = \"w\"\ncommand = [{:?}]\n", path.to_str().unwrap());
        scene.settings(&format!("{ALL}\n{wrapper}"));
        scene.program("wrap", wrap);
        let said = scene.inside("pinfold-host moltnet own </dev/null");
        assert!(said.contains("<own><wrapped>"), "{said}");
        let log = std::fs::read_to_string(scene.stage.state().join("audit.jsonl")).unwrap();
        assert!(log.contains(r#""handled_by":["host","w"]"#), "{log}");
        // Another name is not looked for where the sandbox writes.
        scene.program(
            "wrap",
            &wrap.replace("it['args'].append('wrapped')", "it['command'] = 'helper'"),
        );
        std::os::unix::fs::symlink(
            scene.stage.workspace().join("helper"),
            scene.stage.path("bin/helper"),
        )
        .unwrap();
        let plant = "printf '#!/bin/sh\\necho planted' > helper; chmod +x helper; \
                     pinfold-host moltnet own </dev/null 2>&1";
        let said = super::said(&scene.run(&[], plant));
        assert!(said.contains("where a session may have written"), "{said}");
        scene.program("wrap", refuse);
        let output = scene.run(&[], "pinfold-host moltnet own </dev/null");
        assert!(!super::said(&output).contains("<own>"), "{}", super::said(&output));
    }
}
