//! The HTTP floor: connections, heads and bodies, all bounded.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION as CONNECTION_HEADER, CONTENT_TYPE, HeaderName, RETRY_AFTER,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::problem::{Kind, Problem};
use crate::server::sent::Sent;
use crate::server::shares::{Bodies, Share, Visitor, Visitors};
use pinfold_content::Value;

/// Connections open at once. A new one takes the place of the oldest one that has shown no key, or waits.
/// One agent has a quarter of them at most.
const MOST_CONNECTIONS: usize = 256;
/// Time for the head of a request, which is also how long an unused connection is kept.
const HEAD: Duration = Duration::from_secs(15);
/// Time for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for a body.
const BODY: Duration = Duration::from_secs(60);
/// How long a connection lasts, and how long its last request may then take.
const CONNECTION: Duration = Duration::from_secs(600);
const LAST_REQUEST: Duration = Duration::from_secs(90);
/// The largest head, in bytes.
const LARGEST_HEAD: usize = 32 << 10;
/// Pause after `accept` has failed for a lack of something, such as descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The head of a request.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(HeaderName, String)>,
    pub(crate) body: Vec<u8>,
}

/// What was decided by the head of a request.
pub(crate) struct Admission<T> {
    pub(crate) what: T,
    /// The agent whose key came; none if none is needed.
    pub(crate) agent: Option<String>,
    /// The most bytes that its body may have.
    pub(crate) most: usize,
    /// The most bytes that the answer usually has.
    pub(crate) answer: usize,
}

/// What answers requests. Both methods may take time: they run on threads of their own.
pub(crate) trait Handler: Send + Sync + 'static {
    /// What was decided by the head of a request.
    type Admitted: Send + 'static;

    /// Decides by the head of a request whether its body is read, and how much of it.
    fn admit(&self, head: &Head) -> Result<Admission<Self::Admitted>, Problem>;

    /// Answers a request.
    fn answer(&self, head: &Head, admitted: Self::Admitted, body: &[u8]) -> Result<Reply, Problem>;
}

impl Head {
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the key or token that the request came with.
    pub(crate) fn authorization(&self) -> Option<&str> {
        self.header(AUTHORIZATION)
    }

    /// Returns the body as JSON; an empty one is an empty object.
    pub(crate) fn json(&self, body: &[u8]) -> Result<Value, Problem> {
        let kind = self
            .header(CONTENT_TYPE)
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        if body.is_empty() {
            return Ok(Value::object([]));
        }
        if !kind.eq_ignore_ascii_case("application/json") {
            let what = "the body has to be application/json";
            return Err(Problem::new(Kind::MediaType, what));
        }
        let invalid = |why: String| Problem::field("/", why);
        let text = std::str::from_utf8(body).map_err(|error| invalid(error.to_string()))?;
        let value = pinfold_content::read(text).map_err(|error| invalid(error.to_string()))?;
        match value {
            Value::Object(_) => Ok(value),
            _ => Err(Problem::field("/", "must be object")),
        }
    }
}

impl Reply {
    pub(crate) fn json(status: u16, value: &Value) -> Self {
        let headers = vec![(CONTENT_TYPE, "application/json; charset=utf-8".to_owned())];
        Self { status, headers, body: value.to_string().into_bytes() }
    }

    fn problem(problem: &Problem, head: &Head) -> Self {
        let (status, body) = problem.body(&head.path);
        let mut reply = Self::json(status, &body);
        let accepts = head.header(ACCEPT).unwrap_or_default();
        if accepts.contains("application/problem+json") {
            reply.headers = vec![(CONTENT_TYPE, "application/problem+json".to_owned())];
        }
        if problem.ends_connection {
            reply.headers.push((CONNECTION_HEADER, "close".to_owned()));
        }
        if let Some(seconds) = problem.retry_after {
            reply.headers.push((RETRY_AFTER, seconds.to_string()));
        }
        reply
    }
}

/// Serves a listener until the runtime of the calling task ends.
pub(crate) async fn serve<H: Handler>(
    listener: StdListener,
    tls: Option<TlsAcceptor>,
    handler: Arc<H>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let bodies = Arc::new(Bodies::new());
    let visitors = Visitors::default();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let permit = match Arc::clone(&places).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                visitors.end_oldest_stranger();
                // The semaphore is never closed.
                Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?
            }
        };
        // A stream without it works too, only later.
        let _ = stream.set_nodelay(true);
        let (tls, handler, bodies) = (tls.clone(), Arc::clone(&handler), Arc::clone(&bodies));
        let visitor = Arc::new(visitors.enter());
        tokio::spawn(async move {
            let floor = Floor { handler, bodies, visitor: Arc::clone(&visitor) };
            let serving = async {
                match tls {
                    None => connection(stream, floor).await,
                    Some(tls) => {
                        if let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.accept(stream)).await {
                            connection(stream, floor).await;
                        }
                    }
                }
            };
            tokio::select! {
                () = serving => {}
                () = visitor.ended() => {}
            }
            drop(permit);
        });
    }
}

/// What the requests of a connection are answered with.
struct Floor<H> {
    handler: Arc<H>,
    bodies: Arc<Bodies>,
    visitor: Arc<Visitor>,
}

async fn connection<H: Handler, T: AsyncRead + AsyncWrite + Unpin>(stream: T, floor: Floor<H>) {
    let floor = Arc::new(floor);
    let service = service_fn(move |request: Request<Incoming>| {
        let floor = Arc::clone(&floor);
        async move { Ok::<_, Infallible>(exchange(request, &floor).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_header_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    // What breaks is the client's own connection.
    tokio::select! {
        _ = serving.as_mut() => {}
        () = tokio::time::sleep(CONNECTION) => {
            serving.as_mut().graceful_shutdown();
            let _ = timeout(LAST_REQUEST, serving).await;
        }
    }
}

async fn exchange<H: Handler>(request: Request<Incoming>, floor: &Floor<H>) -> Response<Sent> {
    let (parts, body) = request.into_parts();
    let head = Arc::new(Head {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
    });
    let (reply, share) = match answer(&head, body, floor).await {
        Ok((reply, share)) => (reply, Some(share)),
        Err(problem) => (Reply::problem(&problem, &head), None),
    };
    let mut response = Response::new(Sent::new(reply.body, share));
    *response.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in reply.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

async fn answer<H: Handler>(
    head: &Arc<Head>,
    body: Incoming,
    floor: &Floor<H>,
) -> Result<(Reply, Share), Problem> {
    let (its, of) = (Arc::clone(head), Arc::clone(&floor.handler));
    let Admission { what, agent, most, answer } = away(move || of.admit(&its)).await?;
    if agent.as_ref().is_some_and(|agent| !floor.visitor.is_of(agent)) {
        return Err(Problem::too_many_connections());
    }
    let too_large = || Problem::new(Kind::TooLarge, format!("the body has more than {most} bytes"));
    // A body that says how long it is takes no more than that.
    let length =
        body.size_hint().upper().map_or(most, |it| usize::try_from(it).unwrap_or(most + 1));
    if length > most {
        return Err(too_large());
    }
    let kib = u32::try_from((length + answer).div_ceil(1024)).unwrap_or(u32::MAX);
    let share = floor.bodies.reserve(agent.as_deref().unwrap_or_default(), kib).await;
    let collected = timeout(BODY, Limited::new(body, most).collect()).await;
    let slow = |_| Problem::field("/", "the body came too slowly");
    let body = collected.map_err(slow)?.map_err(|error| {
        if error.is::<LengthLimitError>() {
            too_large()
        } else {
            Problem::field("/", "the body cannot be read")
        }
    })?;
    let (body, its, handler) = (body.to_bytes(), Arc::clone(head), Arc::clone(&floor.handler));
    let reply = away(move || handler.answer(&its, what, &body)).await?;
    Ok((reply, share))
}

/// Runs what blocks on another thread. A panic costs the request that it is about.
async fn away<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(Problem::internal()))
}
