//! A login's server: gives a new access token for a refresh token, and refuses the old one from
//! then on, as the strictest of them do (RFC 9700, 4.14.2).

use std::io::{self, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{self, After, Answer, Incoming};

/// The first refresh token that the server knows.
pub const FIRST_REFRESH: &str = "sk-ant-ort01-refresh-0";

/// A login's server on 127.0.0.1. It serves until the process ends.
#[derive(Debug, Clone)]
pub struct TokenServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    given: usize,
    refusals: usize,
    asked: Vec<Value>,
    fail: usize,
    lives: u64,
    pause: Duration,
}

impl TokenServer {
    /// Starts on a free port; its tokens live for an hour.
    ///
    /// # Errors
    /// Returns an error if the port cannot be opened.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (given, refusals, asked, fail) = (0, 0, Vec::new(), 0);
        let state = State { given, refusals, asked, fail, lives: 3600, pause: Duration::ZERO };
        let server = Self { address, state: Arc::new(Mutex::new(state)) };
        let serving = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = serving.clone();
                // A connection that breaks is the client's affair.
                thread::spawn(move || server.serve(stream).unwrap_or_default());
            }
        });
        Ok(server)
    }

    /// Returns the token end point.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/v1/oauth/token", self.address)
    }

    /// Returns the access token of a turn; the first refresh gives turn 1.
    #[must_use]
    pub fn access(turn: usize) -> String {
        format!("sk-ant-oat01-access-{turn}")
    }

    /// Returns how many tokens were given.
    #[must_use]
    pub fn given(&self) -> usize {
        self.state().given
    }

    /// Returns how many refresh tokens were refused.
    #[must_use]
    pub fn refusals(&self) -> usize {
        self.state().refusals
    }

    /// Returns the fields of every question.
    #[must_use]
    pub fn asked(&self) -> Vec<Value> {
        self.state().asked.clone()
    }

    /// Answers the next questions with 503.
    pub fn fail(&self, times: usize) {
        self.state().fail = times;
    }

    /// Gives tokens that live for so many seconds.
    pub fn lives(&self, seconds: u64) {
        self.state().lives = seconds;
    }

    /// Waits before it answers, when the old token is refused already.
    pub fn pause(&self, pause: Duration) {
        self.state().pause = pause;
    }

    /// Ends the login: no refresh token is known any more.
    pub fn end_login(&self) {
        self.state().given += 1000;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut writer = stream.try_clone()?;
        let mut reader = BufReader::new(stream);
        while let Some(incoming) = Incoming::read(&mut reader)? {
            let answer = self.answer(&incoming);
            let pause = self.state().pause;
            thread::sleep(pause);
            if http::write(&mut writer, &incoming.method, answer)? == After::Close {
                break;
            }
        }
        Ok(())
    }

    fn answer(&self, incoming: &Incoming) -> Answer {
        let fields = fields(incoming);
        let mut state = self.state();
        state.asked.push(fields.clone());
        if state.fail > 0 {
            state.fail -= 1;
            return Answer::Json { status: 503, body: json!({ "error": "overloaded" }) };
        }
        let current = format!("sk-ant-ort01-refresh-{}", state.given);
        if fields["grant_type"] != "refresh_token" || fields["refresh_token"] != current.as_str() {
            state.refusals += 1;
            return Answer::Json { status: 400, body: json!({ "error": "invalid_grant" }) };
        }
        state.given += 1;
        let body = json!({
            "token_type": "Bearer",
            "access_token": Self::access(state.given),
            "refresh_token": format!("sk-ant-ort01-refresh-{}", state.given),
            "expires_in": state.lives,
        });
        Answer::Json { status: 200, body }
    }
}

/// Returns the fields of a question, which is JSON or a form.
fn fields(incoming: &Incoming) -> Value {
    if incoming.header("content-type").is_some_and(|kind| kind.contains("json")) {
        return serde_json::from_slice(&incoming.body).unwrap_or_default();
    }
    let body = String::from_utf8_lossy(&incoming.body);
    let pairs = body.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
