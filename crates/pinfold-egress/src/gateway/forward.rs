//! From an admitted request to the upstream and back.

use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::error::Elapsed;

use super::admit::{Target, admit, form_of, host_of};
use super::answer::{Body, health, own, relayed};
use super::body::Outbound;
use super::charge::Charge;
use super::cloud;
use super::config::{Api, GatewayConfig, Route, Upstream};
use super::credential::{Ready, Slot};
use super::form::{Dialect, Form};
use super::journal::{Event, shortened};
use super::judge::{Judge, Judged};
use super::live::{Lack, Renewed};
use super::meter::Meter;
use super::outgoing::outgoing_headers;
use super::path::{self, Kind};
use super::pool::{Pool, SendError};
use super::refusal::Refusal;
use super::rejected;
use super::sigv4::{Signer, Unsigned};
use super::tunnel;
use super::usage::{Reader, Readers};
use crate::held::HeldBytes;
use crate::upstream::{Connector, Offer};

/// How long an upstream may think before it answers at all. The clients of both APIs give up
/// after ten minutes by themselves.
const ANSWER_LIMIT: Duration = Duration::from_secs(15 * 60);

/// After how long the user is notified that a provider has not answered yet: as long as a connection may take.
const SLOW: Duration = Duration::from_secs(10);

/// The service of AWS that Bedrock's requests are signed for.
const BEDROCK_SERVICE: &str = "bedrock";

/// Everything the connections of one gateway share.
pub(super) struct Forwarder {
    config: Arc<GatewayConfig>,
    /// One for each route, in the same order.
    lines: Vec<Line>,
    held: HeldBytes,
    readers: Arc<Readers>,
    /// Whether the user knows that a provider takes long.
    is_reported_slow: AtomicBool,
}

/// What a route needs while the gateway runs.
struct Line {
    credential: Slot,
    connections: Pool,
    host: HeaderValue,
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
    /// Whether it counts as a request to a model.
    counts: bool,
    charge: Charge,
}

/// A request that went out, as far as counting its answer goes.
struct Counted {
    charge: Charge,
    /// Whether it counts as a request to a model.
    counts: bool,
    /// Bytes that were sent.
    sent: Arc<AtomicU64>,
}

impl Forwarder {
    /// Starts nothing; every connection is opened when a request needs it.
    pub(super) fn new(config: Arc<GatewayConfig>, held: HeldBytes) -> Result<Self, http::Error> {
        let connector = Connector::new(config.way.clone(), Offer::Http1);
        let line = |route: &Route| {
            let Upstream { scheme, authority, .. } = route.upstream.clone();
            let host = HeaderValue::from_str(authority.as_str())?;
            let to = Uri::builder().scheme(scheme).authority(authority).path_and_query("/");
            let connections = Pool::new(to.build()?, connector.clone());
            Ok::<_, http::Error>(Line { credential: Slot::default(), connections, host })
        };
        let lines = config.routes.iter().map(line).collect::<Result<_, _>>()?;
        let readers = Arc::new(Readers::new(held.clone()));
        Ok(Self { config, lines, held, readers, is_reported_slow: AtomicBool::new(false) })
    }

    /// Answers one request. What goes wrong is an answer too.
    pub(super) async fn handle(&self, request: Request<Incoming>, came: Came) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        let keys = &self.config.session_keys;
        let decided = match admit(&head, came.local, keys, &self.config.routes) {
            Ok(Target::Health) => return health(),
            Ok(Target::Provider { route, path }) => {
                self.prepare(&mut head, body, route, path).await
            }
            Err(refusal) => Err(refusal),
        };
        match decided {
            Ok((outgoing, body)) => self.send(outgoing, head, body, came).await,
            Err(refusal) => self.refuse(&head, refusal),
        }
    }

    /// Looks at what is asked for, gets the credential and records its use, in this order: nothing
    /// is recorded that cannot happen, and nothing happens that is not recorded.
    async fn prepare(
        &self,
        head: &mut Parts,
        body: Incoming,
        index: usize,
        path: PathAndQuery,
    ) -> Result<(Outgoing, Outbound), Refusal> {
        let route = &self.config.routes[index];
        let judge = Judge { route, budget: self.config.budget.as_ref(), held: &self.held };
        let Judged { body, path, counts, model, reserved } = judge.judge(head, body, path).await?;
        let charge = if counts {
            Charge::admitted(&self.config, &route.provider, model, reserved)?
        } else {
            Charge::none(&self.config, &route.provider)
        };
        match self.credential(head, index, &path).await {
            Ok(credential) => {
                Ok((Outgoing { route: index, path, credential, counts, charge }, body))
            }
            Err(refusal) => {
                charge.refund();
                Err(refusal)
            }
        }
    }

    /// Gets the credential and records its use.
    async fn credential(
        &self,
        head: &Parts,
        index: usize,
        path: &PathAndQuery,
    ) -> Result<Arc<Ready>, Refusal> {
        let route = &self.config.routes[index];
        let credential =
            self.lines[index].credential.get(route).await.map_err(|lack| lacking(lack, route))?;
        let event = Event::CredentialUse {
            provider: &route.provider,
            method: head.method.as_str(),
            host: route.upstream.host(),
            path: shortened(path.path()),
        };
        self.config.journal.record(&event).map_err(|_| Refusal::NotRecorded)?;
        Ok(credential)
    }

    async fn send(
        &self,
        outgoing: Outgoing,
        mut head: Parts,
        body: Outbound,
        came: Came,
    ) -> Response<Body> {
        let Outgoing { route: index, path, credential, counts, charge } = outgoing;
        let (route, line) = (&self.config.routes[index], &self.lines[index]);
        let wanted = tunnel::wanted(&head);
        let client_side: Option<OnUpgrade> = wanted.then(|| head.extensions.remove()).flatten();
        let (method, asked) = (head.method.clone(), path.clone());
        let sent = body.sent();
        let mut headers = outgoing_headers(head.headers, &route.account, &credential);
        if client_side.is_some() {
            headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        }
        let mut request = Request::new(body);
        *request.method_mut() = head.method;
        *request.uri_mut() = Uri::from(path);
        *request.headers_mut() = headers;
        request.headers_mut().insert(HOST, line.host.clone());
        if sign(route, &credential, &mut request).is_none() {
            charge.refund();
            let host = route.upstream.host().to_owned();
            return self.failed(route, &method, &asked, Refusal::NotSigned { host });
        }
        let answer = self.answer(route, counts, line.connections.send(request)).await;
        let response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                if let SendError::NoConnection(_) = error {
                    charge.refund();
                }
                return self.failed(route, &method, &asked, silent(route, error.to_string()));
            }
            Err(_) => {
                let minutes = ANSWER_LIMIT.as_secs() / 60;
                let cause = format!("timeout: no answer within {minutes} minutes");
                return self.failed(route, &method, &asked, silent(route, cause));
            }
        };
        match client_side {
            Some(client_side) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                charge.refund();
                return tunnel::join(client_side, response, &credential.secrets(), came.permit);
            }
            Some(_) | None => {}
        }
        let counted = Counted { charge, counts, sent };
        let meter = self.meter(route, asked.path(), &response, counted);
        if is_unauthorized(route, response.status())
            && let Some(refusal) = self.unauthorized(index, &credential).await
        {
            return self.failed(route, &method, &asked, refusal);
        }
        if counts && !counts_tokens(route, asked.path()) {
            self.report_status(route, response.status());
        }
        if rejected::is_error(response.status()) {
            return rejected::without_secrets(response, &credential.secrets()).await;
        }
        relayed(response, &credential.secrets(), meter)
    }

    /// Waits for the head of an answer. The user is notified once of a provider that takes long.
    async fn answer<A>(
        &self,
        route: &Route,
        counts: bool,
        answer: impl Future<Output = A>,
    ) -> Result<A, Elapsed> {
        let mut answer = pin!(answer);
        if let Ok(early) = tokio::time::timeout(SLOW, answer.as_mut()).await {
            return Ok(early);
        }
        if counts && !self.is_reported_slow.swap(true, Ordering::Relaxed) {
            let what = format!("has not answered for {} seconds; still waiting", SLOW.as_secs());
            self.report(route, &what);
        }
        tokio::time::timeout(ANSWER_LIMIT - SLOW, answer).await
    }

    /// Notifies the user of an answer that stops an agent until something changes.
    fn report_status(&self, route: &Route, status: StatusCode) {
        let cause = match status.as_u16() {
            401 | 403 => "the key or login is refused",
            402 => "no credit is left",
            404 => "there is no such path or model",
            429 => "a rate limit or quota is reached",
            500..=599 => "the provider fails or is busy",
            _ => return,
        };
        self.report(route, &format!("answered {}: {cause}", status.as_u16()));
    }

    fn report(&self, route: &Route, what: &str) {
        let (provider, host) = (&route.provider, route.upstream.authority.as_str());
        // If nobody can be notified, the answer itself says it.
        let _ = self.config.journal.record(&Event::ProviderFailed { provider, host, what });
    }

    /// Renews a login that the upstream has refused; what the client gets instead of its 401.
    async fn unauthorized(&self, index: usize, credential: &Ready) -> Option<Refusal> {
        let (route, line) = (&self.config.routes[index], &self.lines[index]);
        match line.credential.refused(route, credential).await {
            Ok(Renewed::Same) | Err(Lack::Missing | Lack::OtherKind) => None,
            Ok(Renewed::Fresh) => Some(Refusal::LoginRenewed { provider: route.provider.clone() }),
            Err(lack @ (Lack::Ended | Lack::NotNow(_))) => Some(lacking(lack, route)),
        }
    }

    /// Returns what counts an answer. One that is no success has used nothing, nor has what only counts
    /// tokens; what was reserved for an answer that cannot be read stays charged.
    fn meter(
        &self,
        route: &Route,
        path: &str,
        response: &Response<Incoming>,
        counted: Counted,
    ) -> Option<Meter> {
        let Counted { charge, counts, sent } = counted;
        let budget = &self.config.budget;
        let is_free = !response.status().is_success() || counts_tokens(route, path);
        if is_free || !(counts || budget.limits_answers()) {
            charge.refund();
            return None;
        }
        let headers = response.headers();
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let sealed = headers.get(CONTENT_ENCODING).is_some_and(|value| value != "identity");
        let readers = Arc::clone(&self.readers);
        let reader = Reader::new(content_type?, sealed, budget.limits_answers(), readers)?;
        let budget = Arc::clone(budget);
        let dialect =
            if reader.has_messages() { Dialect::EventStream } else { Dialect::of(route.api, path) };
        Some(Meter { reader, budget, dialect, is_model: counts, sent, charge })
    }

    /// Records a denial and answers with it. A denial that cannot be recorded is still one.
    fn refuse(&self, head: &Parts, refusal: Refusal) -> Response<Body> {
        let refusal = self.recorded(refusal, head.method.as_str(), host_of(head), head.uri.path());
        own(refusal.response(form_of(head, &refusal, &self.config.routes)))
    }

    /// Records that a request went out in vain and answers with it.
    fn failed(
        &self,
        route: &Route,
        method: &Method,
        path: &PathAndQuery,
        refusal: Refusal,
    ) -> Response<Body> {
        let host = route.upstream.host();
        let refusal = self.recorded(refusal, method.as_str(), host, path.path());
        own(refusal.response(Form::Api(route.api)))
    }

    /// Records what was no request at all; it is refused with this status already.
    pub(super) fn unreadable(&self, error: &hyper::Error) {
        let refusal =
            Refusal::Unreadable { too_large: error.is_parse_too_large(), what: error.to_string() };
        self.recorded(refusal, "", "", "");
    }

    /// Records a denial of a method, host and path; gives what to say.
    fn recorded(&self, refusal: Refusal, method: &str, host: &str, path: &str) -> Refusal {
        let event = Event::Denied {
            status: refusal.status().as_u16(),
            reason: &refusal.to_string(),
            method: shortened(method),
            host: shortened(host),
            path: shortened(path),
            for_user: refusal.is_for_user(),
        };
        let recorded = self.config.journal.record(&event);
        if recorded.is_ok() { refusal } else { Refusal::NotRecorded }
    }
}

/// Signs a request with keys of AWS's, if these are the credential. Returns `None` if that cannot be done.
fn sign(route: &Route, credential: &Ready, request: &mut Request<Outbound>) -> Option<()> {
    let Some(keys) = credential.aws() else { return Some(()) };
    let body = request.body().held()?;
    let region = &route.cloud.as_ref()?.region;
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let unsigned = Unsigned {
        method: &method,
        path: uri.path(),
        query: uri.query().unwrap_or_default(),
        body: &body,
    };
    let at = SystemTime::now();
    Signer { keys, region, service: BEDROCK_SERVICE, at }.sign(&unsigned, request.headers_mut())
}

/// Returns whether a path only counts tokens. Many servers that speak an API have no such path.
fn counts_tokens(route: &Route, path: &str) -> bool {
    match route.cloud {
        Some(_) => cloud::counts_tokens(path),
        None => path::kind(path) == Kind::Counting,
    }
}

/// Returns whether an answer says that the credential has ended: AWS says so with 403.
fn is_unauthorized(route: &Route, status: StatusCode) -> bool {
    status == StatusCode::UNAUTHORIZED
        || route.api == Api::Bedrock && status == StatusCode::FORBIDDEN
}

/// Returns what the sandbox gets when there is no credential.
fn lacking(lack: Lack, route: &Route) -> Refusal {
    let (provider, id) = (route.provider.clone(), route.credential.id.to_string());
    match lack {
        Lack::Missing => Refusal::NoCredential { provider, id },
        Lack::OtherKind => Refusal::OtherKind { provider, id },
        Lack::Ended => Refusal::LoginEnded { provider },
        Lack::NotNow(cause) => Refusal::LoginNotNow { provider, cause },
    }
}

/// Returns what the sandbox gets when the upstream gave no answer.
fn silent(route: &Route, cause: String) -> Refusal {
    let (provider, host) = (route.provider.clone(), route.upstream.authority.to_string());
    Refusal::Upstream { provider, host, cause }
}
