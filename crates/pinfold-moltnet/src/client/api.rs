//! Requests to an API that the user named: one server, short answers, no redirects.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use pinfold_egress::{Connector, Failure, Offer, WayOut, is_loopback};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// How long a whole exchange may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long an unused connection is kept. Nothing notices between two requests that the server has closed it, so it is
/// shorter than what servers allow.
const IDLE: Duration = Duration::from_secs(3);
const AGENT: &str = concat!("pinfold/", env!("CARGO_PKG_VERSION"));

/// A client of one API. What it is given for the server goes to no other: a redirect is an answer like any other.
pub(super) struct ApiClient {
    base: Uri,
    client: Client<Connector, Full<Bytes>>,
    runtime: Runtime,
}

/// The answer of an API.
#[derive(Debug)]
pub(super) struct ApiAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// Why an API gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// Its address is not one that requests may go to.
    #[error("{0}")]
    Address(&'static str),
    /// It cannot be reached, or the connection broke.
    #[error("{0}")]
    Unreachable(String),
    /// It answers too slowly.
    #[error("no answer in time")]
    Timeout,
    /// Its answer is larger than what is read.
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
}

impl ApiClient {
    /// Returns a client for the API at an address: https, or http towards this machine itself.
    ///
    /// # Errors
    /// Returns an error for another address, or if no runtime can be made.
    pub(super) fn new(base: &str, way: WayOut) -> io::Result<Self> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, ApiError::Address(why));
        let base: Uri = base
            .trim_end_matches('/')
            .parse()
            .map_err(|_| invalid("the address of the server is not a URL"))?;
        let authority = base.authority().ok_or_else(|| invalid("the address has no host"))?;
        if authority.as_str().contains('@') || base.query().is_some() {
            return Err(invalid("the address has a user, a password or a query"));
        }
        let is_local = base.scheme_str() == Some("http") && is_loopback(authority.host());
        if base.scheme_str() != Some("https") && !is_local {
            return Err(invalid("the address is neither https nor on this machine"));
        }
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(Connector::new(way, Offer::Http1));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { base, client, runtime })
    }

    /// Returns the scheme, host and port that requests go to.
    pub(super) fn origin(&self) -> String {
        let authority = self.base.authority().map_or("", |authority| authority.as_str());
        format!("{}://{authority}", self.base.scheme_str().unwrap_or_default())
    }

    /// Sends a request for a path, which begins with a slash, and returns the answer with at most so many bytes, if it comes
    /// until a moment. Several threads may do so at once.
    ///
    /// # Errors
    /// Returns an error if there is no whole answer; a status that is no success is an answer.
    pub(super) fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Vec<u8>,
        most: usize,
        until: Instant,
    ) -> Result<ApiAnswer, ApiError> {
        let address: Uri =
            format!("{}{}{path}", self.origin(), self.base.path().trim_end_matches('/'))
                .parse()
                .map_err(|_| ApiError::Address("an invalid path"))?;
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = address;
        *request.headers_mut() = headers;
        request.headers_mut().remove(HOST);
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(AGENT));
        let exchange = async {
            let response = self.client.request(request).await.map_err(|error| {
                let cause = Failure::behind(&error).map(ToString::to_string);
                ApiError::Unreachable(cause.unwrap_or_else(|| Failure::innermost(&error)))
            })?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, most)
                .collect()
                .await
                .map_err(|error| {
                    if error.is::<http_body_util::LengthLimitError>() {
                        ApiError::TooLarge(most)
                    } else {
                        ApiError::Unreachable("the connection broke".to_owned())
                    }
                })?
                .to_bytes()
                .to_vec();
            Ok(ApiAnswer { status: head.status, headers: head.headers, body })
        };
        let patience = until.saturating_duration_since(Instant::now()).min(PATIENCE);
        self.runtime
            .block_on(async { timeout(patience, exchange).await })
            .unwrap_or(Err(ApiError::Timeout))
    }
}
