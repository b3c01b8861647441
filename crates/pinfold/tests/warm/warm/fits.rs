//! What a run takes is what it would make itself, and may have.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use pinfold_testkit::{Person, Stage, executable, people, skip};

use super::{Keeper, TAKEN, errors, git_workspace, host, names, run, said, taken};

#[test]
fn a_run_with_other_settings_makes_its_own() {
    for person in people() {
        let stage = Stage::new(person);
        stage.write("data/file", "granted");
        let keeper = Keeper::start(&stage, &[]);
        let data = stage.path("data");
        let data = data.to_str().unwrap();
        for options in [&["--read", data][..], &["--files", "99"], &["--allow-host", "example.com"]]
        {
            let (output, is_taken) = run(&stage, options, &format!("cat {data}/file; ulimit -n"));
            assert!(!is_taken, "{options:?}");
            match options[0] {
                "--read" => assert!(said(&output).starts_with("granted")),
                "--files" => assert_eq!(said(&output), "99\n"),
                _ => {}
            }
        }
        // What the user writes down meanwhile counts at once, and is prepared from then on.
        stage.write("ws/sandbox.json", r#"{"vfs":{"shadow":["hidden"]}}"#);
        stage.write("ws/hidden/file", "on the host");
        let script = "cat hidden/file 2>/dev/null; echo done";
        assert_eq!(said(&run(&stage, &[], script).0), "done\n");
        assert_eq!(said(&taken(&stage, &[], script)), "done\n");
        keeper.end();
    }
}

#[test]
fn another_directory_at_a_granted_path_is_not_what_was_prepared() {
    for person in people() {
        let stage = Stage::new(person);
        stage.write("data/file", "first");
        let data = stage.path("data");
        let options = ["--read", data.to_str().unwrap()];
        let script = format!("cat {}/file", data.display());
        let keeper = Keeper::start(&stage, &options);
        host(&stage, "cd ..; mv data old; mkdir data; echo second > data/file");
        assert_eq!(said(&run(&stage, &options, &script).0), "second\n");
        assert_eq!(said(&taken(&stage, &options, &script)), "second\n");
        keeper.end();
    }
}

#[test]
fn what_was_mounted_after_the_preparation_is_there() {
    let is_root = |person: &Person| person.is_root();
    for person in people().into_iter().filter(is_root) {
        let stage = Stage::new(person);
        let pinfold = executable();
        let script = format!(
            "mkdir -p data/sub; {pinfold} warm 2>&1 & keeper=$!; \
             until ls \"$HOME\"/.local/state/pinfold/warm/* >/dev/null 2>&1; do sleep 0.01; done; \
             sleep 0.3; mount -t tmpfs none data/sub; echo mounted >data/sub/file; \
             {pinfold} run -- cat data/sub/file; kill $keeper; wait $keeper"
        );
        let mut command = stage.command("/usr/bin/unshare");
        let output = command.args(["-m", "/bin/sh", "-c", &script]).output().unwrap();
        assert!(said(&output).contains("\nmounted\n"), "{}{}", said(&output), errors(&output));
    }
}

/// What is looked over is the workspace as it is when the run starts, not when it was prepared.
#[test]
fn what_came_after_the_preparation_is_protected() {
    for person in people() {
        let stage = git_workspace(person);
        let keeper = Keeper::start(&stage, &[]);
        stage.write("ws/.env", "TOKEN=secret");
        stage.write("ws/.git/hooks/pre-commit", "#!/bin/sh\n");
        let script =
            "cat .env; echo evil >> .git/hooks/pre-commit; ls .git >/dev/null && echo seen";
        let output = taken(&stage, &[], script);
        assert!(!said(&output).contains("secret") && said(&output).contains("seen"));
        let hook = fs::read_to_string(stage.workspace().join(".git/hooks/pre-commit")).unwrap();
        assert_eq!(hook, "#!/bin/sh\n");
        keeper.end();
    }
}

/// An inside inherits from the process that makes it: who is confined more than the keeper must not
/// get what the keeper has.
#[test]
fn what_a_caller_set_for_a_run_is_not_lost() {
    for person in people() {
        let stage = Stage::new(person);
        let keeper = Keeper::start(&stage, &[]);
        taken(&stage, &[], "true");
        let pinfold = executable();
        for (before, shown, expected) in [
            ("umask 77", "umask", "0077"),
            ("renice -n 9 $$ >/dev/null", "nice", "9"),
            ("ulimit -s 4096", "ulimit -s", "4096"),
            ("taskset -p 1 $$ >/dev/null", "nproc", "1"),
            ("ionice -c 3 -p $$", "ionice", "idle"),
        ] {
            let script = format!("{before}; exec {pinfold} run --timings -- sh -c '{shown}'");
            let output = stage.command("/bin/sh").args(["-c", &script]).output().unwrap();
            assert_eq!(said(&output).trim(), expected, "{before}");
            assert!(!errors(&output).contains(TAKEN), "{before}");
        }
        keeper.end();
    }
}

/// Landlock shows nowhere in /proc, but who stands behind it may not look at who does not.
#[test]
fn a_process_behind_landlock_gets_no_inside_that_was_made_before_it() {
    // Nothing may be written to but beneath these (landlock(7)).
    const WALL: &str = "import ctypes, os, sys\n\
        call = ctypes.CDLL(None, use_errno=True).syscall\n\
        attributes = (ctypes.c_uint64 * 1)(2)\n\
        rules = call(444, attributes, 8, 0)\n\
        for place in sys.argv[1].split(':'):\n \
          class Beneath(ctypes.Structure): _pack_ = 1; _fields_ = [('a', ctypes.c_uint64), ('f', ctypes.c_int32)]\n \
          beneath = Beneath(2, os.open(place, os.O_PATH))\n \
          assert call(445, rules, 1, ctypes.byref(beneath), 0) == 0\n\
        if call(446, rules, 0): sys.exit(77)\n\
        os.execv(sys.argv[2], sys.argv[2:])\n";
    for person in people() {
        let stage = Stage::new(person);
        let victim = stage.write("ws/victim", "original");
        let pinfold = executable();
        let keeper = format!("{pinfold} warm 2>&1 & keeper=$!");
        let places = format!("{}:/dev:/tmp", stage.path("home").display());
        let script = format!(
            "{keeper}; until ls \"$HOME\"/.local/state/pinfold/warm/* >/dev/null 2>&1; do \
             sleep 0.01; done; sleep 0.3; python3 -c '{}' {places} {pinfold} run -- \
             sh -c 'echo escaped >victim'; echo status $?; kill $keeper; wait $keeper",
            WALL.replace('\'', "\"")
        );
        let mut command = stage.command("/usr/bin/setpriv");
        let output = command.args(["--no-new-privs", "/bin/sh", "-c", &script]).output().unwrap();
        if said(&output).contains("status 77") {
            skip("a_process_behind_landlock", "this kernel has no Landlock");
            return;
        }
        assert_eq!(fs::read_to_string(victim).unwrap(), "original", "{}", said(&output));
    }
}

#[test]
fn no_other_user_reaches_a_keeper() {
    let people = people();
    let [Person { .. }, other] = people[..] else { return };
    let stage = Stage::new(people[0]);
    let keeper = Keeper::start(&stage, &[]);
    let warm = stage.state().join("warm");
    let socket = warm.join(names(warm.clone()).pop_first().unwrap());
    // Even where directories above were opened by mistake, the keeper asks who comes.
    let set_modes = |mode| {
        for directory in warm.ancestors().take_while(|path| path.starts_with(stage.base())) {
            fs::set_permissions(directory, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    set_modes(0o777);
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
    let script = "import socket, sys\n\
                  s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
                  s.connect(sys.argv[1])\n\
                  s.settimeout(10)\n\
                  try:\n \
                    s.send(b'{\"fingerprint\":[' + b'0,' * 31 + b'0]}')\n \
                    sys.exit(0 if s.recv(100) == b'' else 1)\n\
                  except (BrokenPipeError, ConnectionResetError): pass";
    let output =
        other.command("/usr/bin/python3").args(["-c", script]).arg(&socket).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    // pinfold itself does not use them then.
    set_modes(0o755);
    assert!(taken(&stage, &[], "true").status.success());
    keeper.end();
}
