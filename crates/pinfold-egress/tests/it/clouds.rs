//! Models in a cloud, and servers that need no key.

use std::sync::Arc;

use pinfold_egress::{Api, CloudPlace, CredentialKind, HeaderName, Route, TrustRoots, Upstream};

use super::support::{
    OK, Server, TestGateway, credential, header, read_request, route, secret, status,
};

const KEYS: &str = r#"{"Version":1,"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"the/secret+key",
    "SessionToken":"the-session-token"}"#;
const INVOKE: &str = "/model/us.anthropic.claude-x%3A0/invoke-with-response-stream";

fn place(project: Option<&str>) -> Option<CloudPlace> {
    Some(CloudPlace { region: "us-east-1".to_owned(), project: project.map(str::to_owned) })
}

fn in_cloud(
    api: Api,
    value: &'static str,
    upstream: &Server,
    project: Option<&str>,
) -> TestGateway {
    let credential = credential(CredentialKind::ApiKey, Arc::new(move || Ok(secret(value))));
    let place = place(project);
    let address = format!("http://{}", upstream.address);
    let route = Route { api, credential, cloud: place, ..route("cloud", &address) };
    TestGateway::with(vec![route], TrustRoots::System)
}

fn post(gateway: &TestGateway, path: &str, headers: &str, body: &str) -> String {
    let (key, length) = (&gateway.key, body.len());
    gateway.raw(
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n{headers}\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        )
        .as_bytes(),
    )
}

#[test]
fn requests_to_bedrock_are_signed_outside() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = in_cloud(Api::Bedrock, KEYS, &upstream, None);
    let forged = "X-Amz-Security-Token: mine\r\nX-Amz-Date: 20000101T000000Z\r\n";
    assert_eq!(status(&post(&gateway, INVOKE, forged, "{\"a\":1}")), 200);
    let seen = seen.lock().unwrap();
    let signature = header(&seen[0], "authorization").unwrap();
    assert!(signature.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{signature}");
    let signed = "/us-east-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token";
    assert!(signature.contains(signed), "{signature}");
    assert_eq!(header(&seen[0], "x-amz-security-token"), Some("the-session-token"));
    assert!(!header(&seen[0], "x-amz-date").unwrap().starts_with("2000"), "{}", seen[0]);
    assert!(seen[0].starts_with(&format!("POST {INVOKE} ")) && seen[0].ends_with("{\"a\":1}"));
    assert!(!seen[0].contains(&gateway.key) && !seen[0].contains("the/secret+key"), "{}", seen[0]);
}

#[test]
fn a_key_of_bedrocks_goes_as_a_bearer_token() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = in_cloud(Api::Bedrock, "ABSK-real", &upstream, None);
    assert_eq!(status(&post(&gateway, INVOKE, "", "{}")), 200);
    assert_eq!(header(&seen.lock().unwrap()[0], "authorization"), Some("Bearer ABSK-real"));
}

/// The credential of a cloud opens everything that its account may do.
#[test]
fn a_credential_of_a_cloud_asks_models_and_nothing_else() {
    let (upstream, seen) = Server::answering(OK);
    let bedrock = in_cloud(Api::Bedrock, KEYS, &upstream, None);
    let vertex = in_cloud(Api::Vertex, "ya29.real", &upstream, Some("mine"));
    for path in [
        "/async-invoke",
        "/model/a/../../foundation-models/invoke",
        "/model/a%2F..%2F..%2Fb/invoke",
        "/guardrail/a/version/1/apply",
        "/v1/model/a/invoke",
        "/model/a/invoke?X-Amz-Expires=1",
        "/",
    ] {
        assert_eq!(status(&post(&bedrock, path, "", "{}")), 404, "{path}");
    }
    for path in [
        "/v1/projects/other/locations/us-east-1/publishers/anthropic/models/m:rawPredict",
        "/v1/projects/mine/locations/eu/publishers/anthropic/models/m:rawPredict",
        "/v1/projects/mine/locations/us-east-1/customJobs",
        "/v1/projects/mine/locations/us-east-1/endpoints/1:rawPredict",
        "/v1/projects/mine/locations/us-east-1/publishers/a/models/m:rawPredict?upload=1",
        "/v1/messages",
    ] {
        assert_eq!(status(&post(&vertex, path, "", "{}")), 404, "{path}");
    }
    assert_eq!(status(&bedrock.get(INVOKE, "")), 404, "only POST");
    assert!(seen.lock().unwrap().is_empty());
    let path = "/v1/projects/mine/locations/us-east-1/publishers/anthropic/models/m:rawPredict";
    assert_eq!(status(&post(&vertex, path, "", "{}")), 200);
    assert_eq!(header(&seen.lock().unwrap()[0], "authorization"), Some("Bearer ya29.real"));
}

/// AWS repeats the request that it would have signed, with its token, when a signature is wrong.
#[test]
fn credential_in_an_upstream_error_is_removed() {
    let upstream = Server::start(|mut stream| {
        let request = read_request(&mut stream)?;
        let token = header(&request, "x-amz-security-token").unwrap_or("none");
        let said = header(&request, "authorization").unwrap_or("none");
        let body = format!("{{\"message\":\"not {token} {said}\"}}");
        let length = body.len();
        let head = format!(
            "HTTP/1.1 403 Forbidden\r\nX-Echo: {token}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        std::io::Write::write_all(stream.get_mut(), (head + &body).as_bytes())
    });
    let gateway = in_cloud(Api::Bedrock, KEYS, &upstream, None);
    let answer = post(&gateway, INVOKE, "", "{}");
    assert_eq!(status(&answer), 403);
    assert!(answer.contains("{\"message\":\"not [removed by pinfold] AWS4"), "{answer}");
    assert!(!answer.contains("AKIDEXAMPLE") && !answer.contains("session-token"), "{answer}");
    let key = "sk-ant-api03-the-real-key";
    let answer = TestGateway::before(upstream.address).get("/v1/x", "");
    assert!(status(&answer) == 403 && !answer.contains(key), "{answer}");
    let shown = gateway.journal.shown.lock().unwrap().clone();
    assert_eq!(shown, ["cloud answered 403: the key or login is refused"]);
}

#[test]
fn the_list_of_models_counts_in_a_cloud() {
    let (upstream, seen) = Server::answering(OK);
    let source = Arc::new(|| Ok(secret(KEYS)));
    let listed = Route {
        api: Api::Bedrock,
        credential: credential(CredentialKind::ApiKey, source),
        cloud: place(None),
        models: Some(vec!["us.anthropic.*".to_owned()]),
        ..route("cloud", &format!("http://{}", upstream.address))
    };
    let gateway = TestGateway::with(vec![listed], TrustRoots::System);
    assert_eq!(status(&post(&gateway, INVOKE, "", "{}")), 200);
    let other = post(&gateway, "/model/meta.llama/invoke", "", "{}");
    assert_eq!(status(&other), 403);
    let in_body = post(&gateway, INVOKE, "", "{\"model\":\"meta.llama\"}");
    assert_eq!(status(&in_body), 403, "{in_body}");
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[test]
fn a_server_without_keys_gets_none() {
    let (upstream, seen) = Server::answering(OK);
    let refuses = Arc::new(|| -> Result<_, _> { panic!("nothing is read") });
    let route = Route {
        api: Api::OpenAi,
        credential: credential(CredentialKind::None, refuses),
        ..route("ollama", &format!("http://{}", upstream.address))
    };
    let gateway = TestGateway::with(vec![route], TrustRoots::System);
    assert_eq!(status(&post(&gateway, "/v1/chat/completions", "", "{}")), 200);
    let seen = seen.lock().unwrap();
    assert_eq!(header(&seen[0], "authorization"), None);
    assert!(!seen[0].contains(&gateway.key), "{}", seen[0]);
}

#[test]
fn a_key_goes_in_the_header_that_a_provider_wants() {
    let (upstream, seen) = Server::answering(OK);
    let mut own = credential(CredentialKind::ApiKey, Arc::new(|| Ok(secret("real"))));
    own.key_header = Some(HeaderName::from_static("api-key"));
    let address = format!("http://{}/openai/v1", upstream.address);
    let azure = Route { api: Api::OpenAi, credential: own, ..route("azure", &address) };
    let gateway = TestGateway::with(vec![azure], TrustRoots::System);
    assert_eq!(status(&post(&gateway, "/v1/responses", "api-key: forged\r\n", "{}")), 200);
    let seen = seen.lock().unwrap();
    assert!(seen[0].starts_with("POST /openai/v1/responses "), "{}", seen[0]);
    assert_eq!(
        (header(&seen[0], "api-key"), header(&seen[0], "authorization")),
        (Some("real"), None)
    );
}

/// The client follows it by itself, with its own key, and nothing goes to the other server from here.
#[test]
fn a_redirect_of_the_upstream_carries_no_key_elsewhere() {
    let (elsewhere, seen) = Server::answering(OK);
    let location = format!("http://{}/v1/x", elsewhere.address);
    let upstream = Server::start(move |mut stream| {
        read_request(&mut stream)?;
        let answer = format!(
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        );
        std::io::Write::write_all(stream.get_mut(), answer.as_bytes())
    });
    assert_eq!(status(&TestGateway::before(upstream.address).get("/v1/x", "")), 307);
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn plain_http_to_another_machine_is_accepted_only_when_it_is_said() {
    assert!(Upstream::parse("http://llm.corp:4000").is_err());
    assert_eq!(Upstream::parse_plain("http://llm.corp:4000").unwrap().port(), 4000);
    assert!(Upstream::parse_plain("ftp://llm.corp").is_err());
}
