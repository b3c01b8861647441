//! Upstreams over TLS, and upstreams that are not there.

use std::io::{BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use pinfold_egress::TrustRoots;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::support::{
    OK, REAL, Server, TestGateway, certified, header, json, read_request, route, status,
};

fn tls_server(config: Arc<ServerConfig>) -> (Server, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let remember = Arc::clone(&seen);
    let server = Server::start(move |stream| {
        let session = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = BufReader::new(StreamOwned::new(session, stream.into_inner()));
        loop {
            let request = read_request(&mut stream)?;
            let name = stream.get_ref().conn.server_name().unwrap_or("none").to_owned();
            remember.lock().unwrap().push(format!("{request}sni={name}"));
            stream.get_mut().write_all(OK.as_bytes())?;
        }
    });
    (server, seen)
}

#[test]
fn a_provider_is_reached_over_tls_by_its_own_name() {
    let (config, roots) = certified(&["http/1.1"]);
    let (upstream, seen) = tls_server(config);
    let port = upstream.address.port();
    let gateway = TestGateway::with(vec![route("p", &format!("https://localhost:{port}"))], roots);
    assert_eq!(status(&gateway.get("/v1/x", "")), 200);
    assert_eq!(status(&gateway.get("/v1/x", "")), 200);
    let seen = seen.lock().unwrap();
    assert!(seen[0].ends_with("sni=localhost"), "{}", seen[0]);
    assert_eq!(header(&seen[0], "host"), Some(format!("localhost:{port}").as_str()));
    assert_eq!(header(&seen[0], "x-api-key"), Some(REAL));
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_server_that_nobody_vouches_for_gets_no_key() {
    let (config, _) = certified(&[]);
    let (_, other) = certified(&[]);
    let (upstream, seen) = tls_server(config);
    let address = format!("https://localhost:{}", upstream.address.port());
    let answer = TestGateway::with(vec![route("p", &address)], other).get("/v1/x", "");
    assert_eq!(status(&answer), 502);
    let message = json(&answer)["error"]["message"].as_str().unwrap().to_owned();
    let wanted = format!("localhost:{} did not answer: tls: ", upstream.address.port());
    assert!(message.contains(&wanted), "{message}");
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let (config, roots) = certified(&[]);
    let (upstream, seen) = tls_server(config);
    let gateway =
        TestGateway::with(vec![route("p", &format!("https://{}", upstream.address))], roots);
    let answer = gateway.get("/v1/x", "");
    assert_eq!(status(&answer), 502);
    assert!(answer.contains("tls: ") && seen.lock().unwrap().is_empty(), "{answer}");
}

#[test]
fn an_upstream_without_any_trusted_authority_says_so() {
    let gateway = TestGateway::with(
        vec![route("p", &format!("https://{}", Server::answering(OK).0.address))],
        TrustRoots::Only(Vec::new()),
    );
    let answer = gateway.get("/v1/x", "");
    assert_eq!(status(&answer), 502);
    assert!(answer.contains("SSL_CERT_FILE"), "{answer}");
}

#[test]
fn an_upstream_that_is_not_there_is_a_502_with_the_cause() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let gateway = TestGateway::with(
        vec![
            route("gone", &format!("http://127.0.0.1:{port}")),
            // Answered by the resolver itself (RFC 6761, 6.4).
            route("nameless", "https://no-such-host.invalid"),
        ],
        TrustRoots::System,
    );
    for (path, cause) in [
        ("/v1/x", "connect: Connection refused"),
        ("/p/nameless/v1/x", "dns: cannot resolve no-such-host.invalid: the name does not exist"),
    ] {
        let answer = gateway.get(path, "");
        assert_eq!(status(&answer), 502);
        assert!(answer.contains(cause), "{answer}");
        assert_eq!(header(&answer, "x-should-retry"), None, "trying again may help");
    }
}

#[test]
fn an_upstream_that_hangs_up_is_a_502() {
    let upstream = Server::start(|mut stream| read_request(&mut stream).map(|_| ()));
    let answer = TestGateway::before(upstream.address).get("/v1/x", "");
    assert_eq!(status(&answer), 502);
    assert!(answer.contains("the connection broke"), "{answer}");
}

#[test]
fn an_upstream_that_speaks_something_else_is_a_502() {
    let upstream = Server::start(|mut stream| {
        read_request(&mut stream)?;
        stream.get_mut().write_all(b"SSH-2.0-OpenSSH_9.2\r\n")
    });
    let answer = TestGateway::before(upstream.address).get("/v1/x", "");
    assert_eq!(status(&answer), 502);
}

#[test]
fn a_kept_connection_that_is_dead_is_replaced_where_twice_is_as_once() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let remember = Arc::clone(&asked);
    // Answers one request on each connection, reads another and hangs up.
    let upstream = Server::start(move |mut stream| {
        for answer in [OK, ""] {
            let request = read_request(&mut stream)?;
            remember.lock().unwrap().push(request.split(' ').next().unwrap().to_owned());
            stream.get_mut().write_all(answer.as_bytes())?;
        }
        Ok(())
    });
    let gateway = TestGateway::before(upstream.address);
    let post = |gateway: &TestGateway| {
        let key = &gateway.key;
        gateway.raw(
            format!(
                "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\n\
                 Content-Length: 2\r\nConnection: close\r\n\r\n{{}}"
            )
            .as_bytes(),
        )
    };
    assert_eq!(status(&gateway.get("/v1/models", "")), 200);
    assert_eq!(
        status(&gateway.get("/v1/models", "")),
        200,
        "it is asked again on another connection"
    );
    assert_eq!(upstream.connections(), 2);
    assert_eq!(status(&post(&gateway)), 502, "it may have been done, so it is not done again");
    assert_eq!(*asked.lock().unwrap(), ["GET", "GET", "GET", "POST"]);
    assert_eq!(status(&post(&gateway)), 200, "the dead connection is not used again");
}
