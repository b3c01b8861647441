//! Downloads are what they should be, or errors.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pinfold_egress::{Download, DownloadError, Downloader, Integrity, TrustRoots};
use ring::digest;
use tokio_rustls::TlsAcceptor;

use super::support::{Server, certified, read_request};

fn sri(content: &[u8]) -> Integrity {
    let hash = digest::digest(&digest::SHA512, content);
    Integrity::parse(&format!("sha512-{}", STANDARD.encode(hash))).unwrap()
}

/// Fetches into a new file and returns what is in it.
fn fetch(url: &str, expect: &Integrity, max_size: u64) -> Result<Vec<u8>, DownloadError> {
    let mut file = tempfile::tempfile().unwrap();
    let downloader = Downloader::default();
    downloader.fetch(url, expect, max_size, &mut file, &mut |_, _| {})?;
    Ok(content(&mut file))
}

fn content(file: &mut File) -> Vec<u8> {
    let mut content = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut content).unwrap();
    content
}

/// A server with one script of whole answers, one for each request, the last one for ever.
fn scripted(answers: Vec<String>) -> (Server, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let server = Server::start(move |mut stream| {
        read_request(&mut stream)?;
        let at = counter.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        stream.get_mut().write_all(answers[at].as_bytes())
    });
    (server, count)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn file_is_downloaded_whole_and_progress_is_reported() {
    let (server, _) = scripted(vec![ok("content")]);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"something longer from before").unwrap();
    let mut reports = Vec::new();
    let url = format!("http://{}/a.tgz?signature=s", server.address);
    Downloader::default()
        .fetch(&url, &sri(b"content"), 7, &mut file, &mut |now, of| reports.push((now, of)))
        .unwrap();
    assert_eq!(content(&mut file), b"content");
    assert_eq!(reports.first(), Some(&(0, None)));
    assert_eq!(reports.last(), Some(&(7, Some(7))));
}

#[test]
fn another_content_is_an_error_that_names_both() {
    let (server, count) = scripted(vec![ok("changed")]);
    let url = format!("http://{}/a.tgz?signature=s", server.address);
    let error = fetch(&url, &sri(b"content"), 100).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&sri(b"content").to_string()), "{text}");
    assert!(text.contains(&sri(b"changed").to_string()), "{text}");
    assert!(text.contains("/a.tgz") && !text.contains("signature"), "{text}");
    assert_eq!(count.load(Ordering::SeqCst), 1, "trying again would not help");
}

#[test]
fn a_truncated_download_is_tried_again_and_then_an_error() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncon".to_owned();
    let (server, _) = scripted(vec![half.clone(), ok("content")]);
    let url = format!("http://{}/a", server.address);
    assert_eq!(fetch(&url, &sri(b"content"), 100).unwrap(), b"content");

    let (server, count) = scripted(vec![half]);
    let url = format!("http://{}/a", server.address);
    let error = fetch(&url, &sri(b"content"), 100).unwrap_err();
    assert!(matches!(error, DownloadError::Interrupted { received: 3, .. }), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

#[test]
fn more_than_expected_is_refused_announced_or_not() {
    let (announced, _) = scripted(vec![ok("content")]);
    let sneaked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ncontent\r\n0\r\n\r\n";
    let (sneaked, _) = scripted(vec![sneaked.to_owned()]);
    for server in [announced, sneaked] {
        let url = format!("http://{}/a", server.address);
        let error = fetch(&url, &sri(b"content"), 6).unwrap_err();
        assert!(matches!(error, DownloadError::TooLarge { max: 6, .. }), "{error}");
    }
}

#[test]
fn a_missing_file_is_named_and_a_busy_server_asked_again() {
    let status =
        |line: &str| format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let (server, count) = scripted(vec![status("404 Not Found")]);
    let error = fetch(&format!("http://{}/gone", server.address), &sri(b""), 9).unwrap_err();
    assert!(error.to_string().ends_with("/gone: the server answers 404 Not Found"), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let (server, _) = scripted(vec![status("503 Busy"), status("429 Slowly"), ok("x")]);
    assert_eq!(fetch(&format!("http://{}/a", server.address), &sri(b"x"), 9).unwrap(), b"x");
}

#[test]
fn redirects_lead_within_https_only() {
    let (target, _) = scripted(vec![ok("x")]);
    let to = |location: &str| {
        let head = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\n";
        format!("{head}Location: {location}\r\n\r\n")
    };
    let absolute = to(&format!("http://{}/b", target.address));
    let (server, _) = scripted(vec![absolute]);
    let from = |server: &Server| format!("http://{}/a", server.address);
    assert_eq!(fetch(&from(&server), &sri(b"x"), 9).unwrap(), b"x");
    let (server, _) = scripted(vec![to("/other?x=1"), ok("x")]);
    assert_eq!(fetch(&from(&server), &sri(b"x"), 9).unwrap(), b"x");
    for bad in ["http://example.com/b", "ftp://localhost/", "http://u:p@localhost/", "nonsense:"] {
        let (server, _) = scripted(vec![to(bad)]);
        let error = fetch(&from(&server), &sri(b"x"), 9).unwrap_err();
        assert!(matches!(error, DownloadError::Redirect { .. }), "{bad}: {error}");
    }
    let (server, count) = scripted(vec![to("/again")]);
    let error = fetch(&from(&server), &sri(b"x"), 9).unwrap_err();
    assert!(error.to_string().contains("too many redirects"), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 6);
}

#[test]
fn only_https_is_fetched_from() {
    for bad in ["http://example.com/a", "file:///etc/passwd", "a.tgz", "https://u:p@host/a", ""] {
        let error = fetch(bad, &sri(b""), 9).unwrap_err();
        assert!(matches!(error, DownloadError::BadUrl { .. }), "{bad}: {error}");
    }
}

#[test]
fn integrities_are_strong_or_nothing() {
    let [sha256, sha512] = [&digest::SHA256, &digest::SHA512]
        .map(|algorithm| STANDARD.encode(digest::digest(algorithm, b"x")));
    let parsed = |text: &str| Integrity::parse(text).map(|integrity| integrity.to_string()).ok();
    let (weak, strong) = (format!("sha256-{sha256}"), format!("sha512-{sha512}"));
    assert_eq!(parsed(&weak), Some(weak.clone()));
    assert_eq!(parsed(&format!("sha1-AAAA {weak} {strong}?opt")), Some(strong.clone()));
    assert_eq!(parsed(&format!("{strong} {weak}")), Some(strong));
    for bad in ["", "sha512", "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "sha512-AAAA", "sha256-%%%"] {
        assert_eq!(parsed(bad), None, "{bad}");
    }
}

/// A server for HTTP/2 over TLS that answers every path with the path, and counts connections.
fn http2_server() -> (u16, TrustRoots, Arc<AtomicUsize>) {
    let (config, roots) = certified(&["h2"]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let serve = async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let acceptor = TlsAcceptor::from(config);
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let (acceptor, counter) = (acceptor.clone(), Arc::clone(&counter));
            tokio::spawn(async move {
                let Ok(tls) = acceptor.accept(tcp).await else { return };
                counter.fetch_add(1, Ordering::SeqCst);
                let answer = service_fn(async |request: Request<Incoming>| {
                    let body = Bytes::from(request.uri().path().to_owned());
                    Ok::<_, std::convert::Infallible>(Response::new(Full::new(body)))
                });
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                // A client that has all it wants leaves.
                let _ = server.serve_connection(TokioIo::new(tls), answer).await;
            });
        }
    };
    thread::spawn(move || runtime.block_on(serve));
    (port, roots, connections)
}

#[test]
fn many_files_share_few_connections() {
    let (port, roots, connections) = http2_server();
    let mut downloads: Vec<Download> = (0..200)
        .map(|n| Download {
            url: format!("https://localhost:{port}/file-{n}"),
            expect: sri(format!("/file-{n}").as_bytes()),
            max_size: 100,
            authorization: None,
            into: tempfile::tempfile().unwrap(),
        })
        .collect();
    let mut last = None;
    Downloader::new(roots).fetch_all(&mut downloads, &mut |now| last = Some(now)).unwrap();
    let last = last.unwrap();
    assert_eq!((last.done, last.files), (200, 200));
    let bytes: usize = (0..200).map(|n| format!("/file-{n}").len()).sum();
    assert_eq!(last.bytes, bytes as u64);
    assert_eq!(content(&mut downloads[123].into), b"/file-123");
    assert!(connections.load(Ordering::SeqCst) <= 8, "{connections:?}");
}

#[test]
fn one_wrong_file_of_many_ends_all() {
    let (port, roots, _) = http2_server();
    let mut downloads: Vec<Download> = (0..50)
        .map(|n| Download {
            url: format!("https://localhost:{port}/file-{n}"),
            expect: sri(if n == 7 { "other".into() } else { format!("/file-{n}") }.as_bytes()),
            max_size: 100,
            authorization: None,
            into: tempfile::tempfile().unwrap(),
        })
        .collect();
    let error = Downloader::new(roots).fetch_all(&mut downloads, &mut |_| {}).unwrap_err();
    assert!(matches!(error, DownloadError::WrongContent { .. }), "{error}");
    assert!(error.to_string().contains("/file-7 "), "{error}");
}
