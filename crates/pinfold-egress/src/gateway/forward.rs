//! From an admitted request to the upstream and back.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HOST, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::OwnedSemaphorePermit;

use super::admit::{Target, admit, form_of, host_of};
use super::answer::{Body, health, own, relayed};
use super::config::{GatewayConfig, Route};
use super::credential::{NoCredential, Ready, Slot};
use super::headers::{strip_credentials, strip_hop_by_hop};
use super::journal::{Event, shortened};
use super::refusal::{Form, Refusal};
use super::tunnel;
use crate::upstream::{Connector, Failure, Offer};

/// How long an upstream may think before it answers at all. The clients of both APIs give up
/// after ten minutes by themselves.
const ANSWER_LIMIT: Duration = Duration::from_secs(15 * 60);

/// How long an unused connection to an upstream is kept.
const IDLE: Duration = Duration::from_secs(90);

/// Everything the connections of one gateway share.
pub(super) struct Forwarder {
    config: GatewayConfig,
    slots: Vec<Slot>,
    client: Client<Connector, Incoming>,
}

/// What is known about the connection a request came on.
#[derive(Clone)]
pub(super) struct Came {
    /// The address it was received on.
    pub(super) local: IpAddr,
    /// Its place among the connections that may be open, held as long as it is used.
    pub(super) permit: Arc<OwnedSemaphorePermit>,
}

/// What was decided about a request that goes out.
struct Outgoing {
    route: usize,
    path: PathAndQuery,
    credential: Arc<Ready>,
}

impl Forwarder {
    pub(super) fn new(config: GatewayConfig) -> Self {
        let connector = Connector::new(config.roots.clone(), Offer::Http1);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        let slots = config.routes.iter().map(|_| Slot::default()).collect();
        Self { config, slots, client }
    }

    /// Answers one request. What goes wrong is an answer too.
    pub(super) async fn handle(&self, request: Request<Incoming>, came: Came) -> Response<Body> {
        let (head, body) = request.into_parts();
        let keys = &self.config.session_keys;
        let decided = match admit(&head, came.local, keys, &self.config.routes) {
            Ok(Target::Health) => return health(),
            Ok(Target::Provider { route, path }) => self.prepare(&head, route, path).await,
            Err(refusal) => Err(refusal),
        };
        match decided {
            Ok(outgoing) => self.send(outgoing, head, body, came).await,
            Err(refusal) => self.refuse(&head, refusal),
        }
    }

    /// Gets the credential and records its use, in this order: nothing is recorded that cannot
    /// happen, and nothing happens that is not recorded.
    async fn prepare(
        &self,
        head: &Parts,
        index: usize,
        path: PathAndQuery,
    ) -> Result<Outgoing, Refusal> {
        let route = &self.config.routes[index];
        let credential =
            self.slots[index].get(route).await.map_err(|NoCredential| Refusal::NoCredential {
                provider: route.provider.clone(),
                id: route.credential.id.to_string(),
            })?;
        let event = Event::CredentialUse {
            provider: &route.provider,
            method: head.method.as_str(),
            host: route.upstream.host(),
            path: shortened(path.path()),
        };
        self.config.journal.record(&event).map_err(|_| Refusal::NotRecorded)?;
        Ok(Outgoing { route: index, path, credential })
    }

    async fn send(
        &self,
        outgoing: Outgoing,
        mut head: Parts,
        body: Incoming,
        came: Came,
    ) -> Response<Body> {
        let Outgoing { route: index, path, credential } = outgoing;
        let route = &self.config.routes[index];
        let client_side = tunnel::wanted(&head).then(|| head.extensions.remove()).flatten();
        let request = match outgoing_request(route, path, head, body, &credential, &client_side) {
            Ok(request) => request,
            Err(error) => return self.failed(route, error.to_string()),
        };
        let answer = tokio::time::timeout(ANSWER_LIMIT, self.client.request(request)).await;
        let response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return self.failed(route, in_words(&error)),
            Err(_) => return self.failed(route, "timeout: no answer".to_owned()),
        };
        if response.status() == StatusCode::UNAUTHORIZED {
            self.slots[index].forget(&credential).await;
        }
        match client_side {
            Some(client_side) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                tunnel::join(client_side, response, credential.secret(), came.permit)
            }
            _ => relayed(response, credential.secret()),
        }
    }

    /// Records a denial and answers with it. A denial that cannot be recorded is still one.
    fn refuse(&self, head: &Parts, refusal: Refusal) -> Response<Body> {
        let event = Event::Denied {
            status: refusal.status().as_u16(),
            reason: &refusal.to_string(),
            method: shortened(head.method.as_str()),
            host: shortened(host_of(head)),
            path: shortened(head.uri.path()),
        };
        let recorded = self.config.journal.record(&event);
        let refusal = if recorded.is_ok() { refusal } else { Refusal::NotRecorded };
        own(refusal.response(form_of(head, &refusal, &self.config.routes)))
    }

    fn failed(&self, route: &Route, cause: String) -> Response<Body> {
        let provider = route.provider.clone();
        let host = route.upstream.host().to_owned();
        own(Refusal::Upstream { provider, host, cause }.response(Form::Api(route.api)))
    }
}

/// The request as the upstream sees it: nothing of the inside's connection, none of its
/// credentials, and the real one last.
fn outgoing_request(
    route: &Route,
    path: PathAndQuery,
    head: Parts,
    body: Incoming,
    credential: &Ready,
    upgrade: &Option<OnUpgrade>,
) -> Result<Request<Incoming>, http::Error> {
    let uri = Uri::builder()
        .scheme(route.upstream.scheme.clone())
        .authority(route.upstream.authority.clone())
        .path_and_query(path)
        .build()?;
    let mut headers = head.headers;
    strip_hop_by_hop(&mut headers);
    strip_credentials(&mut headers);
    // The client puts the upstream's own in.
    headers.remove(HOST);
    credential.place(&mut headers);
    if upgrade.is_some() {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    let mut request = Request::new(body);
    *request.method_mut() = head.method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    Ok(request)
}

fn in_words(error: &Error) -> String {
    match Failure::behind(error) {
        Some(failure) => failure.to_string(),
        None => format!("the connection broke: {}", Failure::innermost(error)),
    }
}
