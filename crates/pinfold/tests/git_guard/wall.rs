//! Sessions of root's: what keeps a file whose mask has fallen off from being opened.

use std::process::Child;
use std::time::{Duration, Instant};

use pinfold_testkit::skip;

use super::common::{Case, Site, sites, text, wait_for_line};

/// A case of root's, if this is root and its kernel can hold an open.
fn case(test: &str) -> Option<Case> {
    let root = sites().into_iter().find(Site::is_root);
    let case = root.map(|site| site.repository());
    if case.is_none() {
        skip(test, "only root may hold an open (fanotify)");
    }
    let case = case?;
    case.host("echo SECRET0 >.env; mkdir sub; echo SECRET0 >sub/.env; mkdir -p out");
    let mut run = case.spawn(&[], "echo ready; read line");
    wait_for_line(&mut run, "ready");
    let process = wall(&case, &run);
    drop(run.stdin.take());
    run.wait().unwrap();
    if process.is_none() {
        skip(test, "this kernel or user namespace cannot hold an open (fanotify)");
    }
    process.and(Some(case))
}

/// How often a session is started until one has a process that holds opens.
const TRIES: usize = 20;

/// The process that holds opens.
fn wall(case: &Case, run: &Child) -> Option<String> {
    let find = format!("pgrep -P $(pgrep -P {} -f keep-masks) || true", run.id());
    Some(case.host(&find).trim().to_owned()).filter(|process| !process.is_empty())
}

/// Runs a program of Python's in the sandbox until there is a file `out/stop`, while the host runs a script.
fn attack(case: &Case, program: &str, host: &str) -> (String, String) {
    let program = format!(
        "import os\nprint('ready', flush=True)\nread = 0\nfound = set()\ndef look(path):\n    global read\n    try:\n        \
         with open(path) as file: text = file.read()\n        read += 1\n        if 'SECRET' in text: found.add(text)\n    \
         except OSError: pass\nwhile not os.path.exists('out/stop'):\n{program}\nprint(len(found), 'found', flush=True)\n"
    );
    case.host(&format!("cat >attack.py <<'END'\n{program}\nEND\n"));
    for _ in 0..TRIES {
        // What an attack has removed is made again first: a name that is not there at the start is not hidden.
        case.host("rm -rf out; mkdir out; test -e .env || echo SECRET0 >.env");
        let mut run = case.spawn(&[], "exec python3 attack.py");
        wait_for_line(&mut run, "ready");
        // Until directories are watched.
        std::thread::sleep(Duration::from_millis(400));
        let has_wall = wall(case, &run).is_some();
        if has_wall {
            case.host(host);
        }
        case.host("touch out/stop");
        let said = text(&run.wait_with_output().unwrap());
        if has_wall {
            return said;
        }
        // Another test may have used up root's watches for a moment (fs.inotify.max_user_watches), and no opens are held then.
        std::thread::sleep(Duration::from_secs(1));
    }
    panic!("no opens are held");
}

/// Saves of an editor that waits for nobody. The new file comes from where the sandbox cannot see it.
const SAVES: &str = "for n in $(seq 150); do echo SECRET$n >../t; mv ../t .env; echo SECRET$n >../t; mv ../t sub/.env; \
                     sleep 0.005; done";

#[test]
fn a_program_of_roots_session_that_waits_for_a_save_opens_no_secret() {
    let Some(case) = case("a_program_of_roots_session_that_waits_for_a_save_opens_no_secret")
    else {
        return;
    };
    let (shown, stderr) = attack(&case, "    look('.env'); look('sub/.env')", SAVES);
    assert_eq!(shown, "0 found\n", "{stderr}");
    assert_eq!(case.host("cat .env sub/.env"), "SECRET150\nSECRET150\n");
}

/// A name of the new file that the sandbox gives it in the moment without a mask.
#[test]
fn a_renamed_or_linked_file_stays_closed_to_roots_session() {
    let Some(case) = case("a_renamed_or_linked_file_stays_closed_to_roots_session") else { return };
    // Renamed within the directory, which is where opens are held.
    let renamed = "    try: os.rename('.env', 'x')\n    except OSError: pass\n    look('x')\n    try: os.unlink('x')\n    \
                   except OSError: pass";
    let (shown, stderr) = attack(&case, renamed, SAVES);
    assert_eq!(shown, "0 found\n", "{stderr}");
    // Linked elsewhere, and opened once the mask is back. A link of the mask itself is refused.
    let linked = "    try: os.link('.env', f'out/{read}')\n    except OSError: continue\n    read += 1\n\
                  else:\n    import time\n    time.sleep(0.5)\n    for n in range(read): look(f'out/{n}')";
    let (shown, stderr) = attack(&case, linked, SAVES);
    assert_eq!(shown, "0 found\n", "{stderr}");
    println!("linked {} files", case.host("ls out | wc -l"));
}

/// An editor makes the new file next to the hidden one. The sandbox gives it a name in a directory whose
/// opens are not held, and opens it at once.
#[test]
fn file_made_by_the_host_next_to_a_hidden_one_stays_closed_in_other_directories() {
    let test = "file_made_by_the_host_next_to_a_hidden_one_stays_closed_in_other_directories";
    let Some(case) = case(test) else { return };
    let saves =
        "for n in $(seq 300); do echo SECRET$n >.env.tmp; mv .env.tmp .env; sleep 0.005; done";
    for call in ["rename", "link"] {
        case.host("echo SECRET0 >.env; rm -rf out; mkdir out");
        let moved = format!(
            "    for n in range(100):\n        try: os.{call}('.env', f'out/{{read}}')\n        \
             except OSError: continue\n        look(f'out/{{read}}'); read += 1"
        );
        let (shown, stderr) = attack(&case, &moved, saves);
        assert_eq!(shown, "0 found\n", "{call}: {stderr}");
        println!("{call}: {} files", case.host("ls out | wc -l"));
    }
}

#[test]
fn the_host_opens_hidden_files_as_usual_while_a_session_of_roots_lives() {
    let Some(case) = case("the_host_opens_hidden_files_as_usual_while_a_session_of_roots_lives")
    else {
        return;
    };
    let mut run =
        case.spawn(&[], "echo ready; while :; do cat .env sub/.env file; done >/dev/null 2>&1");
    wait_for_line(&mut run, "ready");
    std::thread::sleep(Duration::from_millis(400));
    let begun = Instant::now();
    let read = "python3 -c \"\nfor n in range(20000):\n    assert open('.env').read().startswith('SECRET')\n\
                for n in range(200):\n    open('t', 'w').write('SECRET')\n    import os\n    os.rename('t', '.env')\n    \
                assert open('.env').read() == 'SECRET'\n\"";
    case.host(read);
    println!("20 000 opens by the host took {:?}", begun.elapsed());
    // A program that the host stopped holds up nobody else.
    case.host(&format!(
        "kill -STOP {}; timeout 5 cat .env file; kill -CONT {}",
        run.id(),
        run.id()
    ));
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(case.host("timeout 5 cat .env"), "SECRET");
}

/// The kernel allows every open that nobody answers any more.
#[test]
fn a_session_of_roots_ends_with_the_process_that_holds_opens() {
    let Some(case) = case("a_session_of_roots_ends_with_the_process_that_holds_opens") else {
        return;
    };
    for delay in [0, 400] {
        let mut run = case.spawn(&[], "echo ready; sleep 10; echo lived");
        wait_for_line(&mut run, "ready");
        std::thread::sleep(Duration::from_millis(delay));
        case.host(&format!("kill -9 {}", wall(&case, &run).unwrap()));
        let (shown, stderr) = text(&run.wait_with_output().unwrap());
        assert!(!shown.contains("lived"), "{stderr}");
        assert!(stderr.contains("what keeps masks in place ended"), "{stderr}");
    }
}

/// The process goes with the session, however that ends.
#[test]
fn nothing_holds_opens_after_a_session_of_roots() {
    let Some(case) = case("nothing_holds_opens_after_a_session_of_roots") else { return };
    for end in ["exit", "kill"] {
        let mut run = case.spawn(&[], "echo ready; read line");
        wait_for_line(&mut run, "ready");
        let process = wall(&case, &run).unwrap();
        match end {
            "exit" => drop(run.stdin.take()),
            _ => run.kill().unwrap(),
        }
        run.wait().unwrap();
        let begun = Instant::now();
        let find =
            format!("grep -v '^State:.Z' /proc/{process}/status 2>/dev/null | head -1 || true");
        while !case.host(&find).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(5), "{end}: {process} is still there");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
