//! What a session leaves that misleads programs on the host: links that lead out of the workspace,
//! names with control characters, sparse files; and so much of it that a look takes long.

use std::io::{BufRead as _, BufReader, Read as _};

use super::common::{Case, sites, text, wait_for_line};

/// Every name but git's, quoted as the shell does.
const LOOK: &str = "find . -name .git -prune -o -print | LC_ALL=C sort | cat -v";

fn assert_set_aside(case: &Case, stderr: &str, names: &[&str]) {
    for name in names {
        assert!(stderr.contains(&format!("{name} (set aside")), "{name}: {stderr}");
        let now = std::fs::symlink_metadata(case.path().join(name));
        assert!(now.is_err(), "{name} is still there: {stderr}");
    }
}

#[test]
fn new_links_that_lead_out_of_the_workspace_are_set_aside() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "mkdir -p ../precious a/b c; echo keep >../precious/f; ln -s ../../file a/b/l; \
             ln -s ../../precious c/mine; ln -s $PWD/../precious c/climbs; \
             sleep 0.05",
        );
        let precious = case.path().with_file_name("precious");
        let made = format!(
            "ln -s {out} out; ln -s ../precious up; mkdir -p d/e; ln -s ../../../precious d/e/up; \
             ln -s d/../../precious climbs; ln -s {out}/new dangling; ln -s / root; \
             ln -s ../c/mine/f d/through; mv a/b moved; ln -s /proc/self/cwd proc; \
             ln -s ~ home; ln -s /tmp tmp; git clone -q . n; ln -s ../../precious n/up; \
             ln -s file in; ln -s $PWD/file whole; mkdir bin; ln -s /usr/bin/env bin/env; ln -s ../d/e d/dir; \
             ln -s /dev/null null; ln -s nowhere missing; touch c/new; \
             ln -s ../.git/config d/report; ln -s .envrc settings; ln -s .vscode/x.json x.json; \
             ln -s /usr/lib/os-release os-release; ln -s /usr/bin/env d/env",
            out = precious.display()
        );
        let stderr = text(&case.inside(&made)).1;
        let gone = [
            "out", "up", "d/e/up", "climbs", "dangling", "root", "moved/l", "proc", "home", "tmp",
            "n/up", "d/report", "settings", "x.json",
        ];
        assert_set_aside(&case, &stderr, &gone);
        for kept in [
            "in",
            "whole",
            "bin/env",
            "os-release",
            "d/dir",
            "null",
            "missing",
            "c/mine",
            "c/climbs",
        ] {
            let now = std::fs::symlink_metadata(case.path().join(kept));
            assert!(now.is_ok_and(|now| now.is_symlink()), "{kept}: {stderr}");
        }
        assert!(stderr.contains("--opt-in outward-links"), "{stderr}");
        case.host("for l in out up d/e/up tmp; do echo evil >$l/f 2>/dev/null || true; done");
        assert_eq!(case.host("cat ../precious/f"), "keep\n", "{stderr}");
        let adopted = case.pinfold_itself(&["adopt", "d/e/up"]);
        assert!(adopted.status.success(), "{}", text(&adopted).1);
        assert_eq!(case.host("readlink d/e/up"), "../../../precious\n");
        let stderr = text(&case.run(&["--opt-in", "outward-links"], "ln -s /etc etc")).1;
        assert_eq!(case.host("readlink etc"), "/etc\n", "{stderr}");
        // The next session finds nothing new.
        let stderr = text(&case.inside("touch d/e/x c/y z")).1;
        assert!(!stderr.contains("set aside"), "{stderr}");
    }
}

#[test]
fn links_that_the_users_commits_have_stay() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "git checkout -q -b links; ln -s ../elsewhere out; ln -s /etc/hosts hosts; git add .; \
             git commit -qm links; git checkout -q main",
        );
        let stderr = text(&case.inside("git checkout -q links; ln -s ../elsewhere own")).1;
        assert_set_aside(&case, &stderr, &["own"]);
        assert_eq!(
            case.host("git status --porcelain; readlink out hosts"),
            "../elsewhere\n/etc/hosts\n"
        );
    }
}

#[test]
fn new_names_with_control_characters_are_set_aside() {
    for site in sites() {
        let case = site.repository();
        case.host(r#"touch "$(printf 'mine\033[31m')"; mkdir "$(printf 'dir\r')""#);
        let script = r#"
            touch "$(printf 'evil\033[2J')" "$(printf 'a\nb')" "$(printf 'x\342\200\256gpj.exe')" fine schön
            mkdir -p "$(printf 'sub\177')/.vscode" "$(printf 'dir\r')/.vscode"
            touch "$(printf 'dir\r')/.envrc"; mv "$(printf 'mine\033[31m')" "$(printf 'moved\033[31m')"
            ln -s ../x "$(printf 'mine\033[31m')""#;
        let stderr = text(&case.inside(script)).1;
        assert!(!stderr.contains('\u{1b}') && !stderr.contains('\r'), "{stderr:?}");
        for name in
            [r"evil\u{1b}[2J", r"a\nb", r"x\u{202e}gpj.exe", r"sub\u{7f}", r"moved\u{1b}[31m"]
        {
            assert!(stderr.contains(&format!("{name} (set aside")), "{name}: {stderr}");
        }
        assert_eq!(
            case.host(LOOK),
            ".\n./dir^M\n./evil\n./file\n./fine\n./schM-CM-6n\n",
            "{stderr}"
        );
        let stderr = text(&case.run(&["--opt-in", "odd-names"], r#"touch "$(printf 'b\033')""#)).1;
        assert!(case.host(LOOK).contains("./b^["), "{stderr}");
    }
}

#[test]
fn new_sparse_files_of_terabytes_are_set_aside() {
    for site in sites() {
        let case = site.repository();
        case.host("truncate -s 8T mine; mkdir -p d");
        let stderr = text(&case.inside("truncate -s 8T huge; truncate -s 1G d/fine; mv mine d")).1;
        assert_set_aside(&case, &stderr, &["huge", "d/mine"]);
        assert!(case.path().join("d/fine").exists());
        let stderr = text(&case.run(&["--opt-in", "sparse-files"], "truncate -s 8T huge")).1;
        assert!(case.path().join("huge").exists(), "{stderr}");
    }
}

#[test]
fn misleading_files_wait_in_a_view() {
    for site in sites() {
        let case = site.repository();
        case.host("ln -s ../precious mine");
        let script = r#"ln -s ../precious out; ln -s .git/config report; mkdir bin; ln -s /usr/bin/env bin/env; truncate -s 8T huge; echo y >new
                        touch "$(printf 'evil\033[2J')"; rm mine; ln -s ../other mine"#;
        let output = case.run(&["--workspace", "overlay", "--apply", "auto"], script);
        let stderr = text(&output).1;
        // One line names all that waits, those with the same reason together.
        let waits = stderr.lines().find(|line| line.contains("waits: ")).unwrap_or_default();
        let named: Vec<&str> = waits.split(": ").flat_map(|part| part.split([',', ';'])).collect();
        for name in ["out", "report", "huge", "mine", r"evil\u{1b}[2J"] {
            assert!(named.iter().any(|named| named.trim() == name), "{name}: {stderr}");
        }
        let there = "./bin/env\n./evil\n./file\n./mine\n./new\n";
        assert_eq!(
            case.host("find . -name .git -prune -o ! -type d -print | sort"),
            there,
            "{stderr}"
        );
        assert_eq!(case.host("readlink mine"), "../precious\n", "{stderr}");
    }
}

/// Enough that a look takes seconds.
const MANY: &str = "python3 -c 'import os\nfor d in range(20):\n os.mkdir(str(d))\n \
                    for n in range(1000): os.symlink(\"/evil\", f\"{d}/{n}\")'";

#[test]
fn a_look_that_is_interrupted_is_finished_by_the_next_start() {
    for site in sites() {
        let case = site.repository();
        let mut child = case.spawn_inside(MANY);
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("still looking") {
            line.clear();
            assert_ne!(errors.read_line(&mut line).unwrap(), 0, "the look was over at once");
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let mut stderr = String::new();
        errors.read_to_string(&mut stderr).unwrap();
        assert!(stderr.contains("the next `pinfold run` finishes it"), "{stderr}");
        assert!(child.wait().unwrap().success(), "{stderr}");
        let left = "find . -type l | wc -l";
        assert_ne!(case.host(left).trim(), "0");
        let output = case.inside(left);
        assert_eq!(text(&output).0.trim(), "0", "{}", text(&output).1);
        assert_eq!(case.sessions(), 0);
    }
}

#[test]
fn a_start_waits_for_another_one_that_settles_what_a_dead_session_left() {
    for site in sites() {
        let case = site.repository();
        let many = MANY.replace("range(20)", "range(8)");
        let mut child = case.spawn_inside(&format!("{many}; echo ready; read go"));
        wait_for_line(&mut child, "ready");
        child.kill().unwrap();
        child.wait().unwrap();
        let settling = case.spawn_inside("true");
        case.host("until ls ../home/.local/state/pinfold/private/*/settling; do sleep 0.01; done 2>/dev/null");
        let (shown, stderr) = text(&case.inside("find . -type l | wc -l"));
        assert_eq!(shown.trim(), "0", "{site}: {stderr}");
        let (_, stderr) = text(&settling.wait_with_output().unwrap());
        assert!(stderr.contains("more files"), "{site}: {stderr}");
    }
}

/// Directories whose path is longer than the kernel takes at once.
const LONG: &str = "python3 -c 'import os\nos.mkdir(\"a\"); os.chdir(\"a\")\n\
                    for n in range(40):\n os.mkdir(\"d\" * 250); os.chdir(\"d\" * 250)\n\
                    open(\".envrc\", \"w\")'";

#[test]
fn directories_with_a_very_long_path_end_no_look() {
    for site in sites() {
        let case = site.repository();
        let (_, stderr) = text(&case.inside(&format!("{LONG}; mkdir b; ls -d b")));
        assert_set_aside(&case, &stderr, &["a"]);
        // Those of the user's stay, and are hidden.
        case.host(LONG);
        let script = "echo evil >.envrc; mkdir z; echo evil >z/.envrc; ln -s /etc z/l; touch a/x; \
                      find a -name .envrc";
        let (shown, stderr) = text(&case.inside(script));
        assert_eq!(shown, "", "{site}: {stderr}");
        assert_set_aside(&case, &stderr, &[".envrc", "z/.envrc", "z/l"]);
        assert_eq!(case.host("find a -name .envrc | wc -l").trim(), "1", "{site}: {stderr}");
        case.host("rm -r a");
    }
}

/// Asks for an encrypted directory with a key of the session's own (linux/fscrypt.h). The filter answers
/// before the file system does.
const ENCRYPT: &str = "python3 -c 'import fcntl, os, struct\nd = os.open(\".\", os.O_RDONLY)\n\
    a = bytearray(struct.pack(\"<II32sII32s\", 2, 0, b\"\", 64, 0, b\"\") + b\"k\" * 64)\n\
    try: fcntl.ioctl(d, 0xC0506617, a)\nexcept OSError as e: print(os.strerror(e.errno))'";

#[test]
fn a_session_encrypts_no_directory() {
    for site in sites() {
        let (shown, stderr) = text(&site.bare_directory().inside(ENCRYPT));
        assert_eq!(shown, "Operation not permitted\n", "{site}: {stderr}");
    }
}
