//! The client: against this server, against recorded requests, and against a server that means harm.

use pinfold_host::Refusal;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pinfold_content::{Cid, Value, read};
use pinfold_moltnet::{Credentials, Remote, RemoteConfig, WayOut, Work};
use pinfold_tasks::{
    Answer, AttemptQueue, Claim, Claimed, Completion, Ending, Engine, Failure, Request, Source,
    Stop, TaskSpec, Token, Until, Usage, Worker, WorkerEvent, WorkerSettings,
};

use crate::scene::{Client, DIARY, Scene};

const CANARY: &str = "canary-of-the-secret";

/// An engine that does what the brief says.
struct Scripted;

impl Engine for Scripted {
    fn carry_out(&self, claimed: &Claimed, stop: &Stop, queue: &dyn AttemptQueue) -> Ending {
        let brief = claimed.spec.brief.as_str();
        (0..60).for_each(|line| queue.progress(&format!("line {line}")));
        match brief {
            "fail" => Ending::Failed(Failure::new("llm_api_error", "503")),
            "wait" if stop.wait(Duration::from_secs(60)) => Ending::Stopped,
            _ => {
                let usage = Usage { input_tokens: 3, output_tokens: 4, ..Usage::default() };
                Ending::Completed(Completion { output: format!("{brief:?}"), usage })
            }
        }
    }

    fn accepted(&self, _: &Claimed, _: &Completion) -> Result<(), Refusal> {
        Ok(())
    }
}

fn describe(completion: &Completion) -> Result<Work, Refusal> {
    let commits = vec![("0123456789abcdef".to_owned(), "Do it".to_owned())];
    Ok(Work { branch: "task/x".to_owned(), summary: completion.output.clone(), commits })
}

/// Runs something with the queue of a server.
pub(crate) fn with_remote<T>(
    address: &str,
    id: &str,
    secret: &str,
    said: &Mutex<Vec<String>>,
    is_ending: &(dyn Fn() -> bool + Sync),
    run: impl FnOnce(&Remote<'_>) -> T,
) -> T {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("moltnet.json");
    let content = format!(r#"{{"oauth2":{{"client_id":"{id}","client_secret":"{secret}"}}}}"#);
    std::fs::write(&path, content).unwrap();
    let notify = |line: &str| said.lock().unwrap().push(line.to_owned());
    let config = RemoteConfig {
        address: address.to_owned(),
        way: WayOut::default(),
        credentials: Credentials::find(Some(&path)).unwrap(),
        team: None,
        correlation: None,
        template: TaskSpec::new("", ""),
        check: &|_| Ok(()),
        describe: &describe,
        is_ending,
        notify: &notify,
    };
    run(&Remote::new(config).unwrap())
}

/// Works on the tasks of a server until none is queued, and returns how many ended how.
fn work(client: &Client, until: Until, stop: &Stop) -> ([usize; 2], Vec<String>) {
    let said = Mutex::default();
    let address = format!("http://{}", client.address);
    let is_ending = || stop.is_set();
    let (id, key) = (&client.agent.id, &client.key);
    let tally = with_remote(&address, id, key, &said, &is_ending, |remote| {
        remote.check().unwrap();
        let settings = WorkerSettings {
            ttl: Duration::from_secs(3),
            idle: (Duration::from_millis(10), Duration::from_millis(50)),
            ..WorkerSettings::new("w")
        };
        let observer = |event: &WorkerEvent<'_>| {
            if let WorkerEvent::Lost(_, why) = event {
                said.lock().unwrap().push((*why).to_owned());
            }
        };
        let worker = Worker {
            source: remote,
            engine: &Scripted,
            settings,
            until,
            stop,
            observer: &observer,
        };
        let done = Stop::new().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| remote.pump(&done));
            let tally = worker.work(1);
            done.set();
            tally
        })
    });
    let counts = [&tally.completed, &tally.others].map(|count| count.load(Ordering::SeqCst));
    (counts, said.into_inner().unwrap())
}

pub(crate) fn create(client: &Client, kind: &str, brief: &str) -> String {
    let body = format!(
        r#"{{"taskType":"{kind}","diaryId":"{DIARY}","input":{{"brief":"{brief}"}},"maxAttempts":2}}"#
    );
    client.post("/tasks", &body).ok().text_of("id").unwrap().into_owned()
}

#[test]
fn worker_takes_tasks_of_the_server_and_reports_what_came_of_them() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let tasks = [create(&agent, "freeform", "one"), create(&agent, "fulfill_brief", "two")];
    let failing = create(&agent, "freeform", "fail");
    let body = format!(
        r#"{{"taskType":"render_pack","diaryId":"{DIARY}","input":{{"packId":"{DIARY}"}}}}"#
    );
    let other = agent.post("/tasks", &body).ok().text_of("id").unwrap().into_owned();
    let (counts, _) = work(&agent, Until::Drained, &Stop::new().unwrap());
    assert_eq!(counts, [2, 2]);
    assert_eq!(tasks.each_ref().map(|task| agent.status(task)), ["completed", "completed"]);
    // Failed twice: the code says that it may help, and then no attempt is left.
    assert_eq!(agent.status(&failing), "failed");
    let attempts = agent.get(&format!("/tasks/{failing}/attempts")).ok();
    let retries = attempts.as_array().unwrap().iter().map(|it| {
        let error = it.get("error").unwrap();
        let retry = error.get("retry").unwrap().text_of("source").unwrap().into_owned();
        (error.get("retryable").and_then(Value::as_bool).unwrap(), retry)
    });
    assert_eq!(
        retries.collect::<Vec<_>>(),
        [(true, "deterministic".to_owned()), (false, "attempts_exhausted".to_owned())]
    );
    assert_eq!(agent.status(&other), "queued");
    let attempts = agent.get(&format!("/tasks/{}/attempts", tasks[1])).ok();
    let output = attempts.as_array().unwrap()[0].get("output").unwrap().to_string();
    assert!(
        output.starts_with(r#"{"branch":"task/x","commits":[{"sha":"0123456789abcdef""#),
        "{output}"
    );
    let messages = agent.get(&format!("/tasks/{}/attempts/1/messages?limit=200", tasks[0])).ok();
    let texts = messages.as_array().unwrap().iter();
    let texts = texts.map(|it| it.get("payload").unwrap().text_of("text").unwrap().into_owned());
    let expected = (0..60).map(|line| format!("line {line}"));
    assert_eq!(texts.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn cancelled_task_ends_its_attempt_and_a_stopped_worker_gives_its_task_back() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let wait_for = |task: &str, status: &str| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while agent.status(task) != status {
            assert!(Instant::now() < deadline, "{task} is not {status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let stop = Stop::new().unwrap();
    let task = create(&agent, "freeform", "wait");
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(&agent, Until::Stopped, &stop));
        wait_for(&task, "running");
        agent.post(&format!("/tasks/{task}/cancel"), r#"{"reason":"not wanted"}"#).ok();
        let next = create(&agent, "freeform", "wait");
        wait_for(&next, "running");
        stop.set();
        let (counts, said) = worker.join().unwrap();
        assert_eq!(counts, [0, 2]);
        assert!(said.iter().any(|line| line.contains("not wanted")), "{said:?}");
        assert_eq!(agent.status(&next), "queued");
    });
}

/// A server that answers by a script, and notes what it is asked.
struct Scripts {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Scripts {
    fn new(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut request, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    if stream.read_line(&mut line).unwrap_or(0) <= 2 {
                        break;
                    }
                    let lower = line.to_lowercase();
                    if let Some(value) = lower.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    request += &line;
                }
                let mut body = vec![0; length];
                let _ = stream.read_exact(&mut body);
                let request = format!("{request}\r\n{}", String::from_utf8_lossy(&body));
                noted.lock().unwrap().push(request.clone());
                let _ = stream.get_mut().write_all(answer(&request).as_bytes());
            }
        });
        Self { address, asked }
    }

    fn with<T>(&self, run: impl FnOnce(&Remote<'_>) -> T) -> (T, Vec<String>) {
        let said = Mutex::default();
        let address = format!("http://{}", self.address);
        let done = with_remote(&address, "id", CANARY, &said, &|| false, run);
        (done, said.into_inner().unwrap())
    }
}

fn http(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
}

fn ok(body: &str) -> String {
    http(200, "content-type: application/json\r\n", body)
}

const TOKEN: &str = r#"{"access_token":"token","token_type":"bearer","expires_in":3600}"#;
const ID: &str = "44444444-4444-4444-8444-444444444444";

fn offered(id: &str) -> String {
    let input = r#"{"brief":"x"}"#;
    let cid = Cid::of_json(&read(input).unwrap());
    format!(
        r#"{{"id":"{id}","taskType":"freeform","status":"queued","input":{input},"inputCid":"{cid}"}}"#
    )
}

fn claim() -> Request {
    let token = Token::from_random([7; 16]);
    Request::Claim(Claim { token, worker: "w".to_owned(), ttl: Duration::from_secs(300) })
}

const TTL: Duration = Duration::from_secs(300);

/// Requests are those of the original client, in form and order.
#[test]
fn requests_are_those_that_were_recorded() {
    let server = Scripts::new(|request| {
        let first = request.lines().next().unwrap_or_default();
        match first {
            _ if first.contains("/oauth2/token") => ok(TOKEN),
            _ if first.contains("/claim") => {
                ok(&format!(r#"{{"task":{{}},"attempt":{{"taskId":"{ID}","attemptN":1}}}}"#))
            }
            _ if first.contains("/heartbeat") => {
                ok(r#"{"claimExpiresAt":null,"cancelled":false,"cancelReason":null}"#)
            }
            _ if first.starts_with("GET /tasks") => {
                ok(&format!(r#"{{"items":[{}],"total":1}}"#, offered(ID)))
            }
            _ => ok("{}"),
        }
    });
    server.with(|remote| {
        let Ok(Answer::Claimed(Some(claimed))) = remote.ask(&claim(), TTL) else { panic!() };
        let holder = claimed.holder;
        // The same claim again is the same attempt, and asks for nothing.
        let Ok(Answer::Claimed(Some(again))) = remote.ask(&claim(), TTL) else { panic!() };
        assert_eq!(again.holder, holder);
        remote.ask(&Request::Heartbeat(holder), TTL).unwrap();
        remote.ask(&Request::Heartbeat(holder), TTL).unwrap();
        let usage = Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() };
        let completion = Completion { output: "done".to_owned(), usage };
        remote.ask(&Request::Complete(holder, completion), TTL).unwrap();
        // It is over.
        assert!(remote.ask(&Request::Heartbeat(holder), TTL).is_err());
    });
    let recorded = include_str!("../traces/client.txt");
    let mut lines = recorded.lines();
    for request in server.asked.lock().unwrap().iter() {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let target = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1");
        // Scopes and results differ.
        let body = if target.contains("token") || target.contains("complete") { "" } else { body };
        let is_it = |line: &&str| line.starts_with(&format!("{target}  [")) && line.contains(body);
        assert!(lines.any(|line| is_it(&line)), "{target} {body} was not recorded, or not there");
        let authorization = if target.contains("token") { "" } else { "bearer token" };
        assert!(head.to_lowercase().contains(authorization), "{head}");
    }
    assert_eq!(server.asked.lock().unwrap().len(), 6);
}

#[test]
fn token_that_ended_early_is_renewed_once_and_a_request_that_came_too_soon_is_sent_again() {
    let server = Scripts::new({
        let count = Mutex::new([0, 0]);
        move |request| {
            let mut count = count.lock().unwrap();
            if request.contains("/oauth2/token") {
                count[0] += 1;
                return ok(&TOKEN.replace("\"token\"", &format!("\"token{}\"", count[0])));
            }
            count[1] += 1;
            match count[1] {
                1 => http(401, "", "{}"),
                2 => http(429, "retry-after: 0\r\n", "{}"),
                _ if request.contains("token2") => ok(r#"{"identityId":"x"}"#),
                _ => http(401, "", "{}"),
            }
        }
    });
    server.with(|remote| remote.check().unwrap());
    assert_eq!(server.asked.lock().unwrap().len(), 5);
    // One that is never enough ends after the second token.
    let server = Scripts::new(|request| {
        if request.contains("/oauth2/token") { ok(TOKEN) } else { http(401, "", "{}") }
    });
    let (error, _) = server.with(|remote| remote.check().unwrap_err());
    assert!(error.to_string().contains("rejected the credentials"), "{error}");
    assert_eq!(server.asked.lock().unwrap().len(), 4);
}

#[test]
fn credentials_follow_no_redirect_and_are_in_no_message() {
    let elsewhere = Scripts::new(|_| ok(TOKEN));
    let to = elsewhere.address;
    let server = Scripts::new(move |_| {
        http(302, &format!("location: http://{to}/oauth2/token\r\n"), CANARY)
    });
    let (error, said) = server.with(|remote| remote.check().unwrap_err());
    assert!(elsewhere.asked.lock().unwrap().is_empty());
    assert!(!error.to_string().contains(CANARY) && said.is_empty(), "{error}");
    // A server that repeats the secret does not get it into a message either.
    let server = Scripts::new(|request| {
        let body = request.split_once("\r\n\r\n").unwrap().1.to_owned();
        http(400, "", &format!(r#"{{"error":"{body}"}}"#))
    });
    let (error, _) = server.with(|remote| remote.check().unwrap_err());
    assert!(!error.to_string().contains(CANARY), "{error}");
}

#[test]
fn answers_of_a_hostile_server_are_errors() {
    let long = "x".repeat(17 << 20);
    let bodies = [
        ok("{"),
        ok(""),
        ok("[]"),
        ok(&"[".repeat(1 << 20)),
        ok(&format!(r#"{{"items":"{long}"}}"#)),
        ok(r#"{"items":[null,1,{},{"id":"../../x"},{"id":[]}],"nextCursor":null}"#),
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{".to_owned(),
        "nonsense\r\n\r\n".to_owned(),
        String::new(),
        http(500, "", "{}"),
        http(404, "", "{\"detail\":\"\u{1b}[31m\"}"),
    ];
    for body in bodies {
        let shown: String = body.chars().take(60).collect();
        let server =
            Scripts::new(
                move |request| {
                    if request.contains("/oauth2/token") { ok(TOKEN) } else { body.clone() }
                },
            );
        let (answer, _) = server.with(|remote| remote.ask(&claim(), TTL));
        match answer {
            Ok(Answer::Claimed(None)) => {}
            Ok(_) => panic!("{shown}"),
            Err(denied) => {
                assert!(denied.reason.len() < 2_000, "{shown}");
                assert!(!denied.reason.contains('\u{1b}'), "{shown}");
            }
        }
    }
}

#[test]
fn endless_list_and_strange_claims_end() {
    let answers = [
        r#"{"attempt":{"taskId":"44444444-4444-4444-8444-444444444444","attemptN":0}}"#,
        r#"{"attempt":{"taskId":"44444444-4444-4444-8444-444444444444","attemptN":1000000}}"#,
        r#"{"attempt":{"taskId":"55555555-5555-4555-8555-555555555555","attemptN":1}}"#,
        r#"{"attempt":null}"#,
    ];
    for answer in answers {
        let server = Scripts::new(move |request| match request {
            _ if request.contains("/oauth2/token") => ok(TOKEN),
            _ if request.contains("/claim") => ok(answer),
            _ => ok(&format!(r#"{{"items":[{}],"nextCursor":"again&x=y"}}"#, offered(ID))),
        });
        let (claimed, said) = server.with(|remote| remote.ask(&claim(), TTL));
        assert!(matches!(claimed, Ok(Answer::Claimed(None))), "{answer}");
        assert!(said[0].contains("strangely"), "{said:?}");
        let asked = server.asked.lock().unwrap();
        assert!(asked.len() < 300, "{}", asked.len());
        assert!(asked.iter().any(|it| it.contains("cursor=again%26x%3Dy")));
    }
}

/// A hundred slow pages would be an hour in which Ctrl-C did nothing.
#[test]
fn worker_that_is_to_end_asks_for_nothing_more() {
    let items = vec![offered(ID); 50].join(",");
    let server = Scripts::new(move |request| match request {
        _ if request.contains("/oauth2/token") => ok(TOKEN),
        _ if request.contains("/claim") => http(409, "", "{}"),
        _ => ok(&format!(r#"{{"items":[{items}],"nextCursor":"again"}}"#)),
    });
    let (said, asked) = (Mutex::default(), || server.asked.lock().unwrap().len());
    let address = format!("http://{}", server.address);
    let is_ending = || asked() >= 20;
    let claimed =
        with_remote(&address, "id", CANARY, &said, &is_ending, |remote| remote.ask(&claim(), TTL));
    assert!(matches!(claimed, Ok(Answer::Claimed(None))));
    assert_eq!(asked(), 20);
    let pages = server.asked.lock().unwrap().iter().filter(|it| it.starts_with("GET")).count();
    assert_eq!(pages, 2, "a page is no longer than what was asked for");
}

#[test]
fn result_that_the_server_refuses_is_not_one() {
    let server = Scripts::new(|request| match request {
        _ if request.contains("/oauth2/token") => ok(TOKEN),
        _ if request.contains("/complete") => http(
            400,
            "",
            r#"{"title":"Validation Failed","detail":"no","errors":[{"field":"output/x","message":"m"}]}"#,
        ),
        _ if request.contains("/claim") => {
            ok(&format!(r#"{{"attempt":{{"taskId":"{ID}","attemptN":1}}}}"#))
        }
        _ if request.contains("/fail") => ok("{}"),
        _ => ok(&format!(r#"{{"items":[{}]}}"#, offered(ID))),
    });
    server.with(|remote| {
        let Ok(Answer::Claimed(Some(claimed))) = remote.ask(&claim(), TTL) else { panic!() };
        let completion = Completion { output: "done".to_owned(), usage: Usage::default() };
        let denied = remote.ask(&Request::Complete(claimed.holder, completion), TTL).unwrap_err();
        assert!(matches!(denied.answer, Answer::Refused) && denied.reason.contains("output/x"));
    });
    let asked = server.asked.lock().unwrap();
    let failed = asked.last().unwrap();
    assert!(failed.contains("/fail") && failed.contains("output_rejected_by_server"), "{failed}");
}
