//! HTTP, in the clear or where TLS is ended here: each request is looked at by itself, and framed
//! again.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::header::CONTENT_TYPE;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pinfold_policy::network::Endpoint;
use tokio::net::TcpStream;

use super::line::Line;
use super::refusal::NoWay;
use super::sender::{MAX_BUFFER, Sender, Stream};
use super::shared::Shared;

/// Time for the head of a request, which is also how long an unused connection is kept.
const HEAD_LIMIT: Duration = Duration::from_secs(60);

/// Largest head of a request, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// Bytes of bodies that a client of HTTP/2 may send ahead of what is read, on one stream and in all.
/// hyper's own mebibyte for each of 8192 connections would be outside of the session's memory.
const STREAM_WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;

/// Serves a client of the explicit proxy: every request names its host in its URL.
///
/// # Errors
/// Returns the error that broke the connection.
pub(super) async fn serve_proxy(shared: &Arc<Shared>, client: TcpStream) -> io::Result<()> {
    let line = Arc::new(Line::new(shared, None, false, None));
    tokio::select! {
        served = serve1(Arc::clone(&line), client) => served,
        () = line.until_forbidden() => Ok(()),
    }
}

/// Serves a client that was connected to one host; without `upstream` a connection is opened with
/// the first request.
///
/// # Errors
/// Returns the error that broke a connection.
pub(super) async fn serve_host(
    shared: &Arc<Shared>,
    client: TcpStream,
    upstream: Option<TcpStream>,
    asked: Endpoint,
    is_http2: bool,
) -> io::Result<()> {
    let sender = match upstream {
        Some(upstream) => Some(Sender::open(upstream, is_http2).await.map_err(io::Error::other)?),
        None => None,
    };
    let line = Arc::new(Line::new(shared, Some(asked), false, sender));
    if is_http2 { serve2(line, client).await } else { serve1(line, client).await }
}

/// Serves a client whose TLS with one host is ended here.
///
/// # Errors
/// Returns the error that broke a connection.
pub(super) async fn serve_secure(
    shared: &Arc<Shared>,
    client: impl Stream,
    upstream: impl Stream,
    asked: Endpoint,
    is_http2: bool,
) -> io::Result<()> {
    let sender = Sender::open(upstream, is_http2).await.map_err(io::Error::other)?;
    let line = Arc::new(Line::new(shared, Some(asked), true, Some(sender)));
    if is_http2 { serve2(line, client).await } else { serve1(line, client).await }
}

/// Answers every request of a client with the reason why there is no server.
///
/// # Errors
/// Returns the error that broke the connection.
pub(super) async fn serve_refusal(
    client: impl Stream,
    no_way: &NoWay,
    is_http2: bool,
) -> io::Result<()> {
    let service = service_fn(|request: Request<Incoming>| {
        std::future::ready(Ok::<_, Infallible>(
            no_way.response_to(request.headers().get(CONTENT_TYPE)),
        ))
    });
    let client = TokioIo::new(client);
    let served = if is_http2 {
        http2::Builder::new(TokioExecutor::new()).serve_connection(client, service).await
    } else {
        http1::Builder::new().serve_connection(client, service).await
    };
    served.map_err(io::Error::other)
}

async fn serve1(line: Arc<Line>, client: impl Stream) -> io::Result<()> {
    let service = service_fn(move |request| {
        let line = Arc::clone(&line);
        async move { Ok::<_, Infallible>(line.handle(request).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(client), service)
        .with_upgrades()
        .await
        .map_err(io::Error::other)
}

async fn serve2(line: Arc<Line>, client: impl Stream) -> io::Result<()> {
    let service = service_fn(move |request| {
        let line = Arc::clone(&line);
        async move { Ok::<_, Infallible>(line.handle(request).await) }
    });
    http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD as u32)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .serve_connection(TokioIo::new(client), service)
        .await
        .map_err(io::Error::other)
}
