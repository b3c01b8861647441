//! As much of HTTP/1.1 as the clients of model providers use.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::reply::{Data, Event};

/// The most bytes of a request's head and of its body.
const LARGEST_HEAD: u64 = 256 * 1024;
const LARGEST_BODY: u64 = 256 * 1024 * 1024;

/// A request that has been read whole.
pub(crate) struct Incoming {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// An answer.
pub(crate) enum Answer {
    Json { status: u16, body: Value },
    Stream { events: Vec<Event>, pause: Duration, cut_after: Option<usize> },
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Json { status, .. } => *status,
            Self::Stream { .. } => 200,
        }
    }
}

/// Whether the connection can carry another request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum After {
    Keep,
    Close,
}

impl Incoming {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Reads one request; `None` when the client is done.
    pub(crate) fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let mut limited = stream.by_ref().take(LARGEST_HEAD);
        let first = read_line(&mut limited)?;
        let mut words = first.split_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(None) };
        let (method, target) = (method.to_owned(), target.to_owned());
        let mut headers = Vec::new();
        loop {
            let line = read_line(&mut limited)?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut this = Self { method, target, headers, body: Vec::new() };
        if this.header("expect").is_some() {
            stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        this.body = this.read_body(stream)?;
        Ok(Some(this))
    }

    fn read_body(&self, stream: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        let chunked = self.header("transfer-encoding").is_some_and(|v| v.contains("chunked"));
        if !chunked {
            let length = self.header("content-length").and_then(|v| v.parse().ok()).unwrap_or(0);
            stream.take(LARGEST_BODY.min(length)).read_to_end(&mut body)?;
            return Ok(body);
        }
        loop {
            let line = read_line(stream)?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
            if size == 0 {
                while !read_line(stream)?.is_empty() {}
                return Ok(body);
            }
            if body.len() as u64 + size > LARGEST_BODY {
                return Err(io::Error::other("the body is too large"));
            }
            stream.by_ref().take(size).read_to_end(&mut body)?;
            read_line(stream)?;
        }
    }
}

/// Writes an answer.
pub(crate) fn write(stream: &mut TcpStream, method: &str, answer: Answer) -> io::Result<After> {
    match answer {
        Answer::Json { status, body } => {
            let body = if method == "HEAD" { String::new() } else { body.to_string() };
            let head = format!(
                "HTTP/1.1 {status} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                 request-id: req_mock\r\n\r\n",
                reason(status),
                body.len()
            );
            stream.write_all(format!("{head}{body}").as_bytes())?;
            Ok(After::Keep)
        }
        Answer::Stream { events, pause, cut_after } => {
            write_events(stream, &events, pause, cut_after)
        }
    }
}

fn write_events(
    stream: &mut TcpStream,
    events: &[Event],
    pause: Duration,
    cut_after: Option<usize>,
) -> io::Result<After> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
          cache-control: no-cache\r\ntransfer-encoding: chunked\r\nrequest-id: req_mock\r\n\r\n",
    )?;
    for (name, data) in &events[..cut_after.map_or(events.len(), |cut| cut.min(events.len()))] {
        let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
        let data = match data {
            Data::Json(value) => value.to_string(),
            Data::Done => "[DONE]".to_owned(),
        };
        let frame = format!("{name}data: {data}\n\n");
        stream.write_all(format!("{:x}\r\n{frame}\r\n", frame.len()).as_bytes())?;
        thread::sleep(pause);
    }
    if cut_after.is_some_and(|cut| cut < events.len()) {
        return Ok(After::Close);
    }
    stream.write_all(b"0\r\n\r\n")?;
    Ok(After::Keep)
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    while line.last().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
        line.pop();
    }
    // Bytes that are no UTF-8 are kept readable; no client sends them in a credential.
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
