//! One client's connection over HTTP: each request is judged, changed and sent by itself.

use std::sync::Arc;

use http::header::{
    ACCEPT_ENCODING, CONTENT_TYPE, HOST, PROXY_AUTHORIZATION, SEC_WEBSOCKET_EXTENSIONS,
};
use http::request::Parts;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use pinfold_policy::network::{Endpoint, NetworkRule, Protocol, Refused};
use tokio::sync::Mutex;

use super::ask::Lease;
use super::message::{Body, is_address, relayed, rewrite, switch};
use super::place::{RequestBody, held_body, place};
use super::refusal::NoWay;
use super::scrub::READABLE;
use super::sender::Sender;
use super::shared::Shared;
use super::vault::Held;
use crate::gateway::{Event, is_websocket, shortened, strip_overrides};
use crate::upstream::{H2, HTTP1, UpstreamProxy, WANTS_PASSWORD, copy_of, is_silence};

/// Returns whether a proxy wants to know who asks.
fn wants_password(response: &Response<Incoming>) -> bool {
    response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED
}

/// One client's connection, with the upstream's that belongs to it.
pub(super) struct Line {
    shared: Arc<Shared>,
    /// The one host, unless every request names its own.
    fixed: Option<Endpoint>,
    /// Whether TLS is ended here, and begun again towards the server.
    secure: bool,
    open: Mutex<Option<Open>>,
    /// What was last connected to; unlike `open` it is never held for long.
    last: parking_lot::Mutex<Option<Endpoint>>,
}

struct Open {
    asked: Endpoint,
    /// Whether a request was sent on it before.
    used: bool,
    sender: Sender,
    /// Whether the other end is a proxy that passes requests on.
    is_proxy: bool,
    /// Lasts as long as the connection.
    _lease: Option<Lease>,
}

impl Line {
    pub(super) fn new(
        shared: &Arc<Shared>,
        fixed: Option<Endpoint>,
        secure: bool,
        sender: Option<Sender>,
    ) -> Self {
        let open = fixed.clone().zip(sender).map(|(asked, sender)| Open {
            asked,
            used: false,
            sender,
            is_proxy: false,
            _lease: None,
        });
        let (open, last) = (Mutex::new(open), parking_lot::Mutex::default());
        Self { shared: Arc::clone(shared), fixed, secure, open, last }
    }

    /// Waits until the policy no longer allows the host that was last connected to.
    pub(super) async fn until_forbidden(&self) {
        let mut policy = self.shared.policy.clone();
        while policy.changed().await.is_ok() {
            let current = self.last.lock().clone();
            let policy = policy.borrow_and_update();
            if current.is_some_and(|asked| policy.decide(&asked).is_err()) {
                return;
            }
        }
        // Nobody can change it any more.
        std::future::pending().await
    }

    /// Answers one request. What goes wrong is an answer too.
    pub(super) async fn handle(&self, mut request: Request<Incoming>) -> Response<Body> {
        // With the response the server's side of an upgrade is given away; take it first.
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        let kind = request.headers().get(CONTENT_TYPE).cloned();
        match self.forward(request, upgrade).await {
            Ok(response) => response,
            Err(no_way) => no_way.response_to(kind.as_ref()).map(Either::Left),
        }
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
        upgrade: Option<OnUpgrade>,
    ) -> Result<Response<Body>, NoWay> {
        let (mut head, body) = request.into_parts();
        let asked = self.asked(&head)?;
        // Until the connection that the request opens has one.
        let _lease = self.shared.decide(&asked).await?;
        self.check_request(&asked, &mut head)?;
        let upgrade = upgrade.filter(|_| is_websocket(&head));
        rewrite(&mut head, &asked, self.secure, upgrade.is_some())?;
        let secrets = if self.secure { self.shared.vault.secrets_for(&asked) } else { Vec::new() };
        let body = self.place(&asked, &secrets, &mut head, body).await?;
        let response = self.send(&asked, Request::from_parts(head, body)).await?;
        match upgrade {
            Some(client) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                Ok(switch(&self.shared, client, response, asked, secrets))
            }
            _ => relayed(response, secrets),
        }
    }

    /// Puts secrets in where their placeholders stand, and records each use before it happens.
    async fn place(
        &self,
        asked: &Endpoint,
        secrets: &[Arc<Held>],
        head: &mut Parts,
        body: Incoming,
    ) -> Result<RequestBody, NoWay> {
        let mut body = held_body(secrets, head, body, &self.shared.held).await?;
        let path = head.uri.path().to_owned();
        for held in secrets {
            let bytes = match &mut body {
                Either::Left(held) => Some(&mut held.bytes),
                Either::Right(_) => None,
            };
            let used = place(held, asked, head, bytes).await?;
            if used {
                let event = Event::SecretUse {
                    id: &held.rule.id,
                    method: head.method.as_str(),
                    asked: &asked.to_string(),
                    path: shortened(&path),
                };
                self.shared.journal.record(&event).map_err(|_| NoWay::NotRecorded)?;
                if held.git.is_some() {
                    // Two tokens cannot log in at once.
                    break;
                }
            }
        }
        if !secrets.is_empty() {
            if head.headers.contains_key(ACCEPT_ENCODING) {
                head.headers.insert(ACCEPT_ENCODING, READABLE);
            }
            // Frames could be compressed (RFC 7692), and not searched then.
            head.headers.remove(SEC_WEBSOCKET_EXTENSIONS);
        }
        Ok(match body {
            Either::Left(held) => Either::Left(Full::new(held.into_bytes())),
            Either::Right(body) => Either::Right(body),
        })
    }

    /// Returns the host of a request, which all places that can name it agree on.
    fn asked(&self, head: &Parts) -> Result<Endpoint, NoWay> {
        let (scheme, known) = if self.secure { (Scheme::HTTPS, 443) } else { (Scheme::HTTP, 80) };
        let malformed = NoWay::Malformed;
        if head.method == Method::CONNECT {
            return Err(malformed("CONNECT opens a connection of its own"));
        }
        let mut hosts = head.headers.get_all(HOST).into_iter();
        let host = hosts.next().map(|value| value.to_str().unwrap_or_default());
        if hosts.next().is_some() {
            return Err(malformed("two Host headers"));
        }
        if head.uri.scheme().is_some_and(|said| *said != scheme) {
            return Err(malformed("a URL of another scheme; https: is tunnelled with CONNECT"));
        }
        let authority = head.uri.authority().map(http::uri::Authority::as_str);
        let default = self.fixed.as_ref().map_or(known, |asked| asked.port);
        let read = |text: &str| {
            let endpoint = Endpoint::parse(text, Some(known));
            endpoint.map_err(|_| malformed("the host is not in its plain form"))
        };
        let in_url = authority.map(read).transpose()?;
        let in_header = host.map(read).transpose()?;
        let asked = match (&self.fixed, &in_url) {
            (Some(fixed), _) => fixed.clone(),
            (None, Some(in_url)) => in_url.clone(),
            (None, None) => return Err(malformed("a proxy's request names its host in its URL")),
        };
        for said in in_url.iter().chain(&in_header) {
            // A port that is left out is the connection's own.
            let same_port = said.port == asked.port || said.port == default || said.port == known;
            if said.host != asked.host && !is_address(&asked) || !same_port {
                return Err(self.shared.other_name(&asked, &said.to_string()));
            }
        }
        Ok(asked)
    }

    /// Holds method and path against the rules, as they are now. Where these decide, no header passes that
    /// names another method or path.
    fn check_request(&self, asked: &Endpoint, head: &mut Parts) -> Result<(), NoWay> {
        let policy = self.shared.policy();
        let rule = policy.decide(asked).map_err(|refused| self.shared.refuse(refused, None))?;
        let (method, path) = (head.method.as_str(), head.uri.path());
        if policy.allows_request(asked, method, path) {
            if policy.rules_for(asked).any(NetworkRule::looks_at_requests) {
                strip_overrides(&mut head.headers);
            }
            return Ok(());
        }
        Err(self.shared.refuse(policy.refused_request(asked, &rule.value), None))
    }

    async fn send(
        &self,
        asked: &Endpoint,
        mut request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, NoWay> {
        let broke = |error: &hyper::Error| {
            NoWay::Unreachable(format!("{asked} broke the connection: {error}"))
        };
        let is_http2 = request.version() == Version::HTTP_2;
        let mut open = self.open.lock().await;
        let usable = |open: &Open| open.asked == *asked && !open.sender.is_closed();
        if !open.as_ref().is_some_and(usable) {
            *open = Some(self.open(asked, is_http2).await?);
        }
        // A kept connection may turn out to be closed: once.
        for last in [false, true] {
            let Some(Open { sender, used, is_proxy, .. }) = open.as_mut() else { break };
            if *is_proxy {
                request = self.for_proxy(asked, request)?;
            }
            let copy = used.then(|| copy_of(&request, Either::Left(Full::default()))).flatten();
            *used = true;
            let mut error = match sender {
                Sender::Two(sender) => {
                    let mut sender = sender.clone();
                    drop(open);
                    return sender.send_request(request).await.map_err(|error| broke(&error));
                }
                Sender::One(sender) => {
                    // One that is closed gives the request back.
                    let _ = sender.ready().await;
                    match sender.try_send_request(request).await {
                        Ok(response) if *is_proxy && wants_password(&response) => {
                            return Err(NoWay::Unreachable(WANTS_PASSWORD.to_owned()));
                        }
                        Ok(response) => return Ok(response),
                        Err(error) => error,
                    }
                }
            };
            let copy = copy.filter(|_| is_silence(error.error()));
            match error.take_message().or(copy) {
                Some(unanswered) if !last => request = unanswered,
                _ => return Err(broke(&error.into_error())),
            }
            *open = Some(self.open(asked, is_http2).await?);
        }
        Err(NoWay::Unreachable(format!("{asked} closes every connection")))
    }

    async fn open(&self, asked: &Endpoint, is_http2: bool) -> Result<Open, NoWay> {
        let (protocol, _lease) = self.shared.admit(asked).await?;
        if protocol == Protocol::Tls && !self.secure {
            let refused = Refused::Protocol { asked: asked.clone(), expected: "TLS" };
            return Err(self.shared.refuse(refused, None));
        }
        let proxies = &self.shared.way.proxies;
        let in_clear = !self.secure && !is_http2;
        let proxy = proxies.request_to(&asked.host).filter(|_| in_clear);
        let upstream = match proxy {
            Some(proxy) => self.shared.dial_proxy(proxy, asked).await?,
            None => self.shared.dial(asked).await?,
        };
        let sender = if self.secure {
            let protocol = if is_http2 { H2 } else { HTTP1 };
            let upstream = self.shared.secure(upstream, asked, vec![protocol.to_vec()]).await?;
            Sender::open(upstream, is_http2).await
        } else {
            Sender::open(upstream, is_http2).await
        };
        let sender = sender.map_err(|error| NoWay::Unreachable(format!("{asked}: {error}")))?;
        *self.last.lock() = Some(asked.clone());
        let is_proxy = proxy.is_some();
        Ok(Open { asked: asked.clone(), used: false, sender, is_proxy, _lease })
    }

    /// Returns a request as a proxy is asked to pass it on (RFC 9112, 3.2.2).
    fn for_proxy(
        &self,
        asked: &Endpoint,
        mut request: Request<RequestBody>,
    ) -> Result<Request<RequestBody>, NoWay> {
        let malformed = |_| NoWay::Malformed("the request's target");
        let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        let whole = Uri::builder().scheme(Scheme::HTTP).authority(asked.to_string());
        *request.uri_mut() = whole.path_and_query(path.to_owned()).build().map_err(malformed)?;
        let proxy = self.shared.way.proxies.request_to(&asked.host);
        if let Some(authorization) = proxy.and_then(UpstreamProxy::authorization) {
            let mut value = HeaderValue::try_from(authorization)
                .map_err(|_| NoWay::Malformed("the proxy's password"))?;
            value.set_sensitive(true);
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        Ok(request)
    }
}
