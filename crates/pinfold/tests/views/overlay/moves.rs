//! Directories of the workspace can be renamed in a view, which overlayfs by itself refuses.

use pinfold_testkit::{NO_MOVES, Stage, installed, not_behind_gvisor, people, skip};

use super::{LISTING, host, pinfold, session, work};

const BEFORE: &str = "mkdir -p dir/sub/deep closed taken/x empty; echo a >dir/a; echo b >dir/sub/b; \
                      ln -s ../b dir/sub/deep/link; echo c >dir/sub/deep/c; chmod 700 dir/sub/deep/c; \
                      echo d >closed/d; chmod 555 closed; touch -d 2001-01-01 dir/sub/deep/c dir/sub dir; \
                      echo t >taken/x/t; ln -s dir way";

/// Runs Python in a view; what it prints is given.
fn python(stage: &Stage, script: &str) -> String {
    let script = format!("import errno, os\n{script}");
    let output = stage.run(&["--workspace", "overlay"], &["python3", "-c", &script]);
    assert!(output.status.success(), "{}", super::errors(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_directory_that_was_there_before_is_renamed_as_it_is() {
    if not_behind_gvisor("a_directory_that_was_there_before_is_renamed_as_it_is", NO_MOVES) {
        return;
    }
    if !installed("python3") {
        return skip("a_directory_that_was_there_before", "it takes python3");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, BEFORE);
        let seen = python(
            &stage,
            "os.setxattr('dir/sub', 'user.note', b'kept')\n\
             held = open('dir/sub/deep/c')\n\
             here, taken = os.open('.', os.O_RDONLY), os.open('taken', os.O_RDONLY)\n\
             os.rename('dir/sub/', 'moved')\n\
             os.rename('dir', os.path.abspath('taken/dir'))\n\
             os.rename('closed', 'open', src_dir_fd=here, dst_dir_fd=here)\n\
             os.rename('way', 'way2', src_dir_fd=here, dst_dir_fd=taken)\n\
             os.rename('taken', 'empty')\n\
             print(os.listdir('.'), os.getxattr('moved', 'user.note'), held.read(), end='')\n\
             print(os.stat('moved').st_mtime < 1e9)\n",
        );
        let names = ["moved", "empty", "open"];
        assert!(names.iter().all(|name| seen.contains(&format!("'{name}'"))), "{seen}");
        assert!(seen.ends_with("b'kept' c\nTrue\n") && !seen.contains("taken"), "{seen}");
        let (names, _) = pinfold(&stage, &["diff", "--name-only"]).unwrap();
        assert!(names.contains("moved/deep/link\n"), "{names}");
        pinfold(&stage, &["apply"]).unwrap();
        let now = host(&stage, LISTING);
        for line in [
            "open|d|555|",
            "empty/way2|l|777|dir",
            "moved/deep/c|f|700|",
            "moved/deep/link|l|777|../b",
        ] {
            assert!(now.lines().any(|found| found == line), "{line}: {now}");
        }
        assert!(host(&stage, "cat open/d empty/dir/a moved/b empty/x/t") == "d\na\nb\nt\n");
        assert!(!now.contains("taken") && !now.contains("closed"), "{now}");
    }
}

#[test]
fn git_moves_directories() {
    if not_behind_gvisor("git_moves_directories", NO_MOVES) {
        return;
    }
    if !installed("git") {
        return skip("git_moves_directories", "it takes git");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(
            &stage,
            "git init -q --template= -b main; git config user.name T; \
             git config user.email t@example.org; mkdir -p src/sub; echo a >src/a; echo b >src/sub/b; \
             git add .; git commit -qm first",
        );
        let seen = work(&stage, "git mv src lib; git status --short; git commit -qm moved");
        assert_eq!(seen, "R  src/a -> lib/a\nR  src/sub/b -> lib/sub/b\n");
        pinfold(&stage, &["apply"]).unwrap();
        assert_eq!(host(&stage, "git status --short; ls; cat lib/sub/b"), "lib\nb\n");
    }
}

#[test]
fn failed_rename_leaves_both_files_as_they_were() {
    if !installed("python3") {
        return skip("what_cannot_be_renamed_stays", "it takes python3");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, BEFORE);
        host(
            &stage,
            "mkdir secrets; echo x >secrets/a; echo TOKEN=1 >secrets/.env; echo z >secrets/z",
        );
        let seen = python(
            &stage,
            "def names(of, to):\n\
             \u{20}   try: os.rename(of, to); print('renamed')\n\
             \u{20}   except OSError as error: print(errno.errorcode[error.errno])\n\
             before = sorted(os.walk('.'))\n\
             names('dir', 'dir/sub/dir')\n\
             names('missing', 'dir2')\n\
             names('dir', '/tmp/dir')\n\
             names('dir', 'way')\n\
             names('dir', 'dir/a')\n\
             names('secrets', 'public')\n\
             names('dir', '')\n\
             print(sorted(os.walk('.')) == before)\n",
        );
        assert_eq!(seen, "EINVAL\nENOENT\nEXDEV\nENOTDIR\nEINVAL\nEXDEV\nENOENT\nTrue\n");
        // And copying, as programs do then.
        let moved = session(&stage, "mv dir /tmp/dir && cat /tmp/dir/sub/b; ls");
        assert_eq!(
            String::from_utf8_lossy(&moved.stdout),
            "b\nclosed\nempty\nsecrets\ntaken\nway\n"
        );
    }
}

#[test]
fn a_program_behind_a_wall_of_its_own_moves_nothing_through_it() {
    /// Landlock by system call: a ruleset that handles execution alone.
    const WALL: &str = "import ctypes\n\
                        libc = ctypes.CDLL(None, use_errno=True)\n\
                        handled = (ctypes.c_uint64 * 1)(1)\n\
                        ruleset = libc.syscall(444, handled, 8, 0)\n\
                        if ruleset < 0: print('no Landlock'); raise SystemExit\n\
                        assert libc.syscall(446, ruleset, 0) == 0\n\
                        try: os.rename('dir', 'moved'); print('renamed')\n\
                        except OSError as error: print(errno.errorcode[error.errno])\n";
    if !installed("python3") {
        return skip("a_program_behind_a_wall_of_its_own", "it takes python3");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, BEFORE);
        match python(&stage, WALL).as_str() {
            "no Landlock\n" => skip("a_program_behind_a_wall_of_its_own", "it takes Landlock"),
            said => assert_eq!(said, "EXDEV\n"),
        }
    }
}

#[test]
fn concurrent_renames_under_signals_are_each_made_once() {
    if not_behind_gvisor("concurrent_renames_under_signals_are_each_made_once", NO_MOVES) {
        return;
    }
    if !installed("python3") {
        return skip("renames_under_signals", "it takes python3");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(
            &stage,
            "for i in 1 2 3 4; do mkdir -p tree$i/in; for f in 1 2 3 4 5 6 7 8; do echo $i >tree$i/in/$f; done; done",
        );
        let seen = python(
            &stage,
            "import signal, threading\n\
             signal.signal(signal.SIGALRM, lambda *_: None)\n\
             signal.siginterrupt(signal.SIGALRM, False)\n\
             signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)\n\
             failed = []\n\
             def turn(i):\n\
             \u{20}   try:\n\
             \u{20}       os.rename(f'tree{i}', f'moved{i}')\n\
             \u{20}       for turn in range(200):\n\
             \u{20}           os.rename(f'moved{i}/in/1', f'moved{i}/in/0'); os.rename(f'moved{i}/in/0', f'moved{i}/in/1')\n\
             \u{20}   except OSError as error: failed.append(error)\n\
             threads = [threading.Thread(target=turn, args=(i,)) for i in range(1, 5)]\n\
             [thread.start() for thread in threads]; [thread.join() for thread in threads]\n\
             signal.setitimer(signal.ITIMER_REAL, 0)\n\
             print(failed, sorted(os.listdir('.')), [len(os.listdir(f'moved{i}/in')) for i in range(1, 5)])\n",
        );
        assert_eq!(seen, "[] ['moved1', 'moved2', 'moved3', 'moved4'] [8, 8, 8, 8]\n");
    }
}

/// A limit is of a whole process, by the number of any of its threads: init has some where it moves
/// directories, and without descriptors it could not watch.
#[test]
fn init_keeps_its_limits() {
    if not_behind_gvisor("init_keeps_its_limits", NO_MOVES) {
        return;
    }
    if !installed("python3") {
        return skip("init_keeps_its_limits", "it takes python3");
    }
    for user in people() {
        let stage = Stage::new(user);
        let seen = python(
            &stage,
            "import resource\n\
             for task in range(1, 12):\n \
               try: resource.prlimit(task, resource.RLIMIT_NOFILE, (4, 4)); print('set', task)\n \
               except (PermissionError, ProcessLookupError): pass\n\
             resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))\n\
             print(resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE))\n",
        );
        assert_eq!(seen, "(50, 50)\n");
    }
}

#[test]
fn a_directory_that_is_renamed_to_itself_stays_itself() {
    if !installed("python3") {
        return skip("a_directory_that_is_renamed_to_itself", "it takes python3");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "mkdir empty");
        let seen = python(
            &stage,
            "before = os.stat('empty').st_ino\n\
             os.rename('empty', 'empty')\n\
             print(os.stat('empty').st_ino == before)\n",
        );
        assert_eq!(seen, "True\n");
    }
}
