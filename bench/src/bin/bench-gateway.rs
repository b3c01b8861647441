//! What the gateway costs: the same client asks the same server with it and without it, in
//! turns, so that only ratios count. `bench-gateway [seconds] [word]`; `cargo xtask bench gateway` builds and runs it.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;
use http::header::CONTENT_LENGTH;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pinfold_egress::{
    Api, Budget, Credential, CredentialKind, Current, EphemeralKey, Event, Gateway, GatewayConfig,
    Journal, KeyShape, Lack, LiveCredential, LiveSecret, Over, ProviderId, Renewed, Route,
    TrustRoots, Upstream, stop_channel,
};
use pinfold_policy::prices::Tokens;
use pinfold_secrets::{Secret, SecretId};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::{TlsAcceptor, TlsConnector};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of the long stream.
const STREAM: usize = 256 << 20;
const CHUNK: usize = 64 << 10;
/// Turns each way; the median of each is compared.
const TURNS: usize = 5;

struct NoJournal;

impl Journal for NoJournal {
    fn record(&self, _: &Event<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// A way to the server.
#[derive(Clone)]
struct Way {
    address: SocketAddr,
    tls: Option<TlsConnector>,
    key: String,
}

fn main() -> Result<(), Failed> {
    // A number is the seconds of one part, a word selects parts.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(1.0);
    let word = arguments.iter().find(|argument| argument.parse::<f64>().is_err());
    let wanted = |label: &str| word.is_none_or(|word| label.contains(word.as_str()));
    println!("{:<34} {:>10} {:>10} {:>8}", "part", "direct", "gateway", "ratio");
    for scheme in ["http", "https"] {
        let (direct, gateway) = ways(scheme, None)?;
        for connections in [1, 16] {
            let label = format!("{scheme}, {connections} conn.");
            if wanted(&label) {
                let part = Duration::from_secs_f64(seconds);
                let pair = in_turns(&direct, &gateway, |way| requests(way, connections, part))?;
                show_requests(&label, pair);
            }
        }
        for path in ["/v1/chunked", "/v1/sized"] {
            let label = format!("{scheme}, stream {}", &path[4..]);
            if wanted(&label) {
                let pair = in_turns(&direct, &gateway, |way| stream(way, path))?;
                let [direct, gateway] = pair.map(|part| part.rate);
                row(&label, "MB/s", [direct, gateway], gateway / direct);
            }
        }
    }
    for (name, models) in [("any model", None), ("listed model", Some(vec!["m".to_owned()]))] {
        let label = format!("1 MiB sent, {name}");
        if wanted(&label) {
            let (direct, gateway) = ways("http", models)?;
            let part = Duration::from_secs_f64(seconds);
            let pair = in_turns(&direct, &gateway, |way| uploads(way, part))?;
            show_requests(&label, pair);
        }
    }
    Ok(())
}

fn show_requests(label: &str, pair: [Part; 2]) {
    let [direct, gateway] = pair.map(|part| part.rate);
    row(label, "requests/s", [direct, gateway], gateway / direct);
    for (name, times) in
        [("p50 µs", pair.map(|part| part.p50)), ("p99 µs", pair.map(|part| part.p99))]
    {
        let micros = times.map(|time| time.as_secs_f64() * 1e6);
        row(label, name, micros, micros[1] / micros[0]);
    }
}

fn row(label: &str, unit: &str, [direct, gateway]: [f64; 2], ratio: f64) {
    println!("{label:<23} {unit:<10} {direct:>10.0} {gateway:>10.0} {ratio:>8.2}");
}

/// What one part gave.
#[derive(Clone, Copy)]
struct Part {
    rate: f64,
    p50: Duration,
    p99: Duration,
}

fn in_turns(
    direct: &Way,
    gateway: &Way,
    measure: impl AsyncFn(Way) -> Result<Part, Failed>,
) -> Result<[Part; 2], Failed> {
    let runtime = runtime()?;
    let mut parts = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (way, parts) in [direct, gateway].into_iter().zip(&mut parts) {
            parts.push(runtime.block_on(measure(way.clone()))?);
        }
    }
    Ok(parts.map(|mut parts| {
        parts.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        parts[TURNS / 2]
    }))
}

/// Measures small requests, one after the other on each connection, which makes at least one.
async fn requests(way: Way, connections: usize, time: Duration) -> Result<Part, Failed> {
    let started = Instant::now();
    let worker = async || {
        let mut sender = connect(&way).await?;
        let mut latencies = Vec::new();
        loop {
            let at = Instant::now();
            let response = sender.send_request(request(&way, "/v1/messages")?).await?;
            response.into_body().collect().await?;
            latencies.push(at.elapsed());
            sender.ready().await?;
            if started.elapsed() >= time {
                return Ok::<_, Failed>(latencies);
            }
        }
    };
    let latencies = try_join_all((0..connections).map(|_| worker())).await?;
    Ok(part(latencies.into_iter().flatten().collect(), started.elapsed()))
}

/// Sums up the requests of one part: at least one.
fn part(mut latencies: Vec<Duration>, elapsed: Duration) -> Part {
    latencies.sort_unstable();
    let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    Part { rate: latencies.len() as f64 / elapsed.as_secs_f64(), p50: at(50), p99: at(99) }
}

/// Measures requests of a mebibyte, one after the other; at least one.
async fn uploads(way: Way, time: Duration) -> Result<Part, Failed> {
    let body = format!(r#"{{"model":"m","input":"{}"}}"#, "text \\n".repeat((1 << 20) / 7));
    let body = Bytes::from(body);
    let started = Instant::now();
    let mut sender = connect(&way).await?;
    let mut latencies = Vec::new();
    loop {
        let at = Instant::now();
        let request = Request::post("/v1/messages").header("host", "localhost");
        let request = request.header("content-type", "application/json");
        let request = request.header("x-api-key", &way.key).body(Full::new(body.clone()))?;
        let response = sender.send_request(request).await?;
        assert!(response.status().is_success(), "{}", response.status());
        response.into_body().collect().await?;
        latencies.push(at.elapsed());
        sender.ready().await?;
        if started.elapsed() >= time {
            return Ok(part(latencies, started.elapsed()));
        }
    }
}

/// Measures one long response.
async fn stream(way: Way, path: &str) -> Result<Part, Failed> {
    let mut sender = connect(&way).await?;
    let started = Instant::now();
    let mut body = sender.send_request(request(&way, path)?).await?.into_body();
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        received += frame?.data_ref().map_or(0, Bytes::len);
    }
    assert_eq!(received, STREAM);
    let elapsed = started.elapsed();
    Ok(Part { rate: received as f64 / 1e6 / elapsed.as_secs_f64(), p50: elapsed, p99: elapsed })
}

fn request(way: &Way, path: &str) -> Result<Request<Full<Bytes>>, Failed> {
    let body = Full::new(Bytes::from_static(&[b'x'; 300]));
    let request = Request::post(path.parse::<Uri>()?).header("host", "localhost");
    Ok(request.header("x-api-key", &way.key).body(body)?)
}

async fn connect(way: &Way) -> Result<SendRequest<Full<Bytes>>, Failed> {
    let tcp = tokio::net::TcpStream::connect(way.address).await?;
    tcp.set_nodelay(true)?;
    let sender = match &way.tls {
        Some(tls) => {
            let tls = tls.connect(ServerName::try_from("localhost")?, tcp).await?;
            let (sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
            tokio::spawn(connection);
            sender
        }
        None => {
            let (sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await?;
            tokio::spawn(connection);
            sender
        }
    };
    Ok(sender)
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Starts a server and a gateway before it, each on a thread of its own.
fn ways(scheme: &str, models: Option<Vec<String>>) -> Result<(Way, Way), Failed> {
    let tls = scheme == "https";
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate: CertificateDer<'static> = certified.cert.der().clone();
    let (acceptor, connector) = tls_ends(&certificate, certified.signing_key.serialize_der())?;

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let acceptor = tls.then_some(acceptor);
    let server = thread::Builder::new().name("server".to_owned());
    server.spawn(move || runtime()?.block_on(serve(listener, acceptor)))?;

    let key = EphemeralKey::generate(KeyShape::AnthropicApiKey)?;
    let upstream = Upstream::parse(&format!("{scheme}://localhost:{}", address.port()))?;
    let gateway = Gateway::new(GatewayConfig {
        session_keys: vec![key.clone()],
        routes: vec![Route {
            provider: ProviderId::new("anthropic")?,
            api: Api::Anthropic,
            upstream,
            credential: Credential {
                kind: CredentialKind::ApiKey,
                id: SecretId::new("anthropic")?,
                account_header: None,
                key_header: None,
                source: Arc::new(RealKey),
            },
            models,
            account: Vec::new(),
            cloud: None,
        }],
        journal: Arc::new(NoJournal),
        budget: Arc::new(NoBudget),
        way: TrustRoots::Only(vec![certificate.to_vec()]).into(),
    })?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let inside = listener.local_addr()?;
    let (stop, stopped) = stop_channel();
    thread::Builder::new().name("gateway".to_owned()).spawn(move || {
        let _held = stop;
        let egress = pinfold_egress::Egress {
            gateway: Some((gateway, vec![listener])),
            ..pinfold_egress::Egress::default()
        };
        egress.serve(stopped)
    })?;
    let direct = Way { address, tls: tls.then_some(connector), key: "sk-ant-direct".to_owned() };
    Ok((direct, Way { address: inside, tls: None, key: key.expose().to_owned() }))
}

/// Limits nothing.
struct NoBudget;

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

struct RealKey;

impl LiveSecret for RealKey {
    fn stamp(&self) -> u64 {
        0
    }

    fn value(&self) -> Result<Secret, pinfold_secrets::Error> {
        Ok(real_key())
    }
}

impl LiveCredential for RealKey {
    fn current(&self) -> Result<Current, Lack> {
        let kind = CredentialKind::ApiKey;
        Ok(Current { secret: real_key(), kind, account: None, times: None })
    }

    fn renew(&self, _: Option<&Secret>) -> Result<Renewed, Lack> {
        Ok(Renewed::Same)
    }

    fn finish(&self) {}
}

fn real_key() -> Secret {
    Secret::from_bytes(b"sk-ant-api03-benchmark".to_vec()).unwrap_or_else(|_| unreachable!())
}

fn tls_ends(
    certificate: &CertificateDer<'static>,
    key: Vec<u8>,
) -> Result<(TlsAcceptor, TlsConnector), Failed> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(key)?;
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((TlsAcceptor::from(Arc::new(server)), TlsConnector::from(Arc::new(client))))
}

async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (tcp, _) = listener.accept().await?;
        tcp.set_nodelay(true)?;
        let tls = tls.clone();
        tokio::spawn(async move {
            let server = hyper::server::conn::http1::Builder::new();
            match tls {
                Some(tls) => {
                    let io = TokioIo::new(tls.accept(tcp).await?);
                    server.serve_connection(io, service_fn(answer)).await?;
                }
                None => server.serve_connection(TokioIo::new(tcp), service_fn(answer)).await?,
            }
            Ok::<_, Failed>(())
        });
    }
}

async fn answer(
    request: Request<Incoming>,
) -> Result<Response<http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>>, Failed> {
    let path = request.uri().path().to_owned();
    request.into_body().collect().await?;
    let body = if path != "/v1/messages" {
        let chunk = Bytes::from(vec![b'x'; CHUNK]);
        let frames = (0..STREAM / CHUNK).map(move |_| Ok(Frame::data(chunk.clone())));
        StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync()
    } else {
        Full::new(Bytes::from_static(&[b'y'; 600])).boxed_unsync()
    };
    let mut response = Response::new(body);
    if path == "/v1/sized" {
        response.headers_mut().insert(CONTENT_LENGTH, STREAM.into());
    }
    Ok(response)
}
