//! A server, and clients that speak to it over a socket.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pinfold_content::{Cid, Uuid, Value, read};
use pinfold_moltnet::{Agent, Agents, NewAgent, Profile, PublicKey, Scope, Server, ServerConfig};
use pinfold_tasks::{Clock, SqliteStore, Timestamp};
use tempfile::TempDir;

pub(crate) const DIARY: &str = "22222222-2222-4222-8222-222222222222";
pub(crate) const TEAM: &str = "11111111-1111-4111-8111-111111111111";

/// A clock that tests move.
#[derive(Clone)]
pub(crate) struct TestClock(Arc<AtomicU64>);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        // A millisecond for each transaction, so that times differ.
        Timestamp::from_millis(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// A server that ends with the test's process.
pub(crate) struct Scene {
    pub(crate) address: SocketAddr,
    pub(crate) agents: Agents,
    pub(crate) directory: TempDir,
    clock: TestClock,
}

/// An agent that speaks to the server.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
    pub(crate) agent: Agent,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        read(std::str::from_utf8(&self.body).unwrap()).unwrap_or(Value::Null)
    }

    /// Returns the value after it was checked that the request succeeded.
    pub(crate) fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.json());
        self.json()
    }

    /// Returns the status and the detail of an error.
    pub(crate) fn problem(&self) -> (u16, String) {
        let body = self.json();
        assert_eq!(body.get("status").and_then(Value::as_count), Some(self.status.into()));
        (self.status, body.text_of("detail").unwrap().into_owned())
    }

    /// Returns the status, and the fields with faults.
    pub(crate) fn fields(&self) -> (u16, Vec<String>) {
        let body = self.json();
        let errors = body.get("errors").and_then(Value::as_array).unwrap_or_default();
        let field = |error: &Value| error.text_of("field").unwrap().into_owned();
        (self.status, errors.iter().map(field).collect())
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::in_directory(tempfile::tempdir().unwrap())
    }

    /// Starts a server that finds what another one left.
    pub(crate) fn in_directory(directory: TempDir) -> Self {
        let agents = Agents::new(directory.path().join("agents.json"));
        let clock = TestClock(Arc::new(AtomicU64::new(1_800_000_000_000)));
        let config = ServerConfig {
            store: SqliteStore::in_memory(Box::new(clock.clone())).unwrap(),
            agents: agents.clone(),
            files: directory.path().join("artifacts"),
            profile: Some(Profile { provider: "x".to_owned(), model: "y".to_owned() }),
            tls: None,
        };
        let server = Server::bind("127.0.0.1:0".parse().unwrap(), config).unwrap();
        let address = server.address().unwrap();
        std::thread::spawn(move || server.run());
        Self { address, agents, directory, clock }
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub(crate) fn client(&self, name: &str) -> Client {
        self.client_of(name, TEAM, Scope::ALL, None)
    }

    pub(crate) fn client_of(
        &self,
        name: &str,
        team: &str,
        scopes: &[Scope],
        public_key: Option<PublicKey>,
    ) -> Client {
        let team = Some(team.parse::<Uuid>().unwrap());
        let new = NewAgent { name: name.to_owned(), team, scopes: scopes.to_vec(), public_key };
        let (agent, key) = self.agents.add(&new).unwrap();
        Client { address: self.address, key: key.to_string(), agent }
    }
}

impl Client {
    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Reply {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\n\
             content-length: {}\r\n{headers}\r\n",
            self.key,
            body.len()
        );
        raw(self.address, &[head.as_bytes(), body].concat())
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "", b"")
    }

    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> Reply {
        self.send(method, path, "content-type: application/json\r\n", body.as_bytes())
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Reply {
        self.call("POST", path, body)
    }

    /// Creates a task of freeform work, with more fields of the request, and returns its id.
    pub(crate) fn create(&self, more: &str) -> String {
        let body = format!(
            r#"{{"taskType":"freeform","diaryId":"{DIARY}","input":{{"brief":"x"}}{more}}}"#
        );
        self.post("/tasks", &body).ok().text_of("id").unwrap().into_owned()
    }

    pub(crate) fn claim(&self, task: &str) -> Reply {
        self.post(&format!("/tasks/{task}/claim"), "{}")
    }

    pub(crate) fn of_attempt(&self, task: &str, number: u32, what: &str, body: &str) -> Reply {
        self.post(&format!("/tasks/{task}/attempts/{number}/{what}"), body)
    }

    /// Claims a task and starts its attempt. Returns the attempt's number.
    pub(crate) fn begin(&self, task: &str) -> u32 {
        let claimed = self.claim(task).ok();
        let number = claimed.get("attempt").and_then(|it| it.get("attemptN")).unwrap();
        let number = u32::try_from(number.as_count().unwrap()).unwrap();
        self.of_attempt(task, number, "heartbeat", "{}").ok();
        number
    }

    pub(crate) fn task(&self, task: &str) -> Value {
        self.get(&format!("/tasks/{task}")).ok()
    }

    pub(crate) fn status(&self, task: &str) -> String {
        self.task(task).text_of("status").unwrap().into_owned()
    }

    /// Returns the body that completes a task of freeform work.
    pub(crate) fn result(&self, task: &str) -> String {
        let cid = self.task(task).text_of("inputCid").unwrap().into_owned();
        let output = format!(
            r#"{{"summary":"done","verification":{{"inputCid":"{cid}","results":[],"passed":true}}}}"#
        );
        completion(&output)
    }
}

/// Returns the body of a request that completes an attempt.
pub(crate) fn completion(output: &str) -> String {
    let cid = Cid::of_json(&read(output).unwrap());
    format!(
        r#"{{"output":{output},"outputCid":"{cid}","usage":{{"inputTokens":1,"outputTokens":2}}}}"#
    )
}

/// Sends bytes and returns what comes back.
pub(crate) fn raw(address: SocketAddr, bytes: &[u8]) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // A server that refuses a body may answer before it was sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap_or(answer.len());
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.get(end + 4..).unwrap_or_default().to_vec();
    Reply { status, head, body }
}
