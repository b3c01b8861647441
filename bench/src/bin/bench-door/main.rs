//! What the network door costs: the same client talks to the same server directly, through a
//! tunnel, and where TLS is ended on the way, in turns, so that only ratios count. For comparison:
//! the least that any relay can be on this machine, and other proxies that are installed.
//! `bench-door [seconds] [word]`, or `bench-door soak MINUTES`. `cargo xtask bench door` builds and runs it.
//!
//! Processor time is the relay's own, for each request or megabyte, and says more than the rate on
//! a machine that others use.

mod client;
mod floor;
mod many;
mod peers;
mod relay;
mod servers;
mod soak;
mod usage;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use client::Took;
use relay::Relay;
use servers::Servers;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of the long stream.
const STREAM: usize = 512 << 20;
/// Turns each way; the median of each is compared.
const TURNS: usize = 5;
/// Bytes of a question and of an answer.
const MESSAGE: usize = 100;

/// How the client gets to a server.
#[derive(Clone)]
struct Way {
    name: &'static str,
    proxy: Option<SocketAddr>,
    /// The process on the way.
    pid: Option<u32>,
    tls: TlsConnector,
    /// Whether it is somebody else's: what it does not stand is its own result.
    is_peer: bool,
}

impl Way {
    fn through(relay: &Relay, name: &'static str, servers: &Servers) -> Result<Self, Failed> {
        let authority = Some(relay.authority.as_str()).filter(|pem| !pem.is_empty());
        let tls = trusting(servers, authority)?;
        Ok(Self {
            name,
            proxy: Some(relay.proxy),
            pid: Some(relay.child.id()),
            tls,
            is_peer: false,
        })
    }
}

/// Returns a client's TLS that trusts the servers, and a session's authority.
fn trusting(servers: &Servers, authority: Option<&str>) -> Result<TlsConnector, Failed> {
    let mut roots = RootCertStore::empty();
    roots.add(servers.certificate.clone())?;
    if let Some(pem) = authority {
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes())?)?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == "relay" => return relay::serve(rest),
        Some((first, rest)) if first == "soak" => return soak::run(rest),
        _ => {}
    }
    let seconds: f64 = arguments.iter().find_map(|one| one.parse().ok()).unwrap_or(1.0);
    let word = arguments.iter().find(|one| one.parse::<f64>().is_err());
    let wanted = |label: &str| word.is_none_or(|word| label.contains(word.as_str()));
    let servers = servers::start()?;
    let (tunnel, ending) =
        (relay::start("tunnel", &servers)?, relay::start("intercepted", &servers)?);
    let least = [relay::start("copy", &servers)?, relay::start("splice", &servers)?];
    let intercepted = Way::through(&ending, "intercepted", &servers)?;
    let mut ways = vec![Way {
        name: "direct",
        proxy: None,
        pid: None,
        tls: trusting(&servers, None)?,
        is_peer: false,
    }];
    ways.push(Way::through(&tunnel, "tunnel", &servers)?);
    for (relay, name) in least.iter().zip(["least: copy", "least: splice"]) {
        ways.push(Way::through(relay, name, &servers)?);
    }
    let peers = peers::start()?;
    for peer in &peers {
        let (proxy, pid) = (Some(peer.proxy), Some(peer.child.id()));
        ways.push(Way { name: peer.name, proxy, pid, tls: ways[0].tls.clone(), is_peer: true });
    }

    println!("{:<28} {:<14} {:>10} {:>8} {:>12}", "part", "way", "median", "ratio", "processor µs");
    let length = Duration::from_secs_f64(seconds);
    for connections in [1, 16] {
        let label = format!("requests/s, {connections} connections");
        if wanted(&label) {
            compare(&label, &ways, |way| client::ask(way, servers.plain, connections, length))?;
        }
    }
    if wanted("stream") {
        compare("stream, MB/s", &ways, |way| client::stream(way, servers.plain))?;
    }
    let many = [ways[1].clone(), intercepted.clone()];
    ways.insert(2, intercepted);
    if wanted("https") {
        compare("https requests/s, 1", &ways, |way| client::get(way, servers.tls, length))?;
        compare("new TLS connections/s", &ways, |way| client::greet(way, servers.tls, length))?;
    }
    if wanted("names") {
        client::ask_names(tunnel.names)?;
    }
    if wanted("many") {
        many::run(&many, &servers)?;
    }
    Ok(())
}

/// Takes turns, and prints the median of each way with its ratio to the first, and the processor
/// time that the process on the way took for one.
fn compare(
    label: &str,
    ways: &[Way],
    measure: impl Fn(&Way) -> Result<Took, Failed>,
) -> Result<(), Failed> {
    let mut samples = vec![Vec::new(); ways.len()];
    let mut costs = vec![Vec::new(); ways.len()];
    let processor = |way: &Way| way.pid.map_or(Ok(0.0), usage::processor);
    for _ in 0..TURNS {
        for (at, way) in ways.iter().enumerate() {
            let before = processor(way)?;
            let took = match measure(way) {
                Err(error) if way.is_peer => {
                    println!("{label:<28} {:<14} gives up: {error}", way.name);
                    continue;
                }
                took => took?,
            };
            samples[at].push(took.what / took.seconds);
            costs[at].push((processor(way)? - before) * 1e6 / took.what);
        }
    }
    let mut first = None;
    for (at, way) in ways.iter().enumerate() {
        if samples[at].is_empty() {
            continue;
        }
        let (median, cost) = (median(&mut samples[at]), median(&mut costs[at]));
        let ratio = median / *first.get_or_insert(median);
        println!("{label:<28} {:<14} {median:>10.0} {ratio:>8.2} {cost:>12.1}", way.name);
    }
    Ok(())
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
