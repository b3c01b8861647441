//! What a client begins to say, seen without taking it from the connection.

use std::io;

use rustix::net::RecvFlags;
use rustls::server::Acceptor;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Bytes that a beginning may have before it must be understood: a TLS record and some more.
pub(super) const LONGEST: usize = 20 * 1024;

/// Longest method of HTTP that is recognised (`UPDATEREDIRECTREF`, RFC 4437).
const LONGEST_METHOD: usize = 17;

/// How HTTP/2 begins where nothing was negotiated (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How a conversation begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// More bytes are needed to tell.
    Unclear,
    /// TLS, for this server name (RFC 6066, 3) if one is given.
    Tls(Option<String>),
    /// What begins as TLS and is no sound ClientHello.
    BrokenTls,
    /// HTTP/1.0 or 1.1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// Anything else.
    Other,
}

impl Beginning {
    /// Looks at the first bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        const HANDSHAKE: u8 = 22;
        // Servers skip empty lines before a request (RFC 9112, 2.2), some also blanks.
        let blanks = bytes.iter().take_while(|byte| is_blank(**byte)).count();
        match &bytes[blanks..] {
            [] if blanks == LONGEST => Self::Http1,
            [] => Self::Unclear,
            [HANDSHAKE, ..] if blanks == 0 => of_tls(bytes),
            [first, ..] if is_token(*first) => of_http(bytes, &bytes[blanks..]),
            _ => Self::Other,
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c)
}

/// Returns a character of a method (RFC 9110, 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn of_tls(bytes: &[u8]) -> Beginning {
    // Record header (RFC 8446, 5.1): type 22, then a version whose first byte is 3.
    if bytes.get(1).is_some_and(|major| *major != 3) {
        return Beginning::Other;
    }
    let mut acceptor = Acceptor::default();
    let mut rest = bytes;
    loop {
        match acceptor.read_tls(&mut rest) {
            Ok(1..) => {}
            Ok(0) if bytes.len() < LONGEST => return Beginning::Unclear,
            Ok(_) | Err(_) => return Beginning::BrokenTls,
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                let name = accepted.client_hello().server_name().map(str::to_owned);
                return Beginning::Tls(name);
            }
            Err(_) => return Beginning::BrokenTls,
        }
    }
}

/// Returns what begins with a token. `line` is without the blanks before it.
fn of_http(bytes: &[u8], line: &[u8]) -> Beginning {
    if bytes.starts_with(PREFACE) {
        return Beginning::Http2;
    }
    if PREFACE.starts_with(bytes) {
        return Beginning::Unclear;
    }
    let head = &line[..line.len().min(LONGEST_METHOD + 1)];
    let Some(end) = head.iter().position(|byte| !is_token(*byte)) else {
        return if head.len() <= LONGEST_METHOD { Beginning::Unclear } else { Beginning::Other };
    };
    let is_usual = head[..end].iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'-');
    match head[end] {
        b' ' if is_usual => Beginning::Http1,
        b' ' | b'\t' => of_request_line(&line[end..], bytes.len()),
        _ => Beginning::Other,
    }
}

/// Returns what follows a method that no client of today writes, such as `get`: HTTP if a target of HTTP
/// and its version follow. Other protocols begin with a word and a blank, too.
fn of_request_line(rest: &[u8], seen: usize) -> Beginning {
    let undecided = if seen >= LONGEST { Beginning::Http1 } else { Beginning::Unclear };
    let target = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t'));
    match target.map(|at| rest[at]) {
        None => return undecided,
        Some(b'/' | b'*' | b'h' | b'H') => {}
        Some(_) => return Beginning::Other,
    }
    let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else { return undecided };
    let has_version = rest[..end].windows(5).any(|part| part.eq_ignore_ascii_case(b"http/"));
    if has_version { Beginning::Http1 } else { Beginning::Other }
}

/// Waits until more than `seen` bytes can be seen, or the client has ended its side; says how
/// many there are.
///
/// # Errors
/// Returns an error for a broken connection.
pub(super) async fn peek(stream: &TcpStream, buffer: &mut [u8], seen: usize) -> io::Result<usize> {
    loop {
        let ready = stream.ready(Interest::READABLE).await?;
        let mut count = 0;
        let more = stream.try_io(Interest::READABLE, || {
            let (_, length) = rustix::net::recv(stream, &mut *buffer, RecvFlags::PEEK)?;
            count = length;
            // Nothing new: wait for the next arrival rather than see the same again.
            if length > seen { Ok(length) } else { Err(io::ErrorKind::WouldBlock.into()) }
        });
        match more {
            Ok(length) => return Ok(length),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if ready.is_read_closed() {
                    return Ok(count);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_recognised_by_any_prefix() {
        for (bytes, expected) in [
            (&b"GET / HTTP/1.1\r\n"[..], Beginning::Http1),
            (b"M-SEARCH * HTTP/1.1\r\n", Beginning::Http1),
            (b"PROPFIND / HTTP/1.1\r\n", Beginning::Http1),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Beginning::Http2),
            (b"SSH-2.0-OpenSSH_9.2\r\n", Beginning::Other),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", Beginning::Other),
            (b"\x16\x01\x00", Beginning::Other),
            (b"AAAAAAAAAAAAAAAAAAAAAAAAAAAA ", Beginning::Other),
            (b"\r\nGET / HTTP/1.1\r\n", Beginning::Http1),
            (b"\n\n\r\n \tGET / HTTP/1.1\r\n", Beginning::Http1),
            (b"\x0b\x0cGET / HTTP/1.1\r\n", Beginning::Http1),
            (b"get / HTTP/1.1\r\n", Beginning::Http1),
            (b"\r\nGet\t/ http/1.1\r\n", Beginning::Http1),
            (b"g3t! * HTTP/1.0\n", Beginning::Http1),
            (b"post  http://a/ HTTP/1.1\r\n", Beginning::Http1),
            (b"\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Beginning::Http1),
            (b"get key\r\n", Beginning::Other),
            (b"get /key\r\n", Beginning::Other),
            (b"set /key 0 0 5\r\nvalue\r\n", Beginning::Other),
            (b"ehlo example.com\r\n", Beginning::Other),
            (b"{\"jsonrpc\":\"2.0\"}\n", Beginning::Other),
            (b"*1\r\n$4\r\nPING\r\n", Beginning::Other),
        ] {
            assert_eq!(Beginning::of(bytes), expected, "{}", bytes.escape_ascii());
            for end in 0..bytes.len() {
                let prefix = Beginning::of(&bytes[..end]);
                assert!(prefix == Beginning::Unclear || prefix == expected, "{end}: {prefix:?}");
            }
        }
    }

    #[test]
    fn blanks_and_lines_without_end_are_no_other_protocol() {
        assert_eq!(Beginning::of(&[b'\n'; LONGEST]), Beginning::Http1);
        let endless = [b"get /", [b'x'; LONGEST].as_slice()].concat();
        assert_eq!(Beginning::of(&endless[..LONGEST]), Beginning::Http1);
        assert_eq!(Beginning::of(&endless[..LONGEST - 1]), Beginning::Unclear);
    }

    #[test]
    fn a_broken_hello_is_no_other_protocol() {
        let hello = [&[22, 3, 1, 0, 4, 1, 0, 0, 0][..], &[0; 64]].concat();
        assert_eq!(Beginning::of(&hello), Beginning::BrokenTls);
        let endless = [&[22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[0; LONGEST]].concat();
        assert_eq!(Beginning::of(&endless), Beginning::BrokenTls);
    }
}
