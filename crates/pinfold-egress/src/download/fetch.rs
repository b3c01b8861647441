//! Fetching: verified while it streams, many at a time over few connections.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderValue, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{sleep, timeout};

use super::url::{checked, redirected, shown, without_query};
use super::{DownloadError, Integrity};
use crate::upstream::{Connector, Failure, Offer, WayOut};

/// Downloads at once. Registries answer small files in one round trip, so this hides latency;
/// more gains little.
const AT_ONCE: usize = 8;

/// Longest silence of a server, before its answer or in the middle of it.
const STALL: Duration = Duration::from_secs(30);

/// Pauses before the second and the third attempt at something that failed in passing.
const PAUSES: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(1500)];

/// Redirects followed for one file.
const MAX_REDIRECTS: usize = 5;

const AGENT: &str = concat!("pinfold/", env!("CARGO_PKG_VERSION"));

type HttpClient = Client<Connector, Empty<Bytes>>;

/// Fetches files over https. Making one does nothing yet.
#[derive(Debug, Clone, Default)]
pub struct Downloader {
    way: WayOut,
}

/// One file of many.
#[derive(Debug)]
pub struct Download {
    /// Where from: https, or http towards this machine itself.
    pub url: String,
    /// What it must be.
    pub expect: Integrity,
    /// Most bytes it may have.
    pub max_size: u64,
    /// Where to; what was in it is overwritten.
    pub into: File,
    /// What the server wants to see; no server that it redirects to does.
    pub authorization: Option<HeaderValue>,
}

/// A short answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, whole.
    pub body: Vec<u8>,
}

/// How far many downloads have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Files that are complete and verified.
    pub done: usize,
    /// Files asked for.
    pub files: usize,
    /// Bytes received so far.
    pub bytes: u64,
}

impl Downloader {
    /// Returns a downloader that goes this way.
    #[must_use]
    pub fn new(way: impl Into<WayOut>) -> Self {
        Self { way: way.into() }
    }

    /// Fetches one file. `progress` gets the bytes received and, where the server says, of how
    /// many. Blocks; must not be called inside an async runtime.
    ///
    /// # Errors
    /// Returns [`DownloadError`]; what is in the file then must not be used.
    pub fn fetch(
        &self,
        url: &str,
        expect: &Integrity,
        max_size: u64,
        into: &mut File,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), DownloadError> {
        let order = Order { url, expect, max_size, authorization: None };
        self.block_on(async |client| order.run(&client, into, progress).await)
    }

    /// Asks for something short that may be refused. Blocks; must not be called inside an async
    /// runtime.
    ///
    /// # Errors
    /// Returns [`DownloadError`]. A status without success is not an error.
    pub fn ask(
        &self,
        url: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
        max_size: u64,
    ) -> Result<Answer, DownloadError> {
        let headers: HeaderMap = headers.into_iter().collect();
        self.block_on(async |client| {
            let (url, response) = answer(&client, checked(url)?, &headers).await?;
            let (status, headers) = (response.status(), response.headers().clone());
            let mut body = Vec::new();
            let mut incoming = response.into_body();
            while let Some(chunk) = next_chunk(&mut incoming).await.map_err(|cause| {
                let received = body.len() as u64;
                DownloadError::Interrupted { url: shown(&url), received, cause }
            })? {
                if (body.len() + chunk.len()) as u64 > max_size {
                    return Err(DownloadError::TooLarge { url: shown(&url), max: max_size });
                }
                body.extend_from_slice(&chunk);
            }
            Ok(Answer { status, headers, body })
        })
    }

    /// Fetches many files, some at a time, over as few connections as the servers allow. The
    /// first failure ends all. Blocks; must not be called inside an async runtime.
    ///
    /// # Errors
    /// Returns [`DownloadError`] of the first that failed; what is in the files then must not be used.
    pub fn fetch_all(
        &self,
        downloads: &mut [Download],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), DownloadError> {
        let tally = Tally::new(downloads.len(), progress);
        let waiting = RefCell::new(downloads.iter_mut());
        let worker = async |client: HttpClient| {
            loop {
                // Of its own, so that the borrow does not last over the download.
                let next = waiting.borrow_mut().next();
                let Some(Download { url, expect, max_size, into, authorization }) = next else {
                    return Ok(());
                };
                let authorization = authorization.clone();
                let order = Order { url, expect, max_size: *max_size, authorization };
                let mut counted = 0;
                order.run(&client, into, &mut |now, _| tally.count(&mut counted, now)).await?;
                tally.done();
            }
        };
        self.block_on(async |client| {
            try_join_all((0..AT_ONCE).map(|_| worker(client.clone()))).await.map(|_| ())
        })
    }

    fn block_on<T>(
        &self,
        work: impl AsyncFnOnce(HttpClient) -> Result<T, DownloadError>,
    ) -> Result<T, DownloadError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|cause| DownloadError::Start { cause })?;
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_adaptive_window(true)
            .build(Connector::new(self.way.clone(), Offer::Http2));
        runtime.block_on(work(client))
    }
}

/// Adds up what the workers of [`Downloader::fetch_all`] report.
struct Tally<'p>(RefCell<(Progress, &'p mut dyn FnMut(Progress))>);

impl<'p> Tally<'p> {
    fn new(files: usize, report: &'p mut dyn FnMut(Progress)) -> Self {
        Self(RefCell::new((Progress { files, ..Progress::default() }, report)))
    }

    /// Replaces what was counted for one file; an attempt that begins again counts from zero.
    fn count(&self, counted: &mut u64, now: u64) {
        self.change(|progress| progress.bytes = progress.bytes - *counted + now);
        *counted = now;
    }

    fn done(&self) {
        self.change(|progress| progress.done += 1);
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        let (progress, report) = &mut *self.0.borrow_mut();
        change(progress);
        report(*progress);
    }
}

/// What is asked for, without where it goes.
struct Order<'o> {
    url: &'o str,
    expect: &'o Integrity,
    max_size: u64,
    authorization: Option<HeaderValue>,
}

impl Order<'_> {
    /// Tries until it succeeds or has failed for good.
    async fn run(
        &self,
        client: &HttpClient,
        into: &mut File,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), DownloadError> {
        let mut pauses = PAUSES.iter();
        loop {
            match self.attempt(client, into, progress).await {
                Err(error) if error.is_passing() => match pauses.next() {
                    Some(pause) => sleep(*pause).await,
                    None => return Err(error),
                },
                outcome => return outcome,
            }
        }
    }

    async fn attempt(
        &self,
        client: &HttpClient,
        into: &mut File,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), DownloadError> {
        let write = |cause| DownloadError::Write { url: without_query(self.url), cause };
        into.rewind().and_then(|()| into.set_len(0)).map_err(write)?;
        progress(0, None);
        let headers = self.authorization.iter().map(|value| (AUTHORIZATION, value.clone()));
        let (url, response) = answer(client, checked(self.url)?, &headers.collect()).await?;
        if !response.status().is_success() {
            return Err(DownloadError::Status { url: shown(&url), status: response.status() });
        }
        let total = content_length(&response);
        let too_large = || DownloadError::TooLarge { url: shown(&url), max: self.max_size };
        if total.is_some_and(|total| total > self.max_size) {
            return Err(too_large());
        }
        let mut hash = self.expect.start();
        let mut received: u64 = 0;
        let mut body = response.into_body();
        while let Some(chunk) = next_chunk(&mut body)
            .await
            .map_err(|cause| DownloadError::Interrupted { url: shown(&url), received, cause })?
        {
            received += chunk.len() as u64;
            if received > self.max_size {
                return Err(too_large());
            }
            hash.update(&chunk);
            into.write_all(&chunk).map_err(write)?;
            progress(received, total);
        }
        self.expect.verify(&hash.finish()).map_err(|actual| DownloadError::WrongContent {
            url: shown(&url),
            expected: self.expect.clone(),
            actual,
        })
    }
}

/// Asks, and follows redirects as far as they lead to https. Another server than the first does not
/// see what the first is shown.
async fn answer(
    client: &HttpClient,
    mut url: Uri,
    headers: &HeaderMap,
) -> Result<(Uri, Response<Incoming>), DownloadError> {
    let first = url.authority().cloned();
    for _ in 0..=MAX_REDIRECTS {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = url.clone();
        *request.headers_mut() = headers.clone();
        if url.authority() != first.as_ref() {
            request.headers_mut().remove(AUTHORIZATION);
        }
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(AGENT));
        let response = match timeout(STALL, client.request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(unreachable(&url, &error)),
            Err(_) => {
                let cause = format!("timeout: no answer within {} seconds", STALL.as_secs());
                let url = shown(&url);
                return Err(DownloadError::Unreachable { url, cause, hint: String::new() });
            }
        };
        let location =
            response.headers().get(LOCATION).filter(|_| response.status().is_redirection());
        let Some(location) = location else { return Ok((url, response)) };
        url = redirected(&url, &String::from_utf8_lossy(location.as_bytes()))?;
    }
    let to = shown(&url);
    Err(DownloadError::Redirect { url: to.clone(), to, reason: "after too many redirects" })
}

async fn next_chunk(body: &mut Incoming) -> Result<Option<Bytes>, String> {
    loop {
        match timeout(STALL, body.frame()).await {
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(_trailers) => {}
            },
            Ok(Some(Err(error))) => return Err(Failure::innermost(&error)),
            Ok(None) => return Ok(None),
            Err(_) => return Err(format!("nothing came for {} seconds", STALL.as_secs())),
        }
    }
}

fn content_length(response: &Response<Incoming>) -> Option<u64> {
    response.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn unreachable(url: &Uri, error: &Error) -> DownloadError {
    let url = shown(url);
    match Failure::behind(error) {
        Some(failure) => {
            let hint = proxy_hint(|name| std::env::var_os(name).is_some_and(|v| !v.is_empty()));
            DownloadError::Unreachable { url, cause: failure.to_string(), hint }
        }
        None => {
            let cause = format!("the connection broke: {}", Failure::innermost(error));
            DownloadError::Unreachable { url, cause, hint: String::new() }
        }
    }
}

/// Returns what to add when the direct way failed on a machine that has another.
fn proxy_hint(is_set: impl Fn(&str) -> bool) -> String {
    let variables = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    variables.into_iter().find(|name| is_set(name)).map_or_else(String::new, |name| {
        format!(
            " ({name} is set, but pinfold does not use proxies yet: allow it to connect directly)"
        )
    })
}
