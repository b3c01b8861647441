//! What comes with the invocation: streams, descriptors, the terminal, processes left over.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Output, Stdio};

use pinfold_testkit::{Stage, executable, installed, people, processes_with, skip};

/// Tries everything that a descriptor of a file allows; prints what it got.
const ABUSE: &str = r#"
import os, sys
number = int(sys.argv[1])
won = []
def attempt(name, function):
    try:
        function()
        won.append(name)
    except OSError:
        pass
attempt("fchmod", lambda: os.fchmod(number, 0o777))
attempt("fchown", lambda: os.fchown(number, os.getuid(), os.getgid()))
attempt("ftruncate", lambda: os.ftruncate(number, 1))
attempt("futimens", lambda: os.utime(number, (1, 1)))
attempt("setxattr", lambda: os.setxattr(number, "user.planted", b"x"))
attempt("pwrite", lambda: os.pwrite(number, b"planted", 0))
attempt("pread", lambda: os.pread(number, 1, 0))
attempt("seek", lambda: os.lseek(number, 0, 0))
attempt("chmod by name", lambda: os.chmod(f"/proc/self/fd/{number}", 0o777))
attempt("open the directory", lambda: os.open(f"/proc/self/fd/{number}/..", os.O_RDONLY))
print(",".join(won), file=sys.stderr)
"#;

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_file_as_a_stream_stays_outside() {
    if !installed("python3") {
        return skip("a file as a stream", "python3 is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        for number in ["0", "1"] {
            let path = stage.write("other/stream", "a line that is not the sandbox's\n");
            let before = fs::metadata(&path).unwrap();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let mut run = stage.pinfold(&["run", "--", "/usr/bin/python3", "-c", ABUSE, number]);
            let output = match number {
                "0" => run.stdin(file).output(),
                _ => run.stdout(file).output(),
            };
            let output = output.unwrap();
            assert!(output.status.success(), "{}", errors(&output));
            let after = fs::metadata(&path).unwrap();
            let facts = |data: &fs::Metadata| (data.mode(), data.uid(), data.mtime(), data.size());
            assert_eq!(facts(&before), facts(&after), "stream {number}: {}", errors(&output));
            // A pipe has an owner and a mode too, but nobody looks at them.
            let won = errors(&output);
            let harmless = ["fchmod", "fchown", "futimens", "chmod by name", ""];
            assert!(won.trim().split(',').all(|name| harmless.contains(&name)), "{won}");
        }
    }
}

#[test]
fn nothing_is_written_into_the_callers_input() {
    // Were the sandbox able to, it could put commands before a shell that reads its script from the
    // same pipe.
    let plant = "for file in /proc/self/fd/0 /dev/stdin; do echo planted >$file; done";
    for user in people() {
        let stage = Stage::new(user);
        // The shell makes the pipe, so that it is the user's own.
        let line = format!(": | (\"{}\" run -- sh -c '{plant}' 2>/dev/null; cat)", executable());
        let output = stage.command("/bin/sh").args(["-c", &line]).output().unwrap();
        let left = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(left, "", "as uid {}", user.uid);
    }
}

/// What a line of shell prints whose input is a file; `$P` is pinfold.
fn shell_reading(stage: &Stage, content: &str, line: &str) -> String {
    let file = stage.write("other/input", content);
    let mut shell = stage.command("/bin/sh");
    shell.args(["-c", line]).env("P", executable());
    let output = shell.stdin(File::open(file).unwrap()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", errors(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn unread_input_of_a_file_is_left_for_the_next_command() {
    for user in people() {
        let stage = Stage::new(user);
        let short = "1\n2\n3\n";
        let each = "while read x; do $P run -- echo \"($x)\"; done";
        assert_eq!(shell_reading(&stage, short, each), "(1)\n(2)\n(3)\n");
        // Ten times what a pipe holds.
        let long: String = (0..100_000).map(|number| format!("{number}\n")).collect();
        let first = "$P run -- sh -c 'read x; echo $x; exec <&-'; cat";
        assert!(shell_reading(&stage, &long, first) == long, "a line inside, the rest outside");
        let whole = "$P run -- cat; cat";
        assert!(shell_reading(&stage, &long, whole) == long, "all of it inside");
        let not_started = "$P run -- /no-such-program 2>/dev/null; cat";
        assert!(shell_reading(&stage, &long, not_started) == long, "nothing was read");
        // Where splice(2) cannot read from.
        let special = "$P run -- cat </proc/version";
        assert!(shell_reading(&stage, "", special).starts_with("Linux version"));
    }
}

#[test]
fn the_callers_file_is_never_set_back_behind_where_it_was() {
    // A shell that reads its script from a file would run again what it has run.
    let plant = "for i in 1 2 3 4; do echo planted; done >/proc/self/fd/0";
    for user in people() {
        let stage = Stage::new(user);
        let line = format!("read x; read y; $P run -- sh -c '{plant}' 2>/dev/null; cat");
        assert_eq!(shell_reading(&stage, "1\n2\n3\n4\n", &line), "3\n4\n");
    }
}

#[test]
fn output_of_others_to_the_same_file_stays() {
    let steal = "exec 5>&1; timeout 0.2 head -c 6 >stolen </proc/self/fd/5; true";
    for user in people() {
        let stage = Stage::new(user);
        // The reader waits until pinfold has ended, so that what was written first is there.
        let line = format!(
            "mkfifo ended; (echo secret; \"{}\" run -- sh -c '{steal}' 2>errors; echo >ended) | \
             (read go <ended; cat)",
            executable()
        );
        let output = stage.command("/bin/sh").args(["-c", &line]).output().unwrap();
        let (read, stolen) = (output.stdout, fs::read(stage.path("ws/stolen")).unwrap());
        assert_eq!((&read[..], &stolen[..]), (&b"secret\n"[..], &b""[..]), "uid {}", user.uid);
    }
}

#[test]
fn output_of_others_to_the_same_file_is_not_overwritten() {
    for user in people() {
        let stage = Stage::new(user);
        // The command writes once the line outside is there, and the other way round.
        let inside = "touch began; while ! grep -q outside out; do sleep 0.05; done; echo inside";
        let line = format!(
            "exec >out; \"{}\" run -- sh -c '{inside}' & \
             while ! [ -e began ]; do sleep 0.05; done; echo outside; wait",
            executable()
        );
        let output = stage.command("/bin/sh").args(["-c", &line]).output().unwrap();
        let written = fs::read_to_string(stage.path("ws/out")).unwrap();
        assert_eq!(written, "outside\ninside\n", "uid {}: {}", user.uid, errors(&output));
    }
}

#[test]
fn no_descriptor_of_the_caller_comes_in() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("other/secret", "the host's secret");
        let script = r#"exec 5</ 6<../other/secret 7<>../other/secret 8<../other; exec "$@""#;
        let mut shell = stage.command("/bin/sh");
        shell.args(["-c", script, "sh", executable(), "run", "--", "sh", "-c"]);
        let output = shell.arg("echo /proc/$$/fd/*").output().unwrap();
        let open = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers = open.split_whitespace().filter_map(|path| path.rsplit('/').next());
        // The shell that lists them has its own descriptor of the directory.
        assert!(numbers.clone().all(|number| ["0", "1", "2", "3"].contains(&number)), "{open}");
        let output = stage.run_shell(&[], "cat <&6; cat <&7; ls /proc/self/fd/8/ /proc/self/fd/5/");
        assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn the_callers_terminal_is_out_of_reach_without_a_terminal_inside() {
    if !installed("script") || !installed("python3") {
        return skip("the caller's terminal", "script or python3 is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        let inner = "import os,fcntl,termios\n\
             for path in ('/dev/tty','/dev/console','/dev/pts/0','/dev/tty1'):\n\
             \x20   try: fcntl.ioctl(os.open(path, os.O_RDWR), termios.TIOCSTI, b'x'); print('BREACH', path)\n\
             \x20   except OSError as e: print('refused', path)\n";
        let program = stage.write("ws/inject.py", inner);
        let line = format!(
            "{} run -- /usr/bin/python3 {} </dev/null 2>&1 | cat",
            executable(),
            program.display()
        );
        let mut script = stage.command("script");
        let output = script.args(["-qec", &line, "/dev/null"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text.matches("refused").count(), 4, "{text}");
        assert!(!text.contains("BREACH"), "{text}");
    }
}

#[test]
fn nothing_survives_the_command() {
    for user in people() {
        let stage = Stage::new(user);
        let marker =
            format!("98{}", stage.base().to_str().unwrap().len() as u32 + std::process::id());
        let script = format!(
            "sleep {marker} & setsid sleep {marker} & (setsid sh -c 'trap \"\" TERM HUP INT; \
             nohup sleep {marker}' & ) & exit 3"
        );
        let output = stage.run_shell(&[], &script);
        assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
        assert_eq!(processes_with(&format!("sleep\0{marker}")), Vec::<u32>::new());
    }
}

#[test]
fn a_command_that_kills_everything_ends_its_own_run_alone() {
    for user in people() {
        let stage = Stage::new(user);
        let mut witness = stage.command("sleep").arg("1000").spawn().unwrap();
        let output = stage.run_shell(&[], "kill -KILL -1; sleep 0.01; kill -KILL 1; kill -KILL $$");
        assert_eq!(output.status.code(), Some(128 + 9), "{}", errors(&output));
        assert!(witness.try_wait().unwrap().is_none(), "a process of the host was killed");
        witness.kill().unwrap();
        witness.wait().unwrap();
    }
}

#[test]
fn a_crash_leaves_no_core_with_anybody() {
    for user in people() {
        let stage = Stage::new(user);
        let script = r#"ulimit -c unlimited; exec "$@""#;
        let mut shell = stage.command("/bin/sh");
        shell.args(["-c", script, "sh", executable(), "run", "--", "sh", "-c"]);
        let output = shell.arg("ulimit -c; kill -SEGV $$").output().unwrap();
        assert_eq!(output.status.code(), Some(128 + 11), "{}", errors(&output));
        assert_eq!(output.status.signal(), None);
        let left: Vec<_> = fs::read_dir(stage.workspace()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn input_and_output_are_exact_to_the_byte() {
    const SIZE: usize = 50 << 20;
    for user in people() {
        let stage = Stage::new(user);
        // A pattern that no power of two divides, so that a lost or doubled block shows.
        let data: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8 ^ (at / 65_521) as u8).collect();
        let mut run = stage.pinfold(&["run", "--", "cat"]);
        let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = run.stdin.take().unwrap();
        let copy = data.clone();
        let feeder = std::thread::spawn(move || input.write_all(&copy).unwrap());
        let output = run.wait_with_output().unwrap();
        feeder.join().unwrap();
        assert!(output.stdout == data, "{} of {SIZE} bytes came through", output.stdout.len());

        let (from, to) = (stage.write("other/from", &data), stage.write("other/to", ""));
        let mut run = stage.pinfold(&["run", "--", "cat"]);
        run.stdin(File::open(from).unwrap()).stdout(File::create(&to).unwrap());
        assert!(run.status().unwrap().success());
        assert!(fs::read(to).unwrap() == data, "from file to file");
    }
}

#[test]
fn standard_streams_stay_apart_and_in_order() {
    for user in people() {
        let stage = Stage::new(user);
        let output = stage.run_shell(&[], "echo out; echo err >&2; exit 5");
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(output.status.code(), Some(5));

        let shell = |line: &str| {
            let mut shell = stage.command("/bin/sh");
            let line = line.replace("PINFOLD", executable());
            shell.args(["-c", &line]).output().unwrap()
        };
        let order = "for i in 1 2 3 4; do echo o$i; echo e$i >&2; done";
        shell(&format!("PINFOLD run -- sh -c '{order}' >all 2>&1"));
        let together = "o1\ne1\no2\ne2\no3\ne3\no4\ne4\n";
        assert_eq!(fs::read_to_string(stage.path("ws/all")).unwrap(), together);
        let piped = shell(&format!("PINFOLD run -- sh -c '{order}' 2>&1 | cat"));
        assert_eq!(String::from_utf8_lossy(&piped.stdout), together);

        let closed = shell("PINFOLD run -- sh -c 'cat; echo done' <&-");
        assert_eq!(closed.stdout, b"done\n", "{}", errors(&closed));
        assert_eq!(shell("PINFOLD run -- sh -c 'exit 7' >&-").status.code(), Some(7));
        assert_eq!(shell("PINFOLD run -- sh -c 'exit 8' >&- 2>&- <&-").status.code(), Some(8));
        let appended = shell("echo first >f; PINFOLD run -- echo second >>f; cat f");
        assert_eq!(appended.stdout, b"first\nsecond\n");
        let rest = shell("printf 'a\\nb\\nc\\n' | PINFOLD run -- head -n 1");
        assert_eq!(rest.stdout, b"a\n");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_writer() {
    for user in people() {
        let stage = Stage::new(user);
        let line = format!(
            "(\"{}\" run -- sh -c 'trap \"\" HUP; yes; echo $? >status'; echo outer $? >&2) | head -n 1",
            executable()
        );
        let output = stage.command("/bin/sh").args(["-c", &line]).output().unwrap();
        assert_eq!(output.stdout, b"y\n");
        let status = fs::read_to_string(stage.path("ws/status")).unwrap();
        assert_eq!(status.trim(), "141", "128 + SIGPIPE; {}", errors(&output));
    }
}

#[test]
fn the_exit_status_is_the_commands() {
    for user in people() {
        let stage = Stage::new(user);
        for code in [0, 1, 2, 42, 125, 126, 127, 128, 255] {
            let output = stage.run_shell(&[], &format!("exit {code}"));
            assert_eq!(output.status.code(), Some(code));
            assert!(output.stderr.is_empty(), "{}", errors(&output));
        }
        for signal in [1, 2, 3, 6, 9, 13, 14, 15] {
            let output = stage.run_shell(&[], &format!("kill -{signal} $$"));
            assert_eq!(output.status.code(), Some(128 + signal));
        }
        stage.write("ws/plain", "not a program");
        assert_eq!(stage.run(&[], &["./plain"]).status.code(), Some(126));
        assert_eq!(stage.run(&[], &["no-such-program"]).status.code(), Some(127));
        assert_eq!(stage.run(&[], &["/no/such/program"]).status.code(), Some(127));
        assert_eq!(stage.run(&["--cpus", "-1"], &["true"]).status.code(), Some(2));
        assert_eq!(stage.run(&["--read", "/no/such/path"], &["true"]).status.code(), Some(125));
    }
}

/// What pinfold says of a run is no part of it: a disk that is full, and a reader that has gone, do
/// not change how it ends.
#[test]
fn closed_or_full_stderr_changes_no_outcome() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/.git/HEAD", "ref: refs/heads/main\n");
        let script = "git init -q; git config core.fsmonitor x; exit 7";
        let run = || stage.pinfold(&["run", "--", "sh", "-c", script]);
        assert!(errors(&run().output().unwrap()).contains("core.fsmonitor"));
        let (reader, gone) = std::io::pipe().unwrap();
        drop(reader);
        let full = File::options().write(true).open("/dev/full").unwrap();
        for stderr in [Stdio::from(gone), Stdio::from(full)] {
            assert_eq!(run().stderr(stderr).status().unwrap().code(), Some(7));
        }
        assert_eq!(fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
    }
}

#[test]
fn a_command_that_shows_something_ends_with_its_reader() {
    for user in people() {
        let stage = Stage::new(user);
        stage.run(&[], &["true"]);
        for words in [&["audit"][..], &["audit", "--json"], &["config"], &["doctor"], &["ps"]] {
            let (reader, gone) = std::io::pipe().unwrap();
            drop(reader);
            let output = stage.pinfold(words).stdout(gone).output().unwrap();
            let signal = output.status.signal();
            assert!(signal == Some(13) || output.status.success(), "{words:?}: {output:?}");
            assert_eq!(errors(&output).matches("panicked").count(), 0, "{words:?}");
            let full = File::options().write(true).open("/dev/full").unwrap();
            let output = stage.pinfold(words).stdout(full).output().unwrap();
            let is_reported = errors(&output).contains("cannot write to standard output");
            assert!(
                is_reported && output.status.code() == Some(1) || words == ["ps"],
                "{output:?}"
            );
        }
    }
}
