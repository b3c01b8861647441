//! Accepting connections from the sandbox.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::LiveCredential;
use super::answer::last_of_connection;
use super::config::{ConfigError, GatewayConfig};
use super::forward::{Came, Forwarder};
use crate::held::HeldBytes;

/// Connections open at once. An agent has a handful; more wait in the listener's queue.
const MAX_CONNECTIONS: usize = 256;

/// Time for the head of a request, which is also how long an unused connection is kept.
const HEAD_LIMIT: Duration = Duration::from_secs(60);

/// Bytes read from the sandbox at once, at most; see the pool of upstream connections.
const MAX_BUFFER: usize = 128 * 1024;

/// Largest head of a request, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// Pause after `accept` has failed for a lack of something, such as descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The gateway of one session.
pub struct Gateway {
    config: Arc<GatewayConfig>,
}

impl Gateway {
    /// Checks a configuration. Opens and starts nothing.
    ///
    /// # Errors
    /// Returns [`ConfigError::Empty`], [`ConfigError::TwoRoutes`].
    pub fn new(config: GatewayConfig) -> Result<Self, ConfigError> {
        if config.routes.is_empty() || config.session_keys.is_empty() {
            return Err(ConfigError::Empty);
        }
        for (at, route) in config.routes.iter().enumerate() {
            if config.routes[..at].iter().any(|earlier| earlier.provider == route.provider) {
                return Err(ConfigError::TwoRoutes { provider: route.provider.clone() });
            }
        }
        Ok(Self { config: Arc::new(config) })
    }

    /// Returns where the credentials of the routes come from.
    pub(crate) fn credentials(&self) -> impl Iterator<Item = Arc<dyn LiveCredential>> {
        self.config.routes.iter().map(|route| Arc::clone(&route.credential.source))
    }

    /// Starts serving the listeners on the runtime of the calling task, until that runtime ends.
    ///
    /// # Errors
    /// Returns an error if a listener could not be registered.
    pub(crate) fn start(
        &self,
        listeners: &[std::net::TcpListener],
        acceptors: &mut JoinSet<()>,
        held: HeldBytes,
    ) -> io::Result<()> {
        let forwarder = Forwarder::new(Arc::clone(&self.config), held).map_err(io::Error::other)?;
        let forwarder = Arc::new(forwarder);
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        for listener in listeners {
            let listener = listener.try_clone()?;
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            acceptors.spawn(accept(listener, Arc::clone(&forwarder), Arc::clone(&places)));
        }
        tokio::spawn(tick());
        Ok(())
    }
}

/// Always has a timer pending that is due before any that a request sets. Otherwise each of
/// these is the earliest one, and tokio wakes its own driver for it: two system calls for each
/// request.
async fn tick() {
    let mut ticks = tokio::time::interval(HEAD_LIMIT / 2);
    loop {
        ticks.tick().await;
    }
}

async fn accept(listener: TcpListener, forwarder: Arc<Forwarder>, places: Arc<Semaphore>) {
    // The semaphore is never closed, so this ends with the runtime.
    while let Ok(permit) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(local) = stream.local_addr() else { continue };
                let came = Came { local: local.ip().to_canonical(), permit: Arc::new(permit) };
                tokio::spawn(connection(stream, Arc::clone(&forwarder), came));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn connection(stream: TcpStream, forwarder: Arc<Forwarder>, came: Came) {
    // A stream without it works too, only later.
    let _ = stream.set_nodelay(true);
    let handler = Arc::clone(&forwarder);
    let service = service_fn(move |request: Request<Incoming>| {
        let (forwarder, came) = (Arc::clone(&handler), came.clone());
        async move {
            let has_body = !request.body().is_end_stream();
            let response = forwarder.handle(request, came).await;
            Ok::<_, Infallible>(if has_body { last_of_connection(response) } else { response })
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    match served {
        // Refused already, by a bare status.
        Err(error) if error.is_parse() => forwarder.unreadable(&error),
        // What else breaks is the client's own connection: there is nobody left to notify.
        Ok(()) | Err(_) => {}
    }
}
