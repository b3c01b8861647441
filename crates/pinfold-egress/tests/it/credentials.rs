//! The real credential goes to its own upstream, once recorded, and nowhere else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pinfold_egress::{AccountHeader, Api, ConfigError, CredentialKind, Route, TrustRoots};
use pinfold_secrets::{Error, SecretId};

use super::support::{
    OK, REAL, Server, TestGateway, credential, header, json, read_request, route, secret, status,
};
use std::io::Write as _;

fn gateway_with(
    kind: CredentialKind,
    api: Api,
    value: &'static str,
    upstream: &Server,
) -> TestGateway {
    let upstream = format!("http://{}", upstream.address);
    let credential = credential(kind, Arc::new(move || Ok(secret(value))));
    TestGateway::with(vec![Route { api, credential, ..route("p", &upstream) }], TrustRoots::System)
}

#[test]
fn every_kind_goes_in_the_header_its_api_wants() {
    for (kind, api, name, value) in [
        (CredentialKind::ApiKey, Api::Anthropic, "x-api-key", "real"),
        (CredentialKind::ApiKey, Api::OpenAi, "authorization", "Bearer real"),
        (CredentialKind::Bearer, Api::Anthropic, "authorization", "Bearer real"),
        (CredentialKind::OAuth, Api::Anthropic, "authorization", "Bearer real"),
        (CredentialKind::OAuth, Api::OpenAi, "authorization", "Bearer real"),
    ] {
        let (upstream, seen) = Server::answering(OK);
        let gateway = gateway_with(kind, api, "real", &upstream);
        assert_eq!(status(&gateway.get("/v1/x", "")), 200);
        let seen = seen.lock().unwrap();
        assert_eq!(header(&seen[0], name), Some(value), "{kind:?} {api:?}");
        assert!(!seen[0].contains(&gateway.key));
        assert_eq!(header(&seen[0], "host"), Some(upstream.address.to_string().as_str()));
        let beta = header(&seen[0], "anthropic-beta");
        let subscription = kind == CredentialKind::OAuth && api == Api::Anthropic;
        assert_eq!(beta, subscription.then_some("oauth-2025-04-20"));
    }
}

#[test]
fn the_beta_flag_joins_those_of_the_agent() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = gateway_with(CredentialKind::OAuth, Api::Anthropic, "real", &upstream);
    gateway.get("/v1/x", "anthropic-beta: tools-1, oauth-2025-04-20\r\n");
    gateway.get("/v1/x", "anthropic-beta: tools-1\r\n");
    let seen = seen.lock().unwrap();
    let flags = |request: &str| request.matches("anthropic-beta:").count();
    assert_eq!((flags(&seen[0]), flags(&seen[1])), (1, 2));
}

#[test]
fn no_credential_of_the_sandbox_reaches_the_upstream() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    let stolen = "Authorization: Bearer stolen\r\napi-key: stolen\r\nx-goog-api-key: stolen\r\n\
                  Proxy-Authorization: Basic stolen\r\nCookie: a=stolen\r\nCookie: b=stolen\r\n\
                  Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.stolen\r\n";
    let path = "/v1/x?key=stolen&a=1&API_KEY=stolen&%61ccess_token=stolen&b=token&token";
    assert_eq!(status(&gateway.get(path, stolen)), 200);
    let seen = seen.lock().unwrap();
    assert!(!seen[0].contains("stolen"), "{}", seen[0]);
    assert!(seen[0].starts_with("GET /v1/x?a=1&b=token HTTP/1.1\r\n"), "{}", seen[0]);
    assert_eq!(header(&seen[0], "sec-websocket-protocol"), Some("realtime"));
    assert_eq!(header(&seen[0], "x-api-key"), Some(REAL));
}

#[test]
fn a_use_is_recorded_before_it_happens_without_key_or_query() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    gateway.get("/v1/messages?beta=true", "");
    assert_eq!(gateway.journal.lines(), ["use anthropic GET 127.0.0.1 /v1/messages"]);
    gateway.journal.failing.store(true, Ordering::SeqCst);
    let refused = gateway.get("/v1/messages", "");
    assert_eq!(status(&refused), 503);
    assert!(refused.contains("cannot be recorded"), "{refused}");
    assert_eq!(status(&gateway.get("/nowhere", "")), 503, "nor is a denial given unrecorded");
    assert_eq!(seen.lock().unwrap().len(), 1, "nothing went out");
}

#[test]
fn without_a_credential_the_answer_says_how_to_set_one() {
    let (upstream, seen) = Server::answering(OK);
    let missing =
        Arc::new(|| Err(Error::Missing { id: SecretId::new("anthropic")?, looked: Vec::new() }));
    let credential = credential(CredentialKind::ApiKey, missing);
    let address = format!("http://{}", upstream.address);
    let gateway = TestGateway::with(
        vec![Route { credential, ..route("anthropic", &address) }],
        TrustRoots::System,
    );
    let answer = gateway.get("/v1/messages", "");
    assert_eq!(status(&answer), 503);
    let message = json(&answer)["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("`pinfold secret set anthropic`"), "{message}");
    assert_eq!(header(&answer, "x-should-retry"), Some("false"));
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(gateway.journal.lines(), ["denied 503 GET localhost /v1/messages"]);
}

#[test]
fn a_credential_is_resolved_once_and_again_after_a_refusal() {
    let answers = AtomicUsize::new(0);
    let upstream = Server::start(move |mut stream| {
        loop {
            read_request(&mut stream)?;
            let answer = match answers.fetch_add(1, Ordering::SeqCst) {
                2 => "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
                _ => OK,
            };
            stream.get_mut().write_all(answer.as_bytes())?;
        }
    });
    let resolved = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&resolved);
    let source = Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(secret(REAL))
    });
    let credential = credential(CredentialKind::ApiKey, source);
    let address = format!("http://{}", upstream.address);
    let gateway =
        TestGateway::with(vec![Route { credential, ..route("p", &address) }], TrustRoots::System);
    assert_eq!(resolved.load(Ordering::SeqCst), 0, "not before it is needed");
    let statuses = [(); 4].map(|()| status(&gateway.get("/v1/x", "")));
    assert_eq!(statuses, [200, 200, 401, 200]);
    assert_eq!(resolved.load(Ordering::SeqCst), 2);
}

#[test]
fn the_real_key_does_not_come_back_in_any_header() {
    let (upstream, _) = Server::answering(
        "HTTP/1.1 200 sk-ant-api03-the-real-key\r\nContent-Length: 2\r\n\
         x-echo: sk-ant-api03-the-real-key\r\nx-kept: yes\r\n\
         www-authenticate: Bearer token=\"sk-ant-api03-the-real-key\"\r\n\
         set-cookie: session=account\r\n\r\nok",
    );
    let gateway = TestGateway::before(upstream.address);
    let answer = gateway.get("/v1/x", "");
    assert_eq!(status(&answer), 200);
    assert!(!answer.contains(REAL) && !answer.contains("session=account"), "{answer}");
    assert_eq!(header(&answer, "x-kept"), Some("yes"));
}

#[test]
fn redirects_are_passed_on_and_not_followed() {
    let (elsewhere, elsewhere_saw) = Server::answering(OK);
    let location = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{}/v1/x\r\nContent-Length: 0\r\n\r\n",
        elsewhere.address
    );
    let (upstream, _) = Server::answering(location.leak());
    let gateway = TestGateway::before(upstream.address);
    let answer = gateway.get("/v1/x", "");
    assert_eq!(status(&answer), 307);
    let expected = format!("http://{}/v1/x", elsewhere.address);
    assert_eq!(header(&answer, "location"), Some(expected.as_str()));
    assert!(elsewhere_saw.lock().unwrap().is_empty());
}

#[test]
fn a_value_that_is_no_header_is_no_credential() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = gateway_with(CredentialKind::Bearer, Api::OpenAi, "schlüssel", &upstream);
    let answer = gateway.get("/v1/x", "");
    assert_eq!(status(&answer), 503);
    assert!(!answer.contains("schlüssel") && seen.lock().unwrap().is_empty());
}

#[test]
fn whose_bill_it_is_and_which_request_only_the_host_decides() {
    let (upstream, seen) = Server::answering(OK);
    let address = format!("http://{}", upstream.address);
    let account = vec![AccountHeader::new("OpenAI-Project", "proj_host").unwrap()];
    let gateway =
        TestGateway::with(vec![Route { account, ..route("p", &address) }], TrustRoots::System);
    let inside = "OpenAI-Organization: x\r\nOpenAI-Project: inside\r\nx-goog-user-project: x\r\n\
                  X_Goog_User_Project: x\r\nX-HTTP-Method-Override: POST\r\nX-HTTP-Method: POST\r\n\
                  X-Method-Override: POST\r\nX_HTTP_METHOD_OVERRIDE: POST\r\nX-Original-URL: /x\r\n\
                  X-Rewrite-URL: /x\r\nX-Forwarded-Host: x\r\nForwarded: host=x\r\n\
                  chatgpt-account-id: x\r\nx_api_key: stolen\r\nx-portkey-config: x\r\n\
                  OpenAI-Beta: kept\r\nsession_id: kept\r\nUser-Agent: kept\r\n";
    assert_eq!(status(&gateway.get("/v1/models", inside)), 200);
    let seen = seen.lock().unwrap()[0].to_ascii_lowercase();
    let names: Vec<&str> = seen
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    let expected = [
        "host",
        "openai-beta",
        "session_id",
        "user-agent",
        "openai-project",
        "x-api-key",
        "accept-encoding",
    ];
    let mut sorted = (names.clone(), expected.to_vec());
    sorted.0.sort_unstable();
    sorted.1.sort_unstable();
    assert_eq!(sorted.0, sorted.1);
    assert!(seen.contains("openai-project: proj_host"));
    for (name, value) in
        [("x-api-key", "v"), ("host", "v"), ("openai-project", "v\r\nx: y"), ("a b", "")]
    {
        let error = AccountHeader::new(name, value).unwrap_err();
        assert_eq!(error, ConfigError::BadHeader { name: name.to_owned() });
    }
}
