//! The queue that is served to workers, and workers of a server.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{people, processes_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::memory::TOOLS;
use crate::scene::{Scene, printed};

const DIARY: &str = "22222222-2222-4222-8222-222222222222";

/// A server with the key of an agent that may do everything.
struct Served {
    process: Child,
    address: String,
    key: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(scene: &Scene, listen: &str) -> (Child, String) {
    let mut command = scene.command(&["tasks", "serve", "--listen", listen]);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (process, line.trim().strip_prefix("http://").unwrap().to_owned())
}

impl Served {
    fn new(scene: &Scene) -> Self {
        let scopes = ["agent:profile", "task:read", "task:claim", "task:execute", "task:manage"];
        let scopes = scopes.iter().flat_map(|scope| ["--scope", scope]);
        let args: Vec<&str> = ["task", "key", "add", "w"].into_iter().chain(scopes).collect();
        let added = scene.run(&args);
        assert!(added.status.success(), "{}", printed(&added));
        let key = String::from_utf8(added.stdout).unwrap().trim().to_owned();
        let (process, address) = start(scene, "127.0.0.1:0");
        Self { process, address, key }
    }

    fn kill_and_start_again(&mut self, scene: &Scene) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let address = self.address.clone();
        let began = Instant::now();
        loop {
            let mut command = scene.command(&["tasks", "serve", "--listen", &address]);
            self.process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(200));
            if TcpStream::connect(&address).is_ok() {
                return;
            }
            // Connections of the one before may keep the port for a moment.
            assert!(began.elapsed() < Duration::from_secs(90), "the port is not free");
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 2"), "{answer}");
        serde_json::from_str(body).unwrap()
    }

    fn create(&self, brief: &str) -> String {
        let body = json!({
            "taskType": "fulfill_brief", "diaryId": DIARY, "input": { "brief": brief }, "title": "A task",
            "maxAttempts": 2
        });
        self.call("POST", "/tasks", &body)["id"].as_str().unwrap().to_owned()
    }

    fn task(&self, id: &str) -> Value {
        self.call("GET", &format!("/tasks/{id}"), &json!({}))
    }

    fn status(&self, id: &str) -> String {
        self.task(id)["status"].as_str().unwrap().to_owned()
    }

    fn attempts(&self, id: &str) -> Value {
        self.call("GET", &format!("/tasks/{id}/attempts"), &json!({}))
    }

    /// Returns a worker of the server.
    fn worker(&self, scene: &Scene, options: &[&str]) -> std::process::Command {
        let source = format!("http://{}", self.address);
        let args = ["work", "--source", &source, "--agent", "script"];
        let mut command = scene.command(&[&args, options].concat());
        command.env("MOLTNET_AGENT_KEY", &self.key);
        command
    }
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn task_of_a_server_is_done_here_and_its_key_is_nowhere() {
    for user in people() {
        let scene = Scene::new(user);
        let served = Served::new(&scene);
        let marker = format!("30{}.{}", std::process::id(), scene.stage.user.uid);
        let script = format!(
            "echo right >answer; (env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null) | tr '\\0' '\\n' >seen
             git add -A; git commit -qm 'do it'; sleep {marker}"
        );
        let id = served.create(&script);
        let options = ["--verify", "sh tests/check.sh", "--once"];
        let mut worker = served.worker(&scene, &options);
        let worker = worker.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let sleeps = format!("sleep\0{marker}");
        wait_for("the agent runs", || !processes_with(&sleeps).is_empty());
        assert_eq!(served.status(&id), "running");
        assert!(processes_with(&served.key).is_empty(), "the key is in a command line");
        for pid in processes_with(&sleeps) {
            let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::TERM);
        }
        let said = printed(&worker.wait_with_output().unwrap());
        assert_eq!(served.status(&id), "completed", "{said}");
        let output = &served.attempts(&id)[0]["output"];
        let branch = output["branch"].as_str().unwrap();
        assert_eq!(scene.git(&["show", &format!("{branch}:answer")]), "right");
        assert_eq!(output["commits"][0]["message"], "do it");
        assert!(output["summary"].as_str().unwrap().contains("sh tests/check.sh"), "{output}");
        let seen = scene.git(&["show", &format!("{branch}:seen")]);
        assert!(!seen.contains(&served.key) && !seen.contains("MOLTNET_AGENT_KEY"), "{seen}");
        assert!(!said.contains(&served.key));
        let state = scene.stage.path("home");
        let found = scene.stage.command("grep").args(["-rl", &served.key]).arg(&state).output();
        assert_eq!(printed(&found.unwrap()), "");
    }
}

#[test]
fn agent_of_a_servers_task_keeps_files_there_and_asks_the_host() {
    for user in people() {
        let scene = Scene::new(user);
        let config =
            "memory = \"write\"\n[hostExec]\nexecutables = [\"true\"]\nautoApprove = true\n";
        scene.stage.write("home/.config/pinfold/config.toml", config);
        let served = Served::new(&scene);
        let asks = "pinfold-memory moltnet_host_exec '{\"executable\":\"true\",\"args\":[],\"cwd\":\"tests\"}'";
        let id = served.create(&format!("{asks} | grep -q '\"exit_code\":0' && {TOOLS}"));
        let options = ["--verify", "sh tests/check.sh", "--once"];
        let said = printed(&served.worker(&scene, &options).output().unwrap());
        assert_eq!(served.status(&id), "completed", "{said}");
        let source = format!("http://{}", served.address);
        let mut show = scene.command(&["task", "artifact", &id, "--source", &source]);
        let content = show.env("MOLTNET_AGENT_KEY", &served.key).output().unwrap();
        assert_eq!(printed(&content), "hello\n");
        let audit = printed(&scene.run(&["audit", "--json"]));
        assert!(audit.contains("moltnet_host_exec") && audit.contains("host-exec-end"), "{audit}");
    }
}

#[test]
fn message_of_a_commit_that_is_too_long_is_left_out() {
    for user in people() {
        let scene = Scene::new(user);
        let served = Served::new(&scene);
        let id = served.create(
            "for i in 1 2 3; do echo $i >answer; git add -A
             if [ $i = 2 ]; then head -c 200000 /dev/zero | tr '\\0' a; else echo \"step $i\"; fi | git commit -qF -
             done",
        );
        let said = printed(&served.worker(&scene, &["--once"]).output().unwrap());
        assert_eq!(served.status(&id), "completed", "{said}");
        let commits = &served.attempts(&id)[0]["output"]["commits"];
        let messages = commits.as_array().unwrap().iter().map(|commit| commit["message"].as_str());
        let messages: Vec<&str> = messages.map(Option::unwrap).collect();
        assert_eq!(messages, ["step 1", "(a message that is too long)", "step 3"]);
    }
}

#[test]
fn result_that_is_not_verified_is_not_reported_as_one() {
    for user in people() {
        let scene = Scene::new(user);
        let served = Served::new(&scene);
        let id = served.create("echo wrong >answer");
        let options = ["--verify", "sh tests/check.sh"];
        let said = printed(&served.worker(&scene, &options).output().unwrap());
        assert_eq!(served.status(&id), "failed", "{said}");
        let attempts = served.attempts(&id);
        let error = &attempts.as_array().unwrap().last().unwrap()["error"];
        assert!(["verification_failed", "no_progress"].contains(&error["code"].as_str().unwrap()));
    }
}

#[test]
fn server_that_is_killed_loses_nothing() {
    for user in people() {
        let scene = Scene::new(user);
        let mut served = Served::new(&scene);
        let marker = format!("40{}.{}", std::process::id(), scene.stage.user.uid);
        let id = served.create(&format!("echo right >answer; sleep {marker}"));
        let mut worker = served.worker(&scene, &["--once"]);
        let worker = worker.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let sleeps = format!("sleep\0{marker}");
        wait_for("the agent runs", || !processes_with(&sleeps).is_empty());
        served.kill_and_start_again(&scene);
        assert_eq!(served.status(&id), "running");
        for pid in processes_with(&sleeps) {
            let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
        }
        let said = printed(&worker.wait_with_output().unwrap());
        // The signal is the agent's failure, which the server that was started again has taken.
        assert_ne!(served.status(&id), "running", "{said}");
        assert_eq!(served.attempts(&id)[0]["status"], "failed", "{said}");
    }
}

#[test]
fn worker_of_a_server_gives_its_task_back_when_it_is_asked_to_end() {
    for user in people() {
        let scene = Scene::new(user);
        let served = Served::new(&scene);
        let marker = format!("50{}.{}", std::process::id(), scene.stage.user.uid);
        let id = served.create(&format!("sleep {marker}"));
        let mut worker = served.worker(&scene, &[]);
        let mut worker = worker.stderr(Stdio::null()).spawn().unwrap();
        let sleeps = format!("sleep\0{marker}");
        wait_for("the agent runs", || !processes_with(&sleeps).is_empty());
        kill_process(Pid::from_child(&worker), Signal::TERM).unwrap();
        worker.wait().unwrap();
        assert!(processes_with(&sleeps).is_empty());
        assert_eq!(served.status(&id), "queued");
        assert_eq!(served.attempts(&id)[0]["error"]["code"], "worker_aborted");
    }
}

#[test]
fn server_is_not_reached_by_others_without_encryption_and_worker_needs_credentials() {
    for user in people() {
        let scene = Scene::new(user);
        let refused = scene.run(&["task", "serve", "--listen", "0.0.0.0:0"]);
        let said = printed(&refused);
        assert!(!refused.status.success() && said.contains("--tls-certificate"), "{said}");
        let source = ["work", "--source", "http://127.0.0.1:1", "--agent", "script"];
        let said = printed(&scene.run(&source));
        assert!(said.contains("no credentials") && said.contains("MOLTNET_AGENT_KEY"), "{said}");
        for other in ["http://192.0.2.1", "ftp://127.0.0.1", "https://a:b@example.com"] {
            let mut command = scene.command(&["work", "--source", other, "--agent", "script"]);
            let said = printed(&command.env("MOLTNET_AGENT_KEY", "k").output().unwrap());
            assert!(said.contains("cannot use"), "{said}");
        }
        let listed = printed(&scene.run(&["task", "key", "ls"]));
        assert_eq!(listed, "pinfold: no agents\n");
    }
}

#[test]
fn server_with_a_certificate_is_used_by_those_who_trust_it() {
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    for user in people() {
        let scene = Scene::new(user);
        scene.stage.write("tls/cert.pem", certificate.cert.pem());
        scene.stage.write("tls/key.pem", certificate.signing_key.serialize_pem());
        let path = |name: &str| scene.stage.path(name).to_str().unwrap().to_owned();
        let (cert, key) = (path("tls/cert.pem"), path("tls/key.pem"));
        let added = scene.run(&["task", "key", "add", "w"]);
        let agent_key = String::from_utf8(added.stdout).unwrap();
        let options = ["--listen", "127.0.0.1:0", "--tls-certificate", &cert, "--tls-key", &key];
        let serve = || scene.command(&[&["task", "serve"], &options[..]].concat());
        let set_mode = |mode| std::fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        set_mode(0o644);
        let said = printed(&serve().output().unwrap());
        assert!(said.contains("other users can read it (mode 0644)"), "{said}");
        set_mode(0o640);
        let mut command = serve();
        let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("https://127.0.0.1:").unwrap().to_owned();
        let source = format!("https://localhost:{port}");
        let work = |trusted: &str| {
            let mut command = scene.command(&["work", "--source", &source, "--agent", "script"]);
            command.env("SSL_CERT_FILE", trusted).env("MOLTNET_AGENT_KEY", agent_key.trim());
            command.output().unwrap()
        };
        let trusting = work(&cert);
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        scene.stage.write("tls/other.pem", other.cert.pem());
        let wary = work(&path("tls/other.pem"));
        server.kill().unwrap();
        server.wait().unwrap();
        assert!(printed(&trusting).contains("no task is queued"), "{}", printed(&trusting));
        assert!(!wary.status.success() && printed(&wary).contains("tls"), "{}", printed(&wary));
    }
}
