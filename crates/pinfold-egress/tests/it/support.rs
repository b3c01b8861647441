//! A gateway with a scripted upstream behind it and a raw client before it.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pinfold_egress::{
    Api, Budget, Credential, CredentialKind, Current, Egress, EphemeralKey, Event, Gateway,
    GatewayConfig, Journal, KeyShape, Lack, LiveCredential, LiveSecret, Over, ProviderId, Renewed,
    Route, StopHandle, TrustRoots, Upstream, stop_channel,
};
use pinfold_policy::prices::Tokens;
use pinfold_secrets::{Secret, SecretId};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

pub(crate) const REAL: &str = "sk-ant-api03-the-real-key";

/// No step of any test takes this long; what does is a hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// Remembers every event, or fails when the test says so.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) events: Mutex<Vec<String>>,
    pub(crate) shown: Mutex<Vec<String>>,
    pub(crate) failing: AtomicBool,
}

impl Journal for Recorder {
    fn record(&self, event: &Event<'_>) -> io::Result<()> {
        if self.failing.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let line = match event {
            Event::CredentialUse { provider, method, host, path } => {
                format!("use {provider} {method} {host} {path}")
            }
            Event::Denied { status, method, host, path, .. } => {
                format!("denied {status} {method} {host} {path}")
            }
            Event::Usage { provider, model, tokens, estimated, .. } => {
                let Tokens { input, output, .. } = tokens;
                let about = if *estimated { " estimated" } else { "" };
                format!("usage {provider} {model} {input} {output}{about}")
            }
            // Shown and not recorded.
            Event::ProviderFailed { provider, what, .. } => {
                self.shown.lock().unwrap().push(format!("{provider} {what}"));
                return Ok(());
            }
            _ => panic!("an event that no test knows"),
        };
        self.events.lock().unwrap().push(line);
        Ok(())
    }
}

impl Recorder {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }
}

/// Limits nothing.
pub(crate) struct NoBudget;

impl Budget for NoBudget {
    fn needs_model(&self) -> bool {
        false
    }

    fn limits_requests(&self) -> bool {
        false
    }

    fn limits_answers(&self) -> bool {
        false
    }

    fn admit(&self, _: Option<&str>, _: &Tokens) -> Result<(), Over> {
        Ok(())
    }

    fn spend(&self, _: Option<&str>, _: &Tokens, _: &Tokens) -> Result<(), Over> {
        Ok(())
    }

    fn release(&self, _: Option<&str>, _: &Tokens) {}

    fn cost(&self, _: &str, _: &Tokens) -> Option<u64> {
        None
    }
}

/// A gateway on a thread of its own.
pub(crate) struct Pen {
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
    pub(crate) journal: Arc<Recorder>,
    _stop: StopHandle,
}

impl Pen {
    /// Before one plain upstream that speaks Anthropic's API.
    pub(crate) fn before(upstream: SocketAddr) -> Self {
        Self::with(vec![route("anthropic", &format!("http://{upstream}"))], TrustRoots::System)
    }

    pub(crate) fn with(routes: Vec<Route>, roots: TrustRoots) -> Self {
        Self::under(Arc::new(NoBudget), routes, roots)
    }

    pub(crate) fn under(budget: Arc<dyn Budget>, routes: Vec<Route>, roots: TrustRoots) -> Self {
        let key = EphemeralKey::generate(KeyShape::AnthropicApiKey).unwrap();
        let journal = Arc::new(Recorder::default());
        let gateway = Gateway::new(GatewayConfig {
            session_keys: vec![key.clone()],
            routes,
            journal: journal.clone(),
            budget,
            way: roots.into(),
        });
        let gateway = gateway.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = stop_channel();
        let egress = Egress { gateway: Some((gateway, vec![listener])), ..Egress::default() };
        thread::spawn(move || egress.serve(stopped));
        Self { address, key: key.expose().to_owned(), journal, _stop: stop }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes as they are and reads until the gateway closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The gateway may refuse and close before everything is sent.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// One GET with the right key and further header lines.
    pub(crate) fn get(&self, path: &str, headers: &str) -> String {
        let key = &self.key;
        self.raw(
            format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\n{headers}\
                 Connection: close\r\n\r\n"
            )
            .as_bytes(),
        )
    }
}

pub(crate) fn route(provider: &str, upstream: &str) -> Route {
    Route {
        provider: ProviderId::new(provider).unwrap(),
        api: Api::Anthropic,
        upstream: Upstream::parse(upstream).unwrap(),
        credential: credential(CredentialKind::ApiKey, Arc::new(|| Ok(secret(REAL)))),
        models: None,
        account: Vec::new(),
        cloud: None,
    }
}

/// Gives a secret.
pub(crate) type Give = Arc<dyn Fn() -> Result<Secret, pinfold_secrets::Error> + Send + Sync>;

pub(crate) fn credential(kind: CredentialKind, give: Give) -> Credential {
    let id = SecretId::new("anthropic").unwrap();
    Credential {
        kind,
        id,
        account_header: None,
        key_header: None,
        source: Arc::new(Given { kind, give }),
    }
}

/// A secret that never changes by itself.
struct Given {
    kind: CredentialKind,
    give: Give,
}

impl LiveSecret for Given {
    fn stamp(&self) -> u64 {
        0
    }

    fn value(&self) -> Result<Secret, pinfold_secrets::Error> {
        (self.give)()
    }
}

impl LiveCredential for Given {
    fn current(&self) -> Result<Current, Lack> {
        let secret = (self.give)().map_err(|_| Lack::Missing)?;
        Ok(Current { secret, kind: self.kind, account: None, times: None })
    }

    fn renew(&self, _: Option<&Secret>) -> Result<Renewed, Lack> {
        Ok(Renewed::Same)
    }

    fn finish(&self) {}
}

pub(crate) fn secret(value: &str) -> Secret {
    Secret::from_bytes(value.as_bytes().to_vec()).unwrap_or_else(|error| panic!("{error}"))
}

/// A server made of a function that is given each connection.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn start(
        serve: impl Fn(BufReader<TcpStream>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (serve, counter) = (Arc::new(serve), Arc::clone(&connections));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, serve) = (stream.unwrap(), Arc::clone(&serve));
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                // How a connection ends is what the test sees at the other end.
                thread::spawn(move || serve(BufReader::new(stream)));
            }
        });
        Self { address, connections }
    }

    /// Gives every request the same answer, `Content-Length` included, and remembers them.
    pub(crate) fn answering(answer: &'static str) -> (Self, Arc<Mutex<Vec<String>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let remember = Arc::clone(&seen);
        let server = Self::start(move |mut stream| {
            loop {
                let request = read_request(&mut stream)?;
                remember.lock().unwrap().push(request);
                stream.get_mut().write_all(answer.as_bytes())?;
            }
        });
        (server, seen)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Reads the head of a message, up to and with the empty line.
pub(crate) fn read_head(stream: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

/// Reads a request with the body that its head announces.
pub(crate) fn read_request(stream: &mut impl BufRead) -> io::Result<String> {
    let mut request = read_head(stream)?;
    if request.contains("transfer-encoding: chunked") {
        while !request.ends_with("0\r\n\r\n") {
            stream.read_line(&mut request)?;
        }
    } else if let Some(length) = header(&request, "content-length") {
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body)?;
        request.push_str(&String::from_utf8_lossy(&body));
    }
    Ok(request)
}

/// The value of a header in the text of a message.
pub(crate) fn header<'m>(message: &'m str, name: &str) -> Option<&'m str> {
    let head = message.split("\r\n\r\n").next()?;
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

pub(crate) fn status(message: &str) -> u16 {
    let code = message.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: `{message}`"));
    code.parse().unwrap()
}

/// The body of a message, as JSON.
pub(crate) fn json(message: &str) -> serde_json::Value {
    serde_json::from_str(message.split("\r\n\r\n").nth(1).unwrap()).unwrap()
}

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A certificate for `localhost`, as a server uses it and as a client trusts it.
pub(crate) fn certified(protocols: &[&str]) -> (Arc<ServerConfig>, TrustRoots) {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = certified.cert.der().clone();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    (Arc::new(config), TrustRoots::Only(vec![certificate.to_vec()]))
}
