//! Clients that do what no client should, and machines on which everything dies.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pinfold_client::api::{ExecRun, FilesGrep, FilesWatch, Hello, SessionList, SessionStart};
use pinfold_client::{Client, ClientError};
use pinfold_testkit::{Stage, executable, people, processes_with};
use pinfold_tools::{Grep, Watch};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Served, sessions, shell, until};

/// A server on a socket, ended with the value.
struct Listening {
    server: Child,
    socket: PathBuf,
}

impl Listening {
    /// One that may open so many files at once.
    fn new(stage: &Stage, files: Option<u64>) -> Self {
        let socket = stage.base().join("run/api.sock");
        let mut server = match files {
            None => stage.pinfold(&["serve"]),
            Some(files) => {
                let mut shell = stage.command("sh");
                let script = format!("ulimit -n {files}; exec \"$@\"");
                shell.args(["-c", &script, "sh", executable(), "serve"]);
                shell
            }
        };
        let server = server.arg("--socket").arg(&socket).stderr(Stdio::null()).spawn().unwrap();
        let listening = Self { server, socket };
        until("it listens", || UnixStream::connect(&listening.socket).is_ok());
        listening
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket).unwrap()
    }

    fn plain(&self) -> UnixStream {
        let socket = UnixStream::connect(&self.socket).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

fn start(client: &Client, stage: &Stage) -> Result<String, ClientError> {
    let start = SessionStart { workspace: stage.workspace(), ..SessionStart::default() };
    client.call(&start).map(|started| started.session)
}

fn line(id: u64, method: &str, params: Value) -> String {
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

fn run(session: &str, script: &str) -> ExecRun {
    ExecRun { session: session.to_owned(), program: shell(script), ..ExecRun::default() }
}

/// The server answers others, and what this client has left behind is gone.
fn is_well(listening: &Listening, stage: &Stage) {
    listening.client().call(&Hello {}).unwrap();
    until("no session is left", || sessions(stage) == 0);
}

/// As whom a server can be asked by this process, which is root.
fn stage() -> Stage {
    Stage::new(people()[0])
}

#[test]
fn a_client_that_reads_nothing_while_much_is_written_makes_only_itself_wait() {
    let stage = stage();
    let listening = Listening::new(&stage, None);
    let mut deaf = listening.plain();
    let params = json!({ "workspace": stage.workspace() });
    deaf.write_all(line(1, "session.start", params).as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(&deaf).read_line(&mut answer).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let session = answer["result"]["session"].as_str().unwrap();
    let program = json!({ "argv": ["yes"] });
    for id in 0..200 {
        let params = json!({ "session": session, "program": program });
        deaf.write_all(line(id, "exec.start", params).as_bytes()).unwrap();
    }
    until("some of it runs", || !processes_with("yes\0").is_empty());
    listening.client().call(&SessionList {}).unwrap();
    drop(deaf);
    is_well(&listening, &stage);
}

#[test]
fn three_hundred_clients_and_lines_that_are_none_leave_the_server_well() {
    let stage = stage();
    let listening = Listening::new(&stage, None);
    let clients: Vec<UnixStream> = (0..300).map(|_| listening.plain()).collect();
    let answered = clients.iter().filter(|client| {
        let mut client: &UnixStream = client;
        let mut answer = String::new();
        // One that is too many is closed.
        client.write_all(line(1, "hello", json!({})).as_bytes()).is_ok()
            && BufReader::new(client).read_line(&mut answer).is_ok_and(|count| count > 0)
    });
    let answered = answered.count();
    // Who looked whether the server listens may not have been seen to go.
    assert!((255..=256).contains(&answered), "{answered}");
    drop(clients);
    until("there is room", || listening.client().call(&Hello {}).is_ok());
    let mut client = listening.plain();
    for said in ["{\"jsonrpc\":\"2.0\",\"id\":1e999,\"method\":\"hello\"}\n", "\u{0}\n", "[[[[\n"] {
        client.write_all(said.as_bytes()).unwrap();
    }
    client.write_all(b"\xff\xfe\n").unwrap();
    let deep = format!("{}\n", "[".repeat(1 << 20));
    client.write_all(deep.as_bytes()).unwrap();
    client.write_all(line(7, "hello", json!({})).as_bytes()).unwrap();
    let answers = BufReader::new(&client).lines().map_while(Result::ok).take(6);
    let answers: Vec<Value> = answers.map(|line| serde_json::from_str(&line).unwrap()).collect();
    assert!(answers[..5].iter().all(|answer| answer["error"]["code"].is_number()), "{answers:?}");
    assert_eq!(answers[5]["id"], 7);
    // A line without an end.
    let piece = vec![b' '; 1 << 20];
    let written = (0..200).take_while(|_| client.write_all(&piece).is_ok()).count();
    assert!(written < 110, "{written} MiB");
    let mut last = String::new();
    BufReader::new(&client).read_line(&mut last).unwrap();
    let last: Value = serde_json::from_str(&last).unwrap();
    let said = "a message of more than 96 MiB";
    assert_eq!((&last["id"], last["error"]["message"].as_str()), (&Value::Null, Some(said)));
    is_well(&listening, &stage);
}

#[test]
fn a_program_that_never_reads_its_input_holds_little_of_it() {
    let stage = stage();
    let listening = Listening::new(&stage, None);
    let mut client = listening.plain();
    let mut answers = BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
    let mut next = |wanted: u64| loop {
        let answer: Value = serde_json::from_str(&answers.next().unwrap()).unwrap();
        if answer["id"] == wanted {
            break answer;
        }
    };
    let params = json!({ "workspace": stage.workspace() });
    client.write_all(line(1, "session.start", params).as_bytes()).unwrap();
    let session = next(1)["result"]["session"].as_str().unwrap().to_owned();
    let params =
        json!({ "session": session, "program": { "argv": ["sleep", "1000"] }, "input": true });
    client.write_all(line(2, "exec.start", params).as_bytes()).unwrap();
    let exec = next(2)["result"]["exec"].as_u64().unwrap();
    let data = "x".repeat(8 << 20);
    for id in 10..16 {
        let params = json!({ "exec": exec, "data": data });
        client.write_all(line(id, "exec.write", params).as_bytes()).unwrap();
    }
    let refused = next(15);
    assert_eq!(refused["error"]["message"], "too much waits to be read by it", "{refused}");
    // A number in use is refused, and what has it goes on.
    for _ in 0..2 {
        let params = json!({ "session": session, "program": { "argv": ["sleep", "1000"] } });
        client.write_all(line(20, "exec.run", params).as_bytes()).unwrap();
    }
    assert_eq!(next(20)["error"]["message"], "a request with this id is still being answered");
    client.shutdown(std::net::Shutdown::Both).unwrap();
    is_well(&listening, &stage);
}

#[test]
fn watches_and_subscriptions_are_bounded_and_end_with_their_client() {
    let stage = stage();
    let listening = Listening::new(&stage, None);
    let client = listening.client();
    let session = start(&client, &stage).unwrap();
    let watch = Watch { path: ".".into(), recursive: false };
    let watch = FilesWatch { session, watch };
    let watches: Vec<_> = (0..70).map(|_| client.watch(&watch)).collect();
    let refused = watches.iter().filter(|watch| watch.is_err()).count();
    assert!((1..70).contains(&refused), "{refused}");
    let mut plain = listening.plain();
    let subscribed = (0..300).map(|id| line(id, "events.subscribe", json!({})));
    plain.write_all(subscribed.collect::<String>().as_bytes()).unwrap();
    let answers = BufReader::new(&plain).lines().map_while(Result::ok);
    let refused = answers.take(300).filter(|answer| answer.contains("too many")).count();
    assert_eq!(refused, 300 - 256);
    let threads = |pid| fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    assert!(threads(listening.server.id()) < 600);
    drop((watches, plain));
    drop(client);
    is_well(&listening, &stage);
    until("their threads are gone", || threads(listening.server.id()) < 20);
}

#[test]
fn a_server_without_descriptors_refuses_and_is_well_afterwards() {
    let stage = stage();
    // A start of a session takes 46 at most.
    let listening = Listening::new(&stage, Some(64));
    let client = listening.client();
    let session = start(&client, &stage).unwrap();
    let others: Vec<UnixStream> = (0..80).map(|_| listening.plain()).collect();
    // Each program takes three pipes; the clients have taken what there was.
    let refused = || client.call(&run(&session, "true")).err().map(|error| error.to_string());
    until("nothing is left", || refused().is_some_and(|said| said.contains("Too many open files")));
    drop(others);
    until("there is room", || client.call(&run(&session, "true")).is_ok());
    drop(client);
    is_well(&listening, &stage);
}

#[test]
fn file_that_is_not_a_socket_is_not_removed_for_one() {
    for user in people() {
        let stage = Stage::new(user);
        let key = stage.write("home/.ssh/id_ed25519", "KEY");
        let above = key.parent().unwrap();
        fs::set_permissions(above, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let output = stage.pinfold(&["serve", "--socket", key.to_str().unwrap()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("is there and no socket"), "{said}");
        assert_eq!(fs::read_to_string(&key).unwrap(), "KEY");
        assert!(!fs::metadata(&key).unwrap().file_type().is_socket());
    }
}

/// Kills, once everything waits, what the closure gives; and nobody waits any more.
fn nobody_waits_after(what: &str, victims: impl Fn(&Served<'_>, &str) -> Vec<u32>) {
    let stage = stage();
    stage.write("ws/large", "some line that is looked through\n".repeat(1 << 20));
    let served = Served::new(&stage);
    let session = served.start(&[]);
    let mark = format!("3{:07}", std::process::id());
    let grep = Grep { pattern: "(a|b)+never".to_owned(), path: ".".into(), ..Grep::default() };
    let grep = FilesGrep { session: session.clone(), grep };
    let watch = Watch { path: ".".into(), recursive: true };
    let watch = FilesWatch { session: session.clone(), watch };
    let mut watching = served.client.watch(&watch).unwrap();
    let slow = run(&session, &format!("sleep {mark}"));
    std::thread::scope(|scope| {
        let (client, slow, grep) = (&served.client, &slow, &grep);
        let slept = scope.spawn(move || client.call(slow));
        let searched = scope.spawn(move || client.call(grep));
        let changed = scope
            .spawn(move || while watching.change().is_some_and(|change| change.error.is_none()) {});
        until("it sleeps", || !processes_with(&format!("sleep\0{mark}\0")).is_empty());
        let killed = Instant::now();
        for pid in victims(&served, &session) {
            kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
        }
        assert!(slept.join().unwrap().is_err(), "{what}: it has ended");
        // This one may have been done before.
        let _ = searched.join().unwrap();
        changed.join().unwrap();
        assert!(killed.elapsed() < Duration::from_secs(10), "{what}: {:?}", killed.elapsed());
    });
    until("nothing is left", || processes_with(&format!("sleep\0{mark}\0")).is_empty());
    drop(served.client);
    let mut server = served.server;
    server.wait().unwrap();
    // What a killed supervisor could not clean up the next one does.
    assert!(stage.run(&[], &["true"]).status.success());
    until("no session is left", || sessions(&stage) == 0);
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap();
    let all: String = tasks.map(of_task).collect();
    all.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn when_the_server_is_killed_nobody_waits() {
    nobody_waits_after("the server", |served, _| vec![served.server.id()]);
}

#[test]
fn when_the_supervisor_is_killed_nobody_waits() {
    nobody_waits_after("the supervisor", |served, _| children(served.server.id()));
}

#[test]
fn when_init_is_killed_nobody_waits() {
    nobody_waits_after("init", |served, _| {
        children(served.server.id()).into_iter().flat_map(children).collect()
    });
}

#[test]
fn a_connection_that_is_closed_midway_ends_what_it_began() {
    let stage = stage();
    let listening = Listening::new(&stage, None);
    for cut in [1, 20, 60] {
        let mut client = listening.plain();
        let whole = line(1, "session.start", json!({ "workspace": stage.workspace() }));
        client.write_all(whole.as_bytes()).unwrap();
        client.write_all(&whole.as_bytes()[..cut]).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
    }
    is_well(&listening, &stage);
}

/// A session of this client's, and where it writes and reads line by line.
fn begun(
    listening: &Listening,
    stage: &Stage,
) -> (UnixStream, impl FnMut(u64) -> Value + use<>, String) {
    let mut client = listening.plain();
    let mut answers = BufReader::new(client.try_clone().unwrap()).lines();
    let mut next = move |wanted: u64| loop {
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        if answer["id"] == wanted {
            break answer;
        }
    };
    let params = json!({ "workspace": stage.workspace() });
    client.write_all(line(1, "session.start", params).as_bytes()).unwrap();
    let session = next(1)["result"]["session"].as_str().unwrap().to_owned();
    (client, next, session)
}

#[test]
fn request_cancelled_before_it_begins_is_cancelled() {
    let stage = stage();
    stage.write("ws/large", "no needle here, however long one looks\n".repeat(4_000_000));
    let listening = Listening::new(&stage, None);
    let (mut client, mut next, session) = begun(&listening, &stage);
    let program = json!({ "argv": ["sleep", "1000"] });
    let grep = json!({ "pattern": "(needle|line)s? (there|gone)+x" });
    for turn in 0..10 {
        let (run, search) = (100 + 4 * turn, 101 + 4 * turn);
        let both = [
            line(run, "exec.run", json!({ "session": session, "program": program })),
            line(run + 2, "cancel", json!({ "request": run })),
        ];
        client.write_all(both.concat().as_bytes()).unwrap();
        let ran = next(run);
        assert_eq!(ran["result"]["ended"]["status"], 137, "{turn}: {ran}");
        let search = [
            line(search, "files.grep", json!({ "session": session, "grep": grep })),
            line(search + 2, "cancel", json!({ "request": search })),
        ];
        client.write_all(search.concat().as_bytes()).unwrap();
        let searched = next(101 + 4 * turn);
        assert_eq!(searched["error"]["data"]["kind"], "cancelled", "{turn}: {searched}");
    }
    drop((client, next));
    is_well(&listening, &stage);
}

#[test]
fn program_of_a_client_ends_with_it_however_soon_it_goes() {
    let stage = stage();
    let listening = Listening::new(&stage, None);
    let (client, _, session) = begun(&listening, &stage);
    let threads = || fs::read_dir(format!("/proc/{}/task", listening.server.id())).unwrap().count();
    let before = threads();
    let mark = format!("4{:07}", std::process::id());
    let program = json!({ "argv": ["sleep", mark] });
    let watch = json!({ "path": ".", "recursive": true });
    for _ in 0..10 {
        let mut hasty = listening.plain();
        let said = [
            line(1, "exec.run", json!({ "session": session, "program": program })),
            line(2, "files.watch", json!({ "session": session, "watch": watch })),
        ];
        hasty.write_all(said.concat().as_bytes()).unwrap();
        // It still listens, so that only its going tells.
        hasty.shutdown(std::net::Shutdown::Write).unwrap();
        std::mem::forget(hasty);
    }
    until("nothing goes on for those that went", || threads() <= before);
    assert!(processes_with(&format!("sleep\0{mark}\0")).is_empty());
    drop(client);
    is_well(&listening, &stage);
}
