//! Only the models that are listed can be asked for.

use std::io::{BufReader, Read as _, Write as _};
use std::sync::{Arc, Mutex};

use pinfold_egress::{Api, Route, TrustRoots};

use super::support::{OK, Server, TestGateway, header, json, read_head, route, status};

fn gateway(api: Api, models: &[&str]) -> (TestGateway, Arc<Mutex<Vec<String>>>) {
    let (upstream, seen) = Server::answering(OK);
    let models = Some(models.iter().map(|model| (*model).to_owned()).collect());
    let address = format!("http://{}", upstream.address);
    let gateway =
        TestGateway::with(vec![Route { api, models, ..route("p", &address) }], TrustRoots::System);
    (gateway, seen)
}

fn post(gateway: &TestGateway, path: &str, headers: &str, body: &str) -> String {
    let (key, length) = (&gateway.key, body.len());
    gateway.raw(
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\n{headers}\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .as_bytes(),
    )
}

#[test]
fn a_model_is_read_from_the_body_of_each_api() {
    for (api, path) in [
        (Api::Anthropic, "/v1/messages"),
        (Api::OpenAi, "/v1/chat/completions"),
        (Api::OpenAi, "/p/p/v1/responses"),
    ] {
        let (gateway, seen) = gateway(api, &["good-1", "fine-*"]);
        for (model, expected) in [("good-1", 200), ("fine-x", 200), ("bad", 403), ("good-10", 403)]
        {
            let body = format!(r#"{{"messages":[{{"model":"good-1"}}],"model":"{model}"}}"#);
            let answer = post(&gateway, path, "", &body);
            assert_eq!(status(&answer), expected, "{path} {model}");
            if expected == 403 {
                let message = json(&answer)["error"]["message"].as_str().unwrap().to_owned();
                assert!(message.contains("good-1, fine-*"), "{message}");
                assert_eq!(header(&answer, "x-should-retry"), Some("false"));
            }
        }
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 2);
        assert!(seen[0].ends_with(r#""model":"good-1"}"#), "it arrives whole: {}", seen[0]);
    }
}

#[test]
fn a_model_of_geminis_is_read_from_the_path() {
    let (gateway, seen) = gateway(Api::Gemini, &["gemini-2.5-flash"]);
    let ask = |model: &str| {
        post(&gateway, &format!("/v1beta/models/{model}:generateContent?key=inside"), "", "{}")
    };
    assert_eq!(status(&ask("gemini-2.5-flash")), 200);
    let refused = ask("gemini-2.5-pro");
    assert_eq!(status(&refused), 403);
    assert_eq!(json(&refused)["error"]["status"], "PERMISSION_DENIED");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].starts_with("POST /v1beta/models/gemini-2.5-flash:generateContent HTTP"));
    assert!(
        header(&seen[0], "x-goog-api-key").is_some() && header(&seen[0], "x-api-key").is_none()
    );
}

#[test]
fn a_request_that_hides_its_model_is_refused() {
    let (gateway, seen) = gateway(Api::OpenAi, &["good"]);
    for (headers, body) in [
        ("", r#"{"model":"good","model":"bad"}"#),
        ("", r#"{"model":"good","model":"good"}"#),
        ("", r#"{"model":"good","Model":"bad"}"#),
        ("", r#"{"model":"good","x":{"y":1,"y":2}}"#),
        ("", "\u{feff}{\"model\":\"good\"}"),
        ("", "{\"model\":\"good\"}\0"),
        ("", r#"{"model":"good","x":"\ud800"}"#),
        ("", r#"{"model":"good","models":["bad"]}"#),
        ("", r#"{"model":"good","fallbacks":["good","bad"]}"#),
        ("", r#"{"model":"good","fallbacks":[{"good":["bad"]}]}"#),
        ("", r#"{"model":"good","tools":[{"type":"advisor","model":"bad"}]}"#),
        ("", r#"{"model":"good,bad"}"#),
        ("Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", r#"{"model":"good"}"#),
        ("", r#"{"input":"x"}"#),
        ("", r#"{"requests":[{"model":"good"}]}"#),
        ("", "model=good"),
        ("Content-Encoding: zstd\r\n", r#"{"model":"good"}"#),
    ] {
        let answer = post(&gateway, "/v1/responses", headers, body);
        assert_eq!(status(&answer), 403, "{body}");
    }
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(status(&gateway.get("/v1/models", "")), 200, "what names no model asks for none");
}

#[test]
fn a_body_in_utf_16_is_no_json_to_the_gateway() {
    let (gateway, seen) = gateway(Api::OpenAi, &["good"]);
    // To who reads bytes it names the model that is allowed, to who reads UTF-16 the other one.
    let hidden: Vec<u16> = b"\",\"model\":\"good\",\"x\":\""
        .chunks(2)
        .map(|pair| u16::from_le_bytes([pair[0], *pair.get(1).unwrap_or(&b' ')]))
        .collect();
    let text = format!(r#"{{"model":"bad","x":"{}"}}"#, String::from_utf16(&hidden).unwrap());
    let body: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let (key, length) = (&gateway.key, body.len());
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\n\
         Content-Type: application/json; charset=utf-16le\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    let answer = gateway.raw(&[head.as_bytes(), &body].concat());
    assert_eq!(status(&answer), 403, "{answer}");
    assert!(answer.contains("not a JSON object in UTF-8"), "{answer}");
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn judged_request_is_the_request_that_is_sent() {
    let (gateway, seen) = gateway(Api::OpenAi, &["good", "fine"]);
    let body = "{ \"mod\\u0065l\" : \"g\\u006fod\",\n \"n\": 1.50, \"models\": [\"fine\"], \"a\": \"\\/\" }";
    let headers = "Content-Type: application/x-www-form-urlencoded; charset=utf-7\r\n\
                   Content-MD5: x\r\nContent-Encoding: identity\r\n";
    let answer = post(&gateway, "/v1/chat%2Fcompletions", headers, body);
    assert_eq!(status(&answer), 403, "an encoded slash has two readings: {answer}");
    assert_eq!(status(&post(&gateway, "/v1/ch%61t/completions?a=%61", headers, body)), 200);
    let seen = seen.lock().unwrap();
    let expected = r#"{"model":"good","n":1.50,"models":["fine"],"a":"/"}"#;
    assert!(seen[0].starts_with("POST /v1/chat/completions?a=%61 HTTP"), "{}", seen[0]);
    assert!(seen[0].ends_with(&format!("\r\n\r\n{expected}")), "{}", seen[0]);
    assert_eq!(header(&seen[0], "content-type"), Some("application/json"));
    assert_eq!(header(&seen[0], "content-length"), Some(expected.len().to_string().as_str()));
    assert_eq!(header(&seen[0], "content-encoding"), None);
    assert_eq!(header(&seen[0], "content-md5"), None);
}

#[test]
fn a_path_of_geminis_in_another_shape_is_refused_whatever_the_body_says() {
    let (gateway, seen) = gateway(Api::Gemini, &["gemini-flash"]);
    let decoy = r#"{"model":"models/gemini-flash"}"#;
    for path in [
        "/v1beta/tunedModels/mine:generateContent",
        "/v1beta/dynamic/x:generateContent",
        "/v1beta//models/gemini-pro:generateContent",
        "/v1beta/models//gemini-pro:generateContent",
        "/v1beta/models/gemini-flash/gemini-pro:generateContent",
        "/v1beta/models/gemini-flash;x/gemini-pro:generateContent",
        "/v1beta/models/gemini-flash:generateContent/",
        "/v1beta/models/gemini-pro%3AgenerateContent",
        "/v1beta/models/gemini-flash:batchGenerateContent",
        "/v1beta/interactions",
        "/v1beta/cachedContents",
        "/v1/models/gemini-pro:generateContent",
        "/p/p/v1beta/models/gemini-pro:generateContent",
    ] {
        let answer = post(&gateway, path, "", decoy);
        assert_eq!(status(&answer), 403, "{path}: {answer}");
    }
    let flash = "/v1beta/models/gemini-flash:generateContent";
    assert_eq!(status(&post(&gateway, flash, "", r#"{"model":"models/gemini-pro"}"#)), 403);
    let embeds = r#"{"requests":[{"model":"models/gemini-pro"}]}"#;
    assert_eq!(
        status(&post(&gateway, "/v1beta/models/gemini-flash:batchEmbedContents", "", embeds)),
        403
    );
    assert_eq!(
        status(&post(&gateway, "/v1beta/openai/chat/completions", "", r#"{"model":"gemini-pro"}"#)),
        403
    );
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(status(&post(&gateway, flash, "", decoy)), 200);
    assert_eq!(
        status(&post(
            &gateway,
            "/v1beta/openai/chat/completions",
            "",
            r#"{"model":"gemini-flash"}"#
        )),
        200
    );
    assert_eq!(status(&gateway.get("/v1beta/models", "")), 200);
}

#[test]
fn a_tuned_model_of_geminis_can_be_listed() {
    let (gateway, seen) = gateway(Api::Gemini, &["tunedModels/mine"]);
    let ask = |model: &str| post(&gateway, &format!("/v1beta/{model}:generateContent"), "", "{}");
    assert_eq!(status(&ask("tunedModels/mine")), 200);
    assert_eq!(status(&ask("tunedModels/other")), 403);
    assert_eq!(status(&ask("models/mine")), 403);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

/// Sends a body that is not read to its end: its rest may meet a connection that is closed.
fn sent_slowly(gateway: &TestGateway, body: String) -> (u16, String) {
    let mut stream = gateway.connect();
    let (key, length) = (&gateway.key, body.len());
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut sending = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || sending.write_all(body.as_bytes()));
    let mut reader = BufReader::new(stream);
    let head = read_head(&mut reader).unwrap();
    let mut body = vec![0; header(&head, "content-length").unwrap().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    drop(reader);
    let _ = sender.join();
    (status(&head), String::from_utf8_lossy(&body).into_owned())
}

#[test]
fn a_long_body_is_judged_to_its_end_and_arrives_whole() {
    let (gateway, seen) = gateway(Api::OpenAi, &["good"]);
    let image = "aGVsbG8/".repeat(3 << 20);
    let body = |tail: &str| format!(r#"{{"model":"good","input":"{image}"{tail}}}"#);
    let (refused, answer) = sent_slowly(&gateway, body(r#","model":"bad""#));
    assert_eq!(refused, 403, "{answer}");
    assert!(answer.contains("the same key twice"), "{answer}");
    assert!(seen.lock().unwrap().is_empty(), "the upstream never had any of it");
    let (passed, _) = sent_slowly(&gateway, body(""));
    assert_eq!(passed, 200);
    assert!(seen.lock().unwrap()[0].ends_with(&body("")));
    let (refused, answer) = sent_slowly(&gateway, "x".repeat((32 << 20) + 1));
    assert_eq!(refused, 413, "{answer}");
    assert!(answer.contains("larger than 32 MiB"), "{answer}");
}

#[test]
fn responses_over_a_websocket_are_sent_back_to_http() {
    let (upstream, seen) = Server::answering(OK);
    let open = TestGateway::before(upstream.address);
    let (listed, also_seen) = gateway(Api::OpenAi, &["good"]);
    for (gateway, path) in [(&open, "/v1/responses"), (&listed, "/v1/realtime?model=good")] {
        let mut stream = gateway.connect();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n",
            gateway.key
        );
        stream.write_all(head.as_bytes()).unwrap();
        let head = read_head(&mut BufReader::new(stream)).unwrap();
        assert_eq!(status(&head), 426, "{path}");
    }
    assert!(seen.lock().unwrap().is_empty() && also_seen.lock().unwrap().is_empty());
}

/// Requests as agents send them.
const USUAL: [(Api, &str, &str); 5] = [
    (
        Api::Anthropic,
        "/v1/messages?beta=true",
        r#"{"model":"good","messages":[{"role":"user","content":[{"type":"text","text":"a \"b\" \\ \u001b[0m\n","cache_control":{"type":"ephemeral"}},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo/+=="}}]},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls","model":"x"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"é 😀"}]}],"system":[{"type":"text","text":"You are"}],"tools":[{"name":"Bash","description":"d","input_schema":{"type":"object","properties":{"model":{"type":"string","enum":["sonnet"]}},"required":["command"],"$schema":"http://json-schema.org/draft-07/schema#"}}],"metadata":{"user_id":"u"},"max_tokens":32000,"thinking":{"budget_tokens":31999,"type":"enabled"},"temperature":1,"stream":true}"#,
    ),
    (
        Api::OpenAi,
        "/v1/responses",
        r#"{"model":"good","instructions":"i","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"t"},{"type":"input_image","image_url":"data:image/png;base64,iVBOR/+="}]}],"tools":[{"type":"function","name":"shell","strict":false,"parameters":{"type":"object","properties":{"model":{"type":"string"}},"additionalProperties":false}},{"type":"web_search"}],"tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"medium","summary":"auto"},"store":false,"stream":true,"include":["reasoning.encrypted_content"],"prompt_cache_key":"0199"}"#,
    ),
    (
        Api::OpenAi,
        "/v1/chat/completions",
        r#"{"model":"good","messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"model\":\"x\",\"a\":1.50}"}}]}],"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":4096,"temperature":0.2,"top_p":1e-1}"#,
    ),
    (
        Api::Gemini,
        "/v1beta/models/good:streamGenerateContent?alt=sse",
        r#"{"contents":[{"parts":[{"text":"t"},{"inlineData":{"mimeType":"image/png","data":"iVBOR"}}],"role":"user"}],"systemInstruction":{"parts":[{"text":"s"}],"role":"user"},"tools":[{"functionDeclarations":[{"name":"f","description":"d","parametersJsonSchema":{"type":"object","properties":{"model":{"type":"string"}}}}]}],"generationConfig":{"temperature":0,"topP":1,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":-1}}}"#,
    ),
    (
        Api::Gemini,
        "/v1beta/models/good:countTokens",
        r#"{"contents":[{"parts":[{"text":"t"}],"role":"user"}]}"#,
    ),
];

#[test]
fn usual_requests_of_agents_arrive_byte_by_byte() {
    for (api, path, body) in USUAL {
        let (gateway, seen) = gateway(api, &["good"]);
        let answer = post(&gateway, path, "Content-Type: application/json\r\n", body);
        assert_eq!(status(&answer), 200, "{answer}");
        let seen = seen.lock().unwrap();
        assert!(seen[0].starts_with(&format!("POST {path} HTTP")), "{}", seen[0]);
        assert!(seen[0].ends_with(&format!("\r\n\r\n{body}")), "{}", seen[0]);
    }
}
