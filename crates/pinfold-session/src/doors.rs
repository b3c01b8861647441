//! The session's doors: which there are, and what serves them.

pub(crate) mod certificates;
pub(crate) mod gateway;
pub(crate) mod gitconfig;
pub(crate) mod github;
mod live_secret;
pub(crate) mod memory;
mod placeholders;
pub(crate) mod publish;
pub(crate) mod questions;
pub(crate) mod records;
pub(crate) mod server;
pub(crate) mod ssh;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use pinfold_boundary::{Door, Doors, LaunchError, Mask};
use pinfold_egress::{
    DoorConfig, DoorSockets, Doorkeeper, Egress, Journal, NetworkDoor, PolicyHandle,
    SessionAuthority, TrustRoots, WayOut,
};
use pinfold_host::{Host, Refusal};
use pinfold_policy::settings::Settings;
use pinfold_terminal::notify;

use crate::RunError;

use certificates::Trust;
use gateway::Provider;
use publish::Sockets;
use records::Records;
use ssh::Ssh;

/// The port of the outward door. Like the gateway's it lies below 1024, so nothing inside can
/// take it.
const OUTWARD: u16 = 881;
/// The port of the domain name system (RFC 1035).
const NAMES: u16 = 53;

/// The proxy's address as programs are given it.
pub(crate) const PROXY_URL: &str = "http://127.0.0.1:881";
/// What programs reach without the proxy.
pub(crate) const NO_PROXY: &str = "localhost,127.0.0.1,::1,pinfold";

/// Returns the sockets that init opens. Where no host is allowed there is still somebody to say so, but
/// nothing is handed over: a connection to an address fails in the kernel.
///
/// # Errors
/// Refuses a service of this machine at a port that pinfold uses in the sandbox.
pub(crate) fn wanted(
    with_gateway: bool,
    lives_on: LivesOn,
    settings: &Settings,
    ssh: Option<&Ssh>,
) -> Result<Vec<Door>, RunError> {
    let policy = &settings.network;
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let gateway = with_gateway.then(|| Door::Listener(local(gateway::PORT)));
    let (names, outward) = if is_open(with_gateway, lives_on, settings) {
        (Some(Door::Listener(local(NAMES))), Door::Outward(OUTWARD))
    } else {
        (None, Door::Listener(local(OUTWARD)))
    };
    let ssh = ssh.map(|_| Ssh::door());
    let loopback = policy.loopback_ports();
    if let Some(own) = loopback.iter().find(|port| [gateway::PORT, OUTWARD, NAMES].contains(port)) {
        let what = format!("--allow-internal-host localhost:{own}: pinfold uses this port itself");
        let hint = "let the service listen at another port".to_owned();
        return Err(RunError::refused(what, Some(hint)));
    }
    let loopback = loopback.into_iter().map(|port| Door::Listener(local(port)));
    let doors = ssh.into_iter().chain(gateway).chain(loopback).chain([Door::Datagrams(NAMES)]);
    Ok(doors.chain(names).chain([outward]).collect())
}

/// Whether a session outlives the process that started it, or waits for commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LivesOn(pub(crate) bool);

/// Returns whether connections are handed over at all: where some host is allowed or asked about, and for agents and
/// sessions that live on, which live long enough for a rule to be added. In others only programs that
/// use the proxy reach what a later rule allows.
fn is_open(with_gateway: bool, lives_on: LivesOn, settings: &Settings) -> bool {
    let asks = settings.ask.connections.value;
    with_gateway || lives_on.0 || asks || !settings.network.is_empty()
}

/// What serves a session's doors, and what the sandbox is still to be given for them.
pub(crate) struct Opened {
    pub(crate) egress: Egress,
    /// Variables with placeholders, as `NAME=VALUE`.
    pub(crate) variables: Vec<Vec<u8>>,
    /// The trust stores that the session's own cover.
    pub(crate) masks: Vec<Mask>,
    /// Changes the policy while the session lives; or why nothing can be reached.
    pub(crate) policy: Result<PolicyHandle, Refusal>,
    /// Whether only programs that use a proxy reach what is allowed.
    pub(crate) by_proxy: bool,
    /// Where the doors ask for sockets of the sandbox's network.
    pub(crate) sockets: Option<Sockets>,
}

/// What stands behind the doors of a session.
pub(crate) struct Behind {
    /// The agent's model provider.
    pub(crate) provider: Option<Provider>,
    /// The key that signs.
    pub(crate) ssh: Option<Ssh>,
    /// Who is asked about connections that no rule names.
    pub(crate) doorkeeper: Option<Arc<dyn Doorkeeper>>,
}

/// Returns what a session has whose boundary opens no doors.
///
/// # Errors
/// Returns an error for a required secret that is not there.
fn closed(settings: &Settings, host: Host<'_>) -> Result<Opened, RunError> {
    let variables = placeholders::environment(&placeholders::place(settings, host)?);
    Ok(Opened {
        egress: Egress { gateway: None, door: None, ssh: None, publishing: None },
        variables,
        masks: Vec::new(),
        policy: Err(Refusal::new("its boundary has no network")),
        by_proxy: false,
        sockets: None,
    })
}

/// Puts together what serves the sockets that [`wanted`] asked for. Reads secrets, so init must
/// have been cloned.
///
/// # Errors
/// Returns an error for a required secret or a key that is not there, a proxy of the host that cannot be
/// used, or an init that sent other sockets.
pub(crate) fn open(
    doors: Doors,
    behind: Behind,
    settings: &Settings,
    host: Host<'_>,
    records: &Arc<Records>,
    trust: Option<&Trust>,
) -> Result<Opened, RunError> {
    if doors.sockets.is_empty() {
        return closed(settings, host);
    }
    let Behind { provider, ssh, doorkeeper } = behind;
    let journal = || Arc::clone(records) as Arc<dyn Journal>;
    let policy = &settings.network;
    let by_proxy = !doors.handed_over;
    let is_closed = provider.is_none() && policy.is_empty() && doorkeeper.is_none();
    if by_proxy && !is_closed {
        notify!(
            "pinfold: note: only programs that use a proxy reach the network in this run \
             (`pinfold doctor` says why)"
        );
    }
    let mut sockets = doors.sockets.into_iter();
    let mut next = || sockets.next().ok_or(LaunchError::Silent);
    let ssh = match ssh {
        Some(ssh) => Some(ssh.serve(UnixListener::from(next()?), journal())?),
        None => None,
    };
    let gateway = match provider {
        Some(provider) => {
            let listener = TcpListener::from(next()?);
            Some((provider.gateway(host, settings, journal())?, vec![listener]))
        }
        None => None,
    };
    let ports = policy.loopback_ports();
    let loopback = ports
        .iter()
        .map(|_| next().map(TcpListener::from))
        .collect::<Result<Vec<_>, LaunchError>>()?;
    let names = UdpSocket::from(next()?);
    let outward = sockets.map(TcpListener::from).collect();
    let secrets = placeholders::place(settings, host)?;
    let variables = placeholders::environment(&secrets);
    let (authority, masks) = trust.map(authority).transpose()?.unzip();
    let (way, unreachable) = way_out(trust.map(Trust::roots), is_closed)?;
    let config = DoorConfig {
        policy: policy.clone(),
        journal: journal(),
        authority,
        secrets,
        way,
        doorkeeper,
    };
    let (door, policy) = NetworkDoor::new(config, DoorSockets { names, outward, loopback });
    let published = match settings.publish.as_slice() {
        [] => None,
        ports => Some(publish::open(ports, journal())?),
    };
    let (publishing, sockets) = published.unzip();
    let egress = Egress { gateway, door: Some(door), ssh, publishing };
    let policy = unreachable.map_or(Ok(policy), Err);
    let masks = masks.unwrap_or_default();
    Ok(Opened { egress, variables, masks, sockets, policy, by_proxy })
}

/// Makes the authority of a session whose TLS ends outside, and the trust stores that have it.
fn authority(trust: &Trust) -> Result<(SessionAuthority, Vec<Mask>), RunError> {
    let authority = SessionAuthority::generate().map_err(|error| RunError::refused(error, None))?;
    let masks = trust.fill(&authority).map_err(RunError::System)?;
    Ok((authority, masks))
}

/// Returns how the host itself is left, with these roots if TLS ends outside, and why nothing can be reached.
///
/// # Errors
/// Returns an error for variables that cannot be used, if anything may be reached.
fn way_out(
    roots: Option<TrustRoots>,
    is_closed: bool,
) -> Result<(WayOut, Option<Refusal>), RunError> {
    match WayOut::from_environment() {
        // Where no TLS is ended outside, what variables name stays as it was read.
        Ok(WayOut { roots: named, proxies }) => {
            Ok((WayOut { roots: roots.unwrap_or(named), proxies }, None))
        }
        Err(error) => {
            let refusal = Refusal::new(&error).with_hint(error.hint());
            // Nothing is reached in this session, so what is wrong matters only once a rule is added.
            if is_closed { Ok((WayOut::default(), Some(refusal))) } else { Err(refusal.into()) }
        }
    }
}
