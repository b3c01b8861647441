//! What the network door costs: the same client talks to the same server directly, through a
//! tunnel, and where TLS is ended on the way, in turns, so that only ratios count. Other proxies
//! that are installed (squid, mitmproxy) are measured beside it.
//! `cargo bench -p pinfold-egress --bench door [-- [seconds] [word]]`.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pinfold_egress::{
    DoorConfig, DoorSockets, Egress, Event, Journal, NetworkDoor, SessionAuthority, StopHandle,
    TrustRoots, stop_channel,
};
use pinfold_policy::network::NetworkPolicy;
use pinfold_policy::origin::Valued;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of the long stream.
const STREAM: usize = 512 << 20;
/// Turns each way; the median of each is compared.
const TURNS: usize = 5;
/// Bytes of a question and of an answer.
const MESSAGE: usize = 100;

struct NoJournal;

impl Journal for NoJournal {
    fn record(&self, _: &Event<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// The servers, each on its port of loopback.
struct Servers {
    plain: u16,
    tls: u16,
    certificate: CertificateDer<'static>,
}

/// How the client gets to a server.
#[derive(Clone)]
struct Way {
    name: &'static str,
    proxy: Option<SocketAddr>,
    tls: TlsConnector,
}

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let seconds: f64 = arguments.iter().find_map(|one| one.parse().ok()).unwrap_or(1.0);
    let word = arguments.iter().find(|one| one.parse::<f64>().is_err());
    let wanted = |label: &str| word.is_none_or(|word| label.contains(word.as_str()));
    let servers = servers()?;
    let (tunnel, _keep_tunnel, names) = door(&servers, false)?;
    let (intercepted, _keep_intercepted, _) = door(&servers, true)?;
    let direct = Way { name: "direct", proxy: None, tls: tunnel.tls.clone() };
    let mut ways = vec![direct, tunnel];
    let peers = peers()?;
    for (name, address, _) in &peers {
        ways.push(Way { name, proxy: Some(*address), tls: ways[0].tls.clone() });
    }

    println!("{:<28} {:<12} {:>12} {:>8}", "part", "way", "median", "ratio");
    let length = Duration::from_secs_f64(seconds);
    for connections in [1, 16] {
        let label = format!("requests/s, {connections} connections");
        if wanted(&label) {
            compare(&label, &ways, |way| ask(way, servers.plain, connections, length))?;
        }
    }
    if wanted("stream") {
        compare("stream, MB/s", &ways, |way| stream(way, servers.plain))?;
    }
    ways.insert(2, intercepted);
    if wanted("https") {
        compare("https requests/s, 1", &ways, |way| get(way, servers.tls, length))?;
        compare("new TLS connections/s", &ways, |way| greet(way, servers.tls, length))?;
    }
    if wanted("names") {
        ask_names(names)?;
    }
    for (_, _, mut child) in peers {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

/// Takes turns, and prints the median of each way with its ratio to the first.
fn compare(
    label: &str,
    ways: &[Way],
    measure: impl Fn(&Way) -> Result<f64, Failed>,
) -> Result<(), Failed> {
    let mut samples = vec![Vec::new(); ways.len()];
    for _ in 0..TURNS {
        for (way, samples) in ways.iter().zip(&mut samples) {
            samples.push(measure(way)?);
        }
    }
    let mut first = None;
    for (way, samples) in ways.iter().zip(&mut samples) {
        samples.sort_by(f64::total_cmp);
        let median = samples[TURNS / 2];
        let ratio = median / *first.get_or_insert(median);
        println!("{label:<28} {:<12} {median:>12.0} {ratio:>8.2}", way.name);
    }
    Ok(())
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// A server that echoes short messages and streams on demand, and one that speaks https.
fn servers() -> Result<Servers, Failed> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = certified.cert.der().clone();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der())?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (plain, tls) = (listener()?, listener()?);
    let ports = (plain.local_addr()?.port(), tls.local_addr()?.port());
    thread::spawn(move || -> Result<(), Failed> {
        runtime()?.block_on(async {
            let (plain, tls) = (from_std(plain)?, from_std(tls)?);
            loop {
                tokio::select! {
                    accepted = plain.accept() => { tokio::spawn(echo(accepted?.0)); }
                    accepted = tls.accept() => {
                        tokio::spawn(https(acceptor.clone(), accepted?.0));
                    }
                }
            }
        })
    });
    Ok(Servers { plain: ports.0, tls: ports.1, certificate })
}

fn listener() -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn from_std(listener: TcpListener) -> io::Result<tokio::net::TcpListener> {
    tokio::net::TcpListener::from_std(listener)
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = [0; MESSAGE];
    loop {
        stream.read_exact(&mut message).await?;
        if message[0] == b's' {
            let chunk = vec![b'x'; 256 << 10];
            for _ in 0..STREAM / chunk.len() {
                stream.write_all(&chunk).await?;
            }
        } else {
            stream.write_all(&message).await?;
        }
    }
}

async fn https(acceptor: TlsAcceptor, stream: TcpStream) -> Result<(), Failed> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let service = service_fn(|_| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(&[b'x'; MESSAGE]))))
    });
    hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await?;
    Ok(())
}

/// A door on a thread of its own, the handle that keeps it, and where it answers names.
fn door(servers: &Servers, intercept: bool) -> Result<(Way, StopHandle, SocketAddr), Failed> {
    let rules = [servers.plain, servers.tls].map(|port| format!("localhost:{port}"));
    let rules = || rules.iter().map(|rule| Ok(Valued::default_of(rule.parse()?)));
    let mut policy = NetworkPolicy {
        allow: rules().collect::<Result<_, Failed>>()?,
        internal: rules().collect::<Result<_, Failed>>()?,
        ..NetworkPolicy::default()
    };
    let authority = SessionAuthority::generate()?;
    let mut roots = RootCertStore::empty();
    roots.add(servers.certificate.clone())?;
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes())?)?;
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    if intercept {
        policy.intercept.push(Valued::default_of("localhost".parse()?));
    }
    let outward = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let names = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let (address, asked) = (outward.local_addr()?, names.local_addr()?);
    let config = DoorConfig {
        policy,
        journal: Arc::new(NoJournal),
        authority: Some(authority),
        secrets: Vec::new(),
        way: TrustRoots::Only(vec![servers.certificate.to_vec()]).into(),
    };
    let (door, _) = NetworkDoor::new(config, DoorSockets { names, outward: vec![outward] });
    let (stop, stopped) = stop_channel();
    thread::spawn(move || Egress { door: Some(door), ..Egress::default() }.serve(stopped));
    let name = if intercept { "intercepted" } else { "tunnel" };
    let tls = TlsConnector::from(Arc::new(client));
    Ok((Way { name, proxy: Some(address), tls }, stop, asked))
}

/// Other proxies of this machine, each started with its least configuration.
fn peers() -> Result<Vec<(&'static str, SocketAddr, Child)>, Failed> {
    let mut peers = Vec::new();
    let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr();
    let squid = free()?;
    let configuration = tempfile::Builder::new().prefix("squid").tempdir()?.keep();
    let file = configuration.join("squid.conf");
    std::fs::write(
        &file,
        format!(
            "http_port {squid}\nacl all_ports port 1-65535\nhttp_access allow all\ncache deny all\n\
             access_log none\ncache_log {0}/cache.log\npid_filename none\ncoredump_dir {0}\n",
            configuration.display()
        ),
    )?;
    let mitm = free()?;
    let mitm_arguments = [
        "--quiet",
        "--set",
        "ssl_insecure=true",
        "--listen-host",
        "127.0.0.1",
        "--ignore-hosts",
        ".*",
        "--listen-port",
    ];
    let wanted = [
        ("squid", squid, vec!["-N".to_owned(), "-f".to_owned(), file.display().to_string()]),
        ("mitmdump", mitm, {
            let mut words: Vec<String> = mitm_arguments.map(str::to_owned).to_vec();
            words.push(mitm.port().to_string());
            words
        }),
    ];
    for (name, address, arguments) in wanted {
        let mut command = program(name);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            println!("{name} is not installed: not compared");
            continue;
        };
        if is_up(address) {
            peers.push((name, address, child));
        } else {
            println!("{name} does not start: not compared");
        }
    }
    Ok(peers)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark starts what it compares")]
fn program(name: &str) -> Command {
    Command::new(name)
}

fn is_up(address: SocketAddr) -> bool {
    (0..100).any(|_| {
        thread::sleep(Duration::from_millis(100));
        std::net::TcpStream::connect(address).is_ok()
    })
}

async fn connect(way: &Way, port: u16) -> Result<TcpStream, Failed> {
    let Some(proxy) = way.proxy else {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        return Ok(stream);
    };
    let mut stream = TcpStream::connect(proxy).await?;
    stream.set_nodelay(true)?;
    let request = format!("CONNECT localhost:{port} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await?);
    }
    if answer.get(9..12) != Some(b"200") {
        return Err(format!("{}: {}", way.name, answer.escape_ascii()).into());
    }
    Ok(stream)
}

/// Questions and answers each second.
fn ask(way: &Way, port: u16, connections: usize, length: Duration) -> Result<f64, Failed> {
    runtime()?.block_on(async {
        let streams = (0..connections).map(|_| connect(way, port));
        let streams = try_join_all(streams).await?;
        let started = Instant::now();
        let each = streams.into_iter().map(|mut stream| async move {
            let mut message = [b'p'; MESSAGE];
            let mut count = 0_u32;
            while started.elapsed() < length {
                stream.write_all(&message).await?;
                stream.read_exact(&mut message).await?;
                count += 1;
            }
            Ok::<_, io::Error>(count)
        });
        let total: u32 = try_join_all(each).await?.into_iter().sum();
        Ok(f64::from(total) / started.elapsed().as_secs_f64())
    })
}

/// Megabytes each second of one long answer.
fn stream(way: &Way, port: u16) -> Result<f64, Failed> {
    runtime()?.block_on(async {
        let mut stream = connect(way, port).await?;
        stream.write_all(&[b's'; MESSAGE]).await?;
        let mut buffer = vec![0; 256 << 10];
        let (started, mut left) = (Instant::now(), STREAM);
        while left > 0 {
            left -= stream.read(&mut buffer).await?.min(left);
        }
        Ok(STREAM as f64 / 1e6 / started.elapsed().as_secs_f64())
    })
}

async fn client(way: &Way, port: u16) -> Result<SendRequest<Full<Bytes>>, Failed> {
    let stream = connect(way, port).await?;
    let stream = way.tls.connect(ServerName::try_from("localhost")?, stream).await?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn one(sender: &mut SendRequest<Full<Bytes>>, port: u16) -> Result<(), Failed> {
    let request = Request::get("/").header("host", format!("localhost:{port}"));
    sender.ready().await?;
    let response = sender.send_request(request.body(Full::default())?).await?;
    if !response.status().is_success() {
        return Err(format!("answered {}", response.status()).into());
    }
    response.into_body().collect().await?;
    Ok(())
}

/// Requests each second on one connection.
fn get(way: &Way, port: u16, length: Duration) -> Result<f64, Failed> {
    runtime()?.block_on(async {
        let mut sender = client(way, port).await?;
        let (started, mut count) = (Instant::now(), 0_u32);
        while started.elapsed() < length {
            one(&mut sender, port).await?;
            count += 1;
        }
        Ok(f64::from(count) / started.elapsed().as_secs_f64())
    })
}

/// Connections each second, each with one request.
fn greet(way: &Way, port: u16, length: Duration) -> Result<f64, Failed> {
    runtime()?.block_on(async {
        let (started, mut count) = (Instant::now(), 0_u32);
        while started.elapsed() < length {
            one(&mut client(way, port).await?, port).await?;
            count += 1;
        }
        Ok(f64::from(count) / started.elapsed().as_secs_f64())
    })
}

/// The median time of an answer about a name that is refused.
fn ask_names(door: SocketAddr) -> Result<(), Failed> {
    const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01";
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut times = Vec::new();
    let mut buffer = [0; 1500];
    for _ in 0..10_000 {
        let started = Instant::now();
        socket.send_to(QUESTION, door)?;
        socket.recv_from(&mut buffer)?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    println!("names, p50 {:?}, p99 {:?}", times[5_000], times[9_900]);
    Ok(())
}
