//! What is behind a link: a page with the question and a button, which answers.
//!
//! Opening a link answers nothing, because programs open links to preview them. Each connection carries one
//! request, of bounded size and time.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pinfold_host::io::small_thread;

use crate::approvals::{Answer, Counted, Pending};
use crate::links::{Followed, LinkError, Visit};
use crate::question_text::{lines_of, title_of};

/// How long a request may take to arrive, and its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest request, in bytes.
const LARGEST: usize = 16 << 10;
/// Requests that are waited for at once; the oldest makes room for another.
const MOST_AWAITED: usize = 16;
/// Connections at once; more are turned away.
const MOST: usize = 64;

/// Follows a link of a session; none if it is for nothing that waits.
pub(crate) type Follow = Arc<dyn Fn(&str, &str, Visit) -> Option<Followed> + Send + Sync>;

/// Serves links until `is_over`.
///
/// # Errors
/// Returns an error if no thread can be started.
pub(crate) fn serve(
    listener: TcpListener,
    follow: Follow,
    is_over: impl Fn() -> bool + Send + 'static,
) -> io::Result<()> {
    /// How soon the end is noticed.
    const LOOK: Duration = Duration::from_millis(200);
    listener.set_nonblocking(true)?;
    let visitors = Arc::new(Visitors::default());
    small_thread("ask-links", move || {
        while !is_over() {
            let Ok((stream, _)) = listener.accept() else {
                let mut ready =
                    [rustix::event::PollFd::new(&listener, rustix::event::PollFlags::IN)];
                let patience = pinfold_host::io::timespec(LOOK);
                let _ = rustix::event::poll(&mut ready, Some(&patience));
                continue;
            };
            let Some(visitor) = visitors.enter(stream) else { continue };
            let follow = Arc::clone(&follow);
            // Without a thread the client is parted with.
            let _ = small_thread("ask-links", move || {
                // A client that breaks off is its own loss.
                let _ = converse(&visitor, &follow);
            });
        }
    })
    .map(drop)
}

/// The clients of a server. Every local user can connect to it, and hold connections.
#[derive(Default)]
struct Visitors {
    count: AtomicUsize,
    /// Those whose requests are waited for, the oldest first.
    awaited: Mutex<VecDeque<Arc<TcpStream>>>,
}

/// A client that is counted as long as this lives.
struct Visitor {
    visitors: Arc<Visitors>,
    stream: Arc<TcpStream>,
}

impl Visitors {
    /// Counts a client. Where too many say nothing, the oldest of them is heard no more; what it has sent until then is
    /// still read.
    fn enter(self: &Arc<Self>, stream: TcpStream) -> Option<Visitor> {
        if self.count.fetch_add(1, Ordering::Relaxed) >= MOST {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let stream = Arc::new(stream);
        let mut awaited = self.awaited.lock();
        if awaited.len() >= MOST_AWAITED
            && let Some(oldest) = awaited.pop_front()
        {
            // It may have gone.
            let _ = oldest.shutdown(Shutdown::Read);
        }
        awaited.push_back(Arc::clone(&stream));
        Some(Visitor { visitors: Arc::clone(self), stream })
    }
}

impl Visitor {
    fn is_heard(&self) {
        self.visitors.awaited.lock().retain(|awaited| !Arc::ptr_eq(awaited, &self.stream));
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.is_heard();
        self.visitors.count.fetch_sub(1, Ordering::Relaxed);
    }
}

fn converse(visitor: &Visitor, follow: &Follow) -> io::Result<()> {
    let mut stream = &*visitor.stream;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = read(stream)?;
    visitor.is_heard();
    // Who asked learns of an answer when its page was sent: then the session may end.
    let (status, page, _counted) = match request {
        Some(request) => answer(&request, follow),
        None => ("400 Bad Request", page("This is not a request.", ""), None),
    };
    let length = page.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {length}\r\n\
         connection: close\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\n\
         x-content-type-options: nosniff\r\ncontent-security-policy: default-src 'none'; style-src \
         'unsafe-inline'; form-action 'self'; frame-ancestors 'none'\r\n\r\n{page}"
    )?;
    stream.shutdown(Shutdown::Write)
}

/// A request, as far as it matters.
struct Request {
    is_answer: bool,
    path: String,
    body: String,
}

/// Reads a request; none for what is not one.
///
/// # Errors
/// Returns the error of the connection, and `TimedOut`.
fn read(mut stream: &TcpStream) -> io::Result<Option<Request>> {
    let deadline = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk)?;
        bytes.extend_from_slice(&chunk[..length]);
        match parse(&bytes) {
            Ok(Some(request)) => return Ok(Some(request)),
            Ok(None) if length > 0 && bytes.len() < LARGEST => {}
            Ok(None) | Err(()) => return Ok(None),
        }
    }
}

/// Parses a request; `None` while more of it has to come.
fn parse(bytes: &[u8]) -> Result<Option<Request>, ()> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = request.parse(bytes).map_err(drop)? else {
        return Ok(None);
    };
    let is_answer = match request.method {
        Some("GET") => false,
        Some("POST") => true,
        _ => return Err(()),
    };
    let path = request.path.unwrap_or_default().to_owned();
    let mut length = 0;
    for header in request.headers.iter() {
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(());
        }
        if header.name.eq_ignore_ascii_case("content-length") {
            length = str::from_utf8(header.value).map_err(drop)?.parse().map_err(drop)?;
        }
    }
    let Some(body) = bytes.get(head..) else { return Ok(None) };
    if length > LARGEST {
        return Err(());
    }
    let Some(body) = body.get(..length) else { return Ok(None) };
    let body = String::from_utf8(body.to_vec()).map_err(drop)?;
    Ok(Some(Request { is_answer, path, body }))
}

/// Returns the status and the page for a request, and what it has answered.
fn answer(request: &Request, follow: &Follow) -> (&'static str, String, Option<Counted>) {
    let Some((session, token, meant)) = parts(request) else {
        return ("404 Not Found", page("There is nothing here.", ""), None);
    };
    let visit =
        if request.is_answer { Visit::Give(meant.clone()) } else { Visit::Look(meant.clone()) };
    match follow(session, token, visit) {
        Some(Followed::Question(pending)) => ("200 OK", question(&pending, &meant), None),
        Some(Followed::Answer(counted)) => {
            ("200 OK", page("Your answer counts. You can close this page.", ""), counted)
        }
        // Everybody who can connect reads it, so it says nothing of sessions.
        None => ("410 Gone", page(&LinkError.to_string(), ""), None),
    }
}

/// Returns the session, the token and the answer of a link.
fn parts(request: &Request) -> Option<(&str, &str, Answer)> {
    let mut words = request.path.trim_start_matches('/').split('/');
    let (session, token, word) = (words.next()?, words.next()?, words.next()?);
    let deny = Answer::Deny { reason: reason(&request.body) };
    let mut answers = [Answer::Once, Answer::Session, Answer::Always, deny].into_iter();
    let meant = answers.find(|answer| word_of(answer) == word)?;
    words.next().is_none().then_some((session, token, meant))
}

/// Returns what an answer is called in a link.
pub(crate) fn word_of(answer: &Answer) -> &'static str {
    match answer {
        Answer::Once => "once",
        Answer::Session => "session",
        Answer::Always => "always",
        Answer::Deny { .. } => "deny",
    }
}

/// Returns the reason that a form has, if it has one.
fn reason(body: &str) -> Option<String> {
    let fields = body.split('&').filter_map(|field| field.split_once('='));
    let (_, value) = fields.into_iter().find(|(name, _)| *name == "reason")?;
    let text = pinfold_egress::percent::decoded(&value.replace('+', " "));
    let text: String = text.chars().take(500).collect();
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn question(pending: &Pending, meant: &Answer) -> String {
    let mut body = String::new();
    for line in lines_of(pending) {
        let _ = write!(body, "<p><code>{}</code></p>", escaped(&line));
    }
    let (button, field) = match meant {
        Answer::Once => ("Allow once", ""),
        Answer::Session => ("Allow for this session", ""),
        Answer::Always => ("Allow always, in this repository", ""),
        Answer::Deny { .. } => {
            ("Deny", "<p><input name=\"reason\" maxlength=\"500\" placeholder=\"Reason\"></p>")
        }
    };
    let _ = write!(body, "<form method=\"post\">{field}<button>{button}</button></form>");
    page(&format!("pinfold: {}", title_of(pending)), &body)
}

/// Returns a page; `body` is markup.
fn page(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>pinfold</title><style>body{{font:16px sans-serif;margin:2em;overflow-wrap:anywhere}}\
         button{{font-size:20px;padding:.5em 1em}}</style><h1>{title}</h1>{body}"
    )
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
