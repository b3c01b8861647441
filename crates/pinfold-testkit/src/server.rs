//! The server: one thread for each connection, and what they share.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::conversation::Api;
use crate::http::{self, After, Incoming};
use crate::record::Request;
use crate::route;
use crate::script::Script;
use parking_lot::{Condvar, Mutex, MutexGuard};

/// How a server is started.
#[derive(Debug, Default)]
pub struct Options {
    /// The port on 127.0.0.1; 0 picks a free one.
    pub port: u16,
    /// Answers 401 unless one of these is the credential; empty: any will do.
    pub require_keys: Vec<String>,
    /// A file that gets one line of JSON for each request.
    pub log: Option<File>,
}

/// A scripted stand-in for a model provider. It ends when it is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What the connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) script: Script,
    pub(crate) options: Options,
    state: Mutex<State>,
    arrived: Condvar,
    stopped: AtomicBool,
}

/// A fault and the place of the script where it happens.
pub(crate) type FaultKey = (&'static str, (Api, usize));

#[derive(Debug, Default)]
struct State {
    requests: Vec<Request>,
    faults: HashMap<FaultKey, u32>,
    connections: Vec<TcpStream>,
}

impl ModelServer {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// Returns an error if the port cannot be opened.
    pub fn start(script: Script) -> io::Result<Self> {
        Self::start_with(script, Options::default())
    }

    /// Starts, accepting only the given key.
    ///
    /// # Errors
    /// Returns an error if the port cannot be opened.
    pub fn require_key(script: Script, key: &str) -> io::Result<Self> {
        Self::start_with(
            script,
            Options { require_keys: vec![key.to_owned()], ..Options::default() },
        )
    }

    /// Starts with options.
    ///
    /// # Errors
    /// Returns an error if the port cannot be opened.
    pub fn start_with(script: Script, options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script,
            options,
            state: Mutex::default(),
            arrived: Condvar::new(),
            stopped: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { address, shared })
    }

    /// Returns where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `http://127.0.0.1:PORT`, without `/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// Waits until there are `count` requests, and gives all there are when time is up.
    #[must_use]
    pub fn wait_for_requests(&self, count: usize, patience: Duration) -> Vec<Request> {
        let end = Instant::now() + patience;
        let mut state = self.shared.state();
        while state.requests.len() < count {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let _ = self.shared.arrived.wait_for(&mut state, left);
        }
        state.requests.clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, which then sees the flag.
        drop(TcpStream::connect(self.address));
        for connection in &self.shared.state().connections {
            connection.shutdown(Shutdown::Both).unwrap_or_default();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns whether the fault is to happen once more; counts it if so.
    pub(crate) fn take_fault(&self, key: FaultKey, times: u32) -> bool {
        let mut state = self.state();
        let used = state.faults.entry(key).or_default();
        let more = *used < times;
        *used += u32::from(more);
        more
    }

    fn remember(&self, mut request: Request) -> io::Result<()> {
        let mut state = self.state();
        request.n = state.requests.len();
        if let Some(mut log) = self.options.log.as_ref() {
            let line = serde_json::to_string(&request).map_err(io::Error::other)?;
            log.write_all(format!("{line}\n").as_bytes())?;
        }
        state.requests.push(request);
        self.arrived.notify_all();
        Ok(())
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = Arc::clone(shared);
        // A connection that breaks is the client's affair: what arrived is on record.
        thread::spawn(move || serve(stream, &shared).unwrap_or_default());
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    shared.state().connections.push(stream.try_clone()?);
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some(incoming) = Incoming::read(&mut reader)? {
        let Incoming { method, target, headers, body } = &incoming;
        let mut record = Request::new(method, target, headers, body);
        let answer = route::answer(shared, &incoming, &mut record);
        record.status = answer.status();
        // Before the answer: who has seen the answer finds the request on record.
        shared.remember(record)?;
        let last = incoming.header("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"));
        if http::write(&mut writer, method, answer)? == After::Close || last {
            return writer.shutdown(Shutdown::Both);
        }
    }
    Ok(())
}
