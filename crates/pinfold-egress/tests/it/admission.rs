//! Who may ask for what: row 5.1's status codes, and what is meant for other servers.

use pinfold_egress::{
    Api, ConfigError, CredentialKind, EphemeralKey, Gateway, GatewayConfig, KeyShape, Route,
    TrustRoots, Upstream,
};
use std::sync::Arc;

use super::support::{
    OK, Recorder, Server, TestGateway, credential, header, json, route, secret, status,
};

#[test]
fn health_needs_no_key_and_says_the_version() {
    let gateway = TestGateway::before("127.0.0.1:9".parse().unwrap());
    let answer =
        gateway.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(status(&answer), 200);
    assert_eq!(json(&answer)["version"], env!("CARGO_PKG_VERSION"));
    assert!(gateway.journal.lines().is_empty());
}

#[test]
fn only_the_sessions_key_opens_the_gateway() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    let ask = |line: &str| {
        let head = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        status(&gateway.raw(format!("{head}{line}\r\n").as_bytes()))
    };
    let key = &gateway.key;
    assert_eq!(ask(""), 401);
    assert_eq!(ask("x-api-key: sk-ant-api03-wrong\r\n"), 401);
    assert_eq!(ask("x-api-key: \r\n"), 401);
    assert_eq!(ask(&format!("x-api-key: {}\r\n", &key[..key.len() - 1])), 401);
    assert_eq!(ask(&format!("authorization: Basic {key}\r\n")), 401);
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(ask(&format!("x-api-key: {key}\r\n")), 200);
    assert_eq!(ask(&format!("api-key: {key}\r\n")), 200);
    assert_eq!(ask(&format!("Authorization: bearer {key}\r\n")), 200);
    assert_eq!(ask(&format!("x-api-key: none\r\nAuthorization: Bearer {key}\r\n")), 200);
    assert_eq!(gateway.journal.lines()[0], "denied 401 GET localhost /v1/models");
}

#[test]
fn bad_key_is_refused_in_the_words_of_the_api() {
    let openai = Route { api: Api::OpenAi, ..route("openai", "http://127.0.0.1:9") };
    let gateway = TestGateway::with(
        vec![route("anthropic", "http://127.0.0.1:9"), openai],
        TrustRoots::System,
    );
    let ask = |path: &str| {
        json(
            &gateway.raw(
                format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    .as_bytes(),
            ),
        )
    };
    let anthropic = ask("/v1/messages");
    assert_eq!(anthropic["type"], "error");
    assert_eq!(anthropic["error"]["type"], "authentication_error");
    for path in ["/v1/responses", "/v1/chat/completions", "/p/openai/v1/models"] {
        let openai = ask(path);
        assert_eq!(openai["error"]["code"], "invalid_api_key", "{path}");
        assert!(openai["error"]["message"].as_str().unwrap().contains("not this session's"));
    }
}

#[test]
fn paths_lead_to_their_provider_and_nowhere_else() {
    let (first, first_saw) = Server::answering(OK);
    let (second, second_saw) = Server::answering(OK);
    let gateway = TestGateway::with(
        vec![
            route("anthropic", &format!("http://{}", first.address)),
            route("other", &format!("http://{}/api/v1/", second.address)),
        ],
        TrustRoots::System,
    );
    assert_eq!(status(&gateway.get("/v1/messages?beta=true", "")), 200);
    assert!(first_saw.lock().unwrap()[0].starts_with("GET /v1/messages?beta=true HTTP/1.1\r\n"));
    assert_eq!(status(&gateway.get("/p/other/v1/models?a=b", "")), 200);
    assert!(second_saw.lock().unwrap()[0].starts_with("GET /api/v1/models?a=b HTTP/1.1\r\n"));

    for path in ["/", "/v1", "/messages", "/v2/x", "/p/other", "/p/other/models", "/health/x"] {
        let answer = gateway.get(path, "");
        assert_eq!(status(&answer), 404, "{path}");
        assert!(json(&answer)["error"]["message"].as_str().unwrap().contains("/v1/"), "{path}");
    }
    let refused = gateway.get("/p/nobody/v1/models", "");
    assert_eq!(status(&refused), 403);
    assert!(refused.contains("allowed: anthropic, other"));
    assert_eq!(header(&refused, "x-should-retry"), Some("false"));
    assert_eq!((first_saw.lock().unwrap().len(), second_saw.lock().unwrap().len()), (1, 1));
}

#[test]
fn no_spelling_of_dots_leaves_the_api() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    for path in [
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "/v1/.%2E/admin",
        "/v1/x%2f..%2fadmin",
        "/v1/x%5c..%5cadmin",
        "/v1/./x",
        "/v1/..;a/admin",
        "/v1/..",
        "/p/anthropic/v1/../admin",
    ] {
        assert_eq!(status(&gateway.get(path, "")), 404, "{path}");
    }
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(status(&gateway.get("/v1/models/a..b/%2ec", "")), 200, "dots in a name are fine");
}

#[test]
fn requests_for_other_hosts_are_refused_at_once_by_name() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    let key = format!("x-api-key: {}\r\n", gateway.key);
    for (request, host) in [
        ("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n", "example.com:443"),
        ("GET http://example.com/v1/x HTTP/1.1\r\nHost: example.com\r\n", "example.com"),
        ("GET http://example.com/v1/x HTTP/1.1\r\nHost: localhost\r\n", "example.com"),
        ("GET http://localhost/v1/x HTTP/1.1\r\nHost: localhost\r\n", "localhost"),
        ("GET /v1/x HTTP/1.1\r\nHost: api.anthropic.com\r\n", "api.anthropic.com"),
        ("GET /v1/x HTTP/1.1\r\nHost: localhost.example.com\r\n", "localhost.example.com"),
        ("GET /v1/x HTTP/1.1\r\nHost: 169.254.169.254\r\n", "169.254.169.254"),
        ("GET /v1/x HTTP/1.1\r\nHost: a@localhost\r\n", "a@localhost"),
    ] {
        let answer = gateway.raw(format!("{request}{key}\r\n").as_bytes());
        assert_eq!(status(&answer), 403, "{request}");
        assert!(answer.contains(&format!("pinfold: {host} cannot be reached")), "{answer}");
        assert!(answer.contains("to allow the host"), "a hint is given");
    }
    assert!(seen.lock().unwrap().is_empty());
    let journal = gateway.journal.lines();
    assert_eq!(journal.len(), 8, "{journal:?}");
    assert_eq!(journal[0], "denied 403 CONNECT example.com:443 ");
}

#[test]
fn the_gateway_answers_to_its_own_names() {
    let (upstream, _) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    let own = gateway.address.to_string();
    for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:1", "gateway.invalid", &own] {
        let head = format!("GET /v1/x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        let request = format!("{head}x-api-key: {}\r\n\r\n", gateway.key);
        assert_eq!(status(&gateway.raw(request.as_bytes())), 200, "{host}");
    }
}

#[test]
fn ambiguous_requests_are_refused() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    let key = format!("x-api-key: {}\r\n", gateway.key);
    for head in [
        "GET /v1/x HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n",
        "GET /v1/x HTTP/1.1\r\n",
        "GET /v1/x HTTP/1.0\r\n",
        "GET /v1/x HTTP/1.1\r\nHost: local host\r\n",
        "GET /v1/x HTTP/1.1\r\nHost : localhost\r\n",
        "GET /v1/x HTTP/1.1\r\nHost: localhost\r\n folded: header\r\n",
        "GET /v1/x HTTP/1.1\r\nHost: localhost\r\nx: a\0b\r\n",
        "POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
        "POST /v1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n",
    ] {
        let answer = gateway.raw(format!("{head}{key}\r\n").as_bytes());
        assert!(answer.is_empty() || status(&answer) == 400, "{head}: {answer}");
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn a_length_and_chunks_together_make_one_request() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    let smuggled = "GET /v1/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let request = format!(
        "POST /v1/x HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\nContent-Length: 5\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}",
        gateway.key
    );
    gateway.raw(request.as_bytes());
    let seen = seen.lock().unwrap();
    assert!(seen.len() <= 1, "{seen:?}");
    assert!(seen.iter().all(|request| !request.contains("smuggled")));
    assert!(seen.iter().all(|r| header(r, "content-length").is_none()));
}

#[test]
fn a_connection_header_cannot_take_the_length_away() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    let request = format!(
        "POST /v1/x HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\nContent-Length: 4\r\n\
         X-Mine: 1\r\nConnection: close, content-length, x-api-key, x-mine\r\n\r\nbody",
        gateway.key
    );
    assert_eq!(status(&gateway.raw(request.as_bytes())), 200);
    let seen = seen.lock().unwrap();
    assert!(seen[0].ends_with("\r\n\r\nbody") && header(&seen[0], "x-mine").is_none());
    assert!(header(&seen[0], "x-api-key").is_some());
}

#[test]
fn large_heads_are_refused() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    let answer = gateway.get("/v1/x", &format!("x-large: {}\r\n", "a".repeat(70_000)));
    assert!(answer.is_empty() || status(&answer) == 431, "{answer}");
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(status(&gateway.get("/v1/x", &format!("x-large: {}\r\n", "a".repeat(60_000)))), 200);
}

#[test]
fn addresses_of_providers_are_checked() {
    for good in ["https://api.anthropic.com", "https://h:8443/a/b/", "http://127.0.0.1:1/v1"] {
        assert!(Upstream::parse(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "api.anthropic.com",
        "http://api.anthropic.com",
        "http://localhost.example.com",
        "http://127.0.0.1.example.com",
        "ftp://127.0.0.1",
        "https://user:pass-word@host",
        "https://host/?q=1",
        "https://",
    ] {
        let error = Upstream::parse(bad).expect_err(bad).to_string();
        assert!(!error.contains("pass-word"), "{error}");
    }
}

#[test]
fn a_gateway_without_purpose_is_not_made() {
    let key = || vec![EphemeralKey::generate(KeyShape::OpenAi).unwrap()];
    let make = |session_keys, routes| {
        let journal = Arc::new(Recorder::default());
        let budget = Arc::new(super::support::NoBudget);
        let way = TrustRoots::System.into();
        let config = GatewayConfig { session_keys, routes, journal, budget, way };
        Gateway::new(config).err()
    };
    let one = || route("a", "https://a.example");
    assert_eq!(make(Vec::new(), vec![one()]), Some(ConfigError::Empty));
    assert_eq!(make(key(), Vec::new()), Some(ConfigError::Empty));
    assert!(matches!(make(key(), vec![one(), one()]), Some(ConfigError::TwoRoutes { .. })));
}

#[test]
fn keys_have_the_shape_of_real_ones_and_are_never_the_same() {
    for (shape, prefix) in [
        (KeyShape::AnthropicApiKey, "sk-ant-api03-"),
        (KeyShape::AnthropicOauth, "sk-ant-oat01-"),
        (KeyShape::OpenAi, "sk-"),
    ] {
        let [one, two] = [(); 2].map(|()| EphemeralKey::generate(shape).unwrap());
        assert!(one.expose().starts_with(prefix));
        assert_eq!(one.expose().len(), prefix.len() + 43, "256 bits in base64");
        assert_ne!(one.expose(), two.expose());
    }
    // The fixture for other tests is what they think it is.
    assert_eq!(
        credential(CredentialKind::ApiKey, Arc::new(|| Ok(secret("x")))).id.as_str(),
        "anthropic"
    );
}
