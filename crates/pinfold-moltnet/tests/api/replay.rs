//! Requests of the original client programs, as they were recorded, against this server.
//!
//! The server of the recording made up its answers. Here tasks, ids and addresses are real, so a request is adapted where
//! it repeats what it was answered: ids, tokens, numbers of attempts, and the address of the input in a verification.

use std::collections::HashMap;

use pinfold_content::{Value, read};

use crate::scene::{Client, Reply, Scene, TEAM, completion};

/// The tasks of the recordings. The first one is taken by another worker at first.
const TAKEN: &str = "44444444-4444-4444-8444-444444444444";
const FREE: &str = "44444444-4444-4444-8444-444444444445";
const PROFILE: &str = "88888888-8888-4888-8888-888888888888";

/// A recorded request.
pub(crate) struct Recorded<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    key: &'a str,
    team: &'a str,
    kind: &'a str,
    idempotency: Option<&'a str>,
    pub(crate) body: &'a str,
    pub(crate) status: u16,
}

impl<'a> Recorded<'a> {
    pub(crate) fn read(line: &'a str) -> Self {
        let (request, status) = line.rsplit_once("  => ").unwrap();
        let (head, rest) = request.split_once("  [").unwrap();
        let (fields, body) = rest.split_once(']').unwrap();
        let (method, path) = head.split_once(' ').unwrap();
        let field = |name: &str| {
            let (_, rest) = fields.split_once(name)?;
            Some(rest.split([' ', ']']).next().unwrap_or(rest))
        };
        Self {
            method,
            path,
            key: fields.split_once("Bearer ").map_or("", |(_, key)| key.split(' ').next().unwrap()),
            team: field("team=").unwrap(),
            kind: field("ct=").unwrap(),
            idempotency: field("idem="),
            body: body.trim(),
            status: status.split(' ').next().unwrap().parse().unwrap(),
        }
    }
}

/// A recording that is sent again.
struct Replay {
    client: Client,
    other: Client,
    /// The real ids of the tasks, and the numbers of the client's attempts.
    tasks: HashMap<&'static str, String>,
    numbers: HashMap<String, u32>,
    ended: Vec<String>,
    token: String,
    profile: String,
}

impl Replay {
    fn new(scene: &Scene) -> Self {
        let (client, other) = (scene.client("client"), scene.client("other"));
        let tasks = [FREE, TAKEN].map(|task| (task, client.create(r#","maxAttempts":5"#)));
        let profiles = client.get("/runtime-profiles").ok();
        let profile = profiles.get("items").and_then(Value::as_array).unwrap()[0].clone();
        let profile = profile.text_of("id").unwrap().into_owned();
        let (numbers, ended, token) = (HashMap::new(), Vec::new(), String::new());
        Self { client, other, tasks: tasks.into(), numbers, ended, token, profile }
    }

    fn run(&mut self, recording: &str) {
        for line in recording.lines() {
            let recorded = Recorded::read(line);
            let reply = self.send(&recorded);
            let expected = self.expected(&recorded);
            assert_eq!(reply.status, expected, "{line:.300}\n{}", reply.json());
            self.remember(&recorded, &reply);
        }
    }

    /// Returns the status that a server gives which knows what became of its tasks.
    fn expected(&self, recorded: &Recorded<'_>) -> u16 {
        let has_ended = self.ended.iter().any(|task| self.adapt(recorded.path).contains(task));
        if has_ended && recorded.method == "POST" { 409 } else { recorded.status }
    }

    fn send(&mut self, recorded: &Recorded<'_>) -> Reply {
        // The other worker has the task when the client claims it in vain, and gives it back before the client has it.
        if recorded.path.ends_with("/claim") && recorded.path.contains(TAKEN) {
            let task = self.tasks[TAKEN].clone();
            if recorded.status == 409 {
                self.other.begin(&task);
            } else if self.other.status(&task) == "running" {
                self.other.of_attempt(&task, 1, "abort", "{}").ok();
            }
        }
        let body = match recorded.kind {
            "application/json" => self.json(recorded),
            _ => recorded
                .body
                .replace("client_id=cid", &format!("client_id={}", self.client.agent.id))
                .replace("client_secret=sec", &format!("client_secret={}", self.client.key)),
        };
        let key = match recorded.key {
            // It was worth nothing when the client used it.
            _ if recorded.status == 401 => "dead",
            key if key.starts_with("tok") => &self.token,
            _ => &self.client.key,
        };
        let mut headers = format!("content-type: {}\r\naccept: */*\r\n", recorded.kind);
        if recorded.team != "-" {
            assert_eq!(recorded.team, TEAM);
            headers += &format!("x-moltnet-team-id: {TEAM}\r\n");
        }
        if let Some(key) = recorded.idempotency {
            headers += &format!("idempotency-key: {key}\r\n");
        }
        let client = Client { key: key.to_owned(), ..self.client.clone() };
        client.send(recorded.method, &self.adapt(recorded.path), &headers, body.as_bytes())
    }

    /// Puts in what is real.
    fn adapt(&self, text: &str) -> String {
        let mut text = text.replace(PROFILE, &self.profile);
        for (recorded, real) in &self.tasks {
            if !text.contains(recorded) {
                continue;
            }
            text = text.replace(recorded, real);
            let number = self.numbers.get(real).copied().unwrap_or(1);
            for name in ["attempts/1", "attemptN=1", "\"attemptN\":1", "\"lastAttemptN\":1"] {
                text = text.replace(name, &name.replace('1', &number.to_string()));
            }
        }
        text
    }

    fn json(&self, recorded: &Recorded<'_>) -> String {
        let mut text = self.adapt(recorded.body);
        // The recorder cut long bodies: a text is closed, and a member that is not complete is left out.
        if read(&text).is_err() && read(&format!("{text}\"}}")).is_ok() {
            text += "\"}";
        }
        while read(&text).is_err() {
            let cut = text.rfind(",\"").unwrap();
            text = text[..cut].to_owned() + "}";
        }
        let body = read(&text).unwrap();
        if !recorded.path.ends_with("/complete") {
            return text;
        }
        let path = self.adapt(recorded.path);
        let task = path.split('/').nth(2).unwrap();
        let cid = self.client.task(task).text_of("inputCid").unwrap().into_owned();
        let verification = format!(r#"{{"inputCid":"{cid}","results":[],"passed":true}}"#);
        let output = body.get("output").unwrap().as_object().unwrap().clone();
        let output: Value = output.with("verification", read(&verification).unwrap()).into();
        let real = read(&completion(&output.to_string())).unwrap();
        let body = body.as_object().unwrap().clone().with("output", output);
        Value::from(body.with("outputCid", real.get("outputCid").unwrap().clone())).to_string()
    }

    fn remember(&mut self, recorded: &Recorded<'_>, reply: &Reply) {
        let json = reply.json();
        if let Some(token) = json.text_of("access_token") {
            self.token = token.into_owned();
        }
        if let Some(attempt) = json.get("attempt") {
            let number = attempt.get("attemptN").unwrap().as_count().unwrap();
            let task = attempt.text_of("taskId").unwrap().into_owned();
            self.numbers.insert(task, u32::try_from(number).unwrap());
        }
        let ends = ["/complete", "/fail", "/abort", "/cancel"];
        if reply.status == 200 && ends.iter().any(|end| recorded.path.ends_with(end)) {
            self.ended.push(json.text_of("id").unwrap().into_owned());
        }
    }
}

#[test]
fn requests_of_the_client_are_answered_as_they_were() {
    let scene = Scene::new();
    let mut replay = Replay::new(&scene);
    replay.run(include_str!("../traces/client.txt"));
    let (free, taken) = (&replay.tasks[FREE], &replay.tasks[TAKEN]);
    assert_eq!(replay.client.status(taken), "completed");
    assert_eq!(replay.client.status(free), "running");
    let messages = replay.client.get(&format!("/tasks/{free}/attempts/1/messages")).ok();
    assert_eq!(messages.as_array().unwrap().len(), 2);
}

#[test]
fn requests_of_the_client_of_june_are_answered_as_they_were() {
    let scene = Scene::new();
    let mut replay = Replay::new(&scene);
    replay.run(include_str!("../traces/client-june.txt"));
    assert_eq!(replay.client.status(&replay.tasks[TAKEN]), "completed");
}

#[test]
fn daemon_drains_the_queue() {
    let scene = Scene::new();
    let mut replay = Replay::new(&scene);
    replay.run(include_str!("../traces/daemon-drain.txt"));
    for task in [FREE, TAKEN] {
        let task = &replay.tasks[task];
        assert_eq!(replay.client.status(task), "completed");
        let attempts = replay.client.get(&format!("/tasks/{task}/attempts")).ok();
        let attempt = attempts.as_array().unwrap().last().unwrap().clone();
        assert_eq!(attempt.text_of("runtimeProfileId").unwrap(), replay.profile);
        assert!(attempt.given("claimedExecutorManifest").is_some());
        assert!(attempt.get("daemonState").unwrap().given("reportedAt").is_some());
    }
}

#[test]
fn daemon_that_is_stopped_gives_its_task_back() {
    let scene = Scene::new();
    let mut replay = Replay::new(&scene);
    replay.run(include_str!("../traces/daemon-stop.txt"));
    assert_eq!(replay.client.status(&replay.tasks[FREE]), "queued");
}
