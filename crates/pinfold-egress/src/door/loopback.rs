//! Services on the loopback interface of this machine, at the same ports of the sandbox's own.

use std::sync::Arc;

use pinfold_policy::network::{Endpoint, Host};
use tokio::net::{TcpListener, TcpStream};

use super::outward::{Admitted, accept_each, admitted};
use super::shared::Shared;
use super::{carry, explain};

/// Accepts until the runtime ends.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let (Ok(own), Ok(host)) = (listener.local_addr(), Host::localhost()) else { return };
    let asked = Endpoint::new(host, own.port());
    accept_each(&listener, |stream, place| {
        let (shared, asked) = (Arc::clone(&shared), asked.clone());
        async move {
            connection(stream, asked, &shared).await;
            drop(place);
        }
    })
    .await;
}

/// Carries one connection. Programs name the service as they like (`localhost`, `127.0.0.1`), and there is
/// only one at a port, so no name in TLS or in a request is compared, unless a rule decides by requests.
async fn connection(stream: TcpStream, asked: Endpoint, shared: &Arc<Shared>) {
    // A stream without it works too, only later.
    let _ = stream.set_nodelay(true);
    // What breaks from here on is the client's own connection: there is nobody left to notify.
    let _ = match admitted(shared, &asked).await {
        Ok(Admitted { protocol, upstream, lease: _lease }) => match upstream {
            Some(upstream) if !shared.looks_into(&asked) => {
                carry::pass(shared, stream, upstream, &asked).await
            }
            upstream => carry::carry(shared, stream, upstream, asked, protocol).await,
        },
        Err(no_way) => explain::turn_away(shared, stream, &asked, &no_way).await,
    };
}
