//! Doors, and the least relays, each in a process of its own, so that its processor time, memory
//! and descriptors are not mixed with those of client and server.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;

use pinfold_egress::{
    Api, Budget, Credential, CredentialKind, Current, DoorConfig, DoorSockets, Egress,
    EphemeralKey, Event, Gateway, GatewayConfig, Journal, KeyShape, Lack, LiveCredential,
    LiveSecret, NetworkDoor, Over, ProviderId, Renewed, Route, SessionAuthority, TrustRoots,
    Upstream, stop_channel,
};
use pinfold_policy::network::NetworkPolicy;
use pinfold_policy::origin::Valued;
use pinfold_policy::prices::Tokens;
use pinfold_secrets::{Error, Secret, SecretId};

use super::servers::Servers;
use super::{Failed, floor};

/// A relay that runs.
pub(super) struct Relay {
    pub(super) child: Child,
    pub(super) proxy: SocketAddr,
    /// Of a door: where it answers about names, and its gateway with the key for it.
    pub(super) names: SocketAddr,
    pub(super) gateway: SocketAddr,
    pub(super) key: String,
    /// Of a door: the certificate of its session's authority.
    pub(super) authority: String,
}

impl Drop for Relay {
    fn drop(&mut self) {
        // It has ended already, or does now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a relay: `tunnel`, `intercepted`, `copy` or `splice`.
pub(super) fn start(kind: &str, servers: &Servers) -> Result<Relay, Failed> {
    let mut command = super::peers::program(&std::env::current_exe()?);
    command.args(["relay", kind, &servers.plain.to_string(), &servers.tls.to_string()]);
    command.arg(&servers.file).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut said = BufReader::new(child.stdout.take().ok_or("no output")?);
    let mut line = String::new();
    said.read_line(&mut line)?;
    let mut authority = String::new();
    said.read_to_string(&mut authority)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let [proxy, names, gateway, key] = words[..] else { return Err(line.into()) };
    let (proxy, names, gateway) = (proxy.parse()?, names.parse()?, gateway.parse()?);
    Ok(Relay { child, proxy, names, gateway, key: key.to_owned(), authority })
}

/// Runs the process of a relay, until its input ends.
pub(super) fn serve(arguments: &[String]) -> Result<(), Failed> {
    let [kind, plain, tls, file] = arguments else {
        return Err("relay KIND PORT PORT FILE".into());
    };
    let by = match kind.as_str() {
        "copy" => Some(floor::By::Copy),
        "splice" => Some(floor::By::Pipe),
        _ => None,
    };
    if let Some(by) = by {
        let proxy = floor::start(by)?;
        println!("{proxy} {proxy} {proxy} none");
    } else {
        let certificate = std::fs::read(file)?;
        let (egress, line, authority) =
            doors(kind == "intercepted", [plain.parse()?, tls.parse()?], &certificate)?;
        let (stop, stopped) = stop_channel();
        thread::spawn(move || egress.serve(stopped));
        // It serves until the process ends.
        std::mem::forget(stop);
        println!("{line}\n{authority}");
    }
    // The other side reads to the end.
    rustix::stdio::dup2_stdout(std::fs::File::open("/dev/null")?)?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

struct NoJournal;

impl Journal for NoJournal {
    fn record(&self, _: &Event<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// Makes all doors of a session, and returns where they are, and the certificate of its authority.
fn doors(
    intercept: bool,
    ports: [u16; 2],
    certificate: &[u8],
) -> Result<(Egress, String, String), Failed> {
    let hosts = ["localhost", "127.0.0.1"];
    let rules = hosts.iter().flat_map(|host| ports.map(|port| format!("{host}:{port}")));
    let rules: Vec<String> = rules.collect();
    let rules = || rules.iter().map(|rule| Ok(Valued::default_of(rule.parse()?)));
    let mut policy = NetworkPolicy {
        allow: rules().collect::<Result<_, Failed>>()?,
        internal: rules().collect::<Result<_, Failed>>()?,
        ..NetworkPolicy::default()
    };
    if intercept {
        policy.intercept.push(Valued::default_of("localhost".parse()?));
    }
    let authority = SessionAuthority::generate()?;
    let pem = authority.pem().to_owned();
    let roots = TrustRoots::Only(vec![certificate.to_vec()]);
    let loopback = (Ipv4Addr::LOCALHOST, 0);
    let (outward, names) = (TcpListener::bind(loopback)?, UdpSocket::bind(loopback)?);
    rustix::net::listen(&outward, 4096)?;
    let listener = TcpListener::bind(loopback)?;
    let key = EphemeralKey::generate(KeyShape::AnthropicApiKey)?;
    let line = format!(
        "{} {} {} {}",
        outward.local_addr()?,
        names.local_addr()?,
        listener.local_addr()?,
        key.expose()
    );
    let config = DoorConfig {
        policy,
        journal: Arc::new(NoJournal),
        authority: Some(authority),
        secrets: Vec::new(),
        way: roots.clone().into(),
        doorkeeper: None,
    };
    let (door, policy) = NetworkDoor::new(
        config,
        DoorSockets { names, outward: vec![outward], loopback: Vec::new() },
    );
    // A session keeps it, to change the rules.
    std::mem::forget(policy);
    let gateway = gateway(ports[1], key, roots)?;
    let egress =
        Egress { door: Some(door), gateway: Some((gateway, vec![listener])), ..Egress::default() };
    Ok((egress, line, pem))
}

fn gateway(port: u16, key: EphemeralKey, roots: TrustRoots) -> Result<Gateway, Failed> {
    let credential = Credential {
        kind: CredentialKind::ApiKey,
        id: SecretId::new("bench")?,
        account_header: None,
        key_header: None,
        source: Arc::new(Fixed),
    };
    let route = Route {
        provider: ProviderId::new("bench")?,
        api: Api::Anthropic,
        upstream: Upstream::parse(&format!("https://localhost:{port}"))?,
        credential,
        models: None,
        account: Vec::new(),
        cloud: None,
    };
    Ok(Gateway::new(GatewayConfig {
        session_keys: vec![key],
        routes: vec![route],
        journal: Arc::new(NoJournal),
        budget: Arc::new(NoLimit),
        way: roots.into(),
    })?)
}

struct Fixed;

impl LiveSecret for Fixed {
    fn stamp(&self) -> u64 {
        0
    }

    fn value(&self) -> Result<Secret, Error> {
        let id = SecretId::new("bench")?;
        let missing = |_| Error::Missing { id, looked: Vec::new() };
        Secret::from_bytes(b"a-key-for-nothing".to_vec()).map_err(missing)
    }
}

impl LiveCredential for Fixed {
    fn current(&self) -> Result<Current, Lack> {
        let secret = self.value().map_err(|_| Lack::Missing)?;
        Ok(Current { secret, kind: CredentialKind::ApiKey, account: None, times: None })
    }

    fn renew(&self, _: Option<&Secret>) -> Result<Renewed, Lack> {
        Ok(Renewed::Same)
    }

    fn finish(&self) {}
}

/// Counts everything and limits nothing.
struct NoLimit;

impl Budget for NoLimit {
    fn needs_model(&self) -> bool {
        false
    }

    fn limits_requests(&self) -> bool {
        false
    }

    fn limits_answers(&self) -> bool {
        true
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
