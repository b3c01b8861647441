//! Where models are: base URLs, servers of one's own, clouds, and providers that do not answer.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, User, installed, people, skip};

/// An agent that speaks every API. Its own provider is not there.
const AGENT: &str = r#"
name = "probe"
cli_command = "python3"
default_provider = "nobody"
[providers.nobody]
auth_modes = ["api_key"]
default_auth_mode = "api_key"
api = "anthropic"
base_url = "http://127.0.0.1:9"
secret = "nobody"
env_var_name = "NOBODY_KEY"
host = { base_url = ["NOBODY_BASE_URL"] }
env = { URL = "{gateway}", KEY = "{key}" }
[providers.bedrock]
auth_modes = ["api_key", "gateway"]
default_auth_mode = "api_key"
api = "bedrock"
base_url = "https://bedrock-runtime.{region}.amazonaws.com"
secret = "bedrock"
host = { chosen_by = ["USE_BEDROCK"], region = ["AWS_REGION"] }
env = { URL = "{gateway}", KEY = "{key}" }
[providers.vertex]
auth_modes = ["api_key", "gateway"]
default_auth_mode = "gateway"
api = "vertex"
base_url = "https://{region}-aiplatform.googleapis.com"
secret = "vertex"
env = { URL = "{gateway}", KEY = "{key}" }
[compatible.openai]
env = { URL = "{gateway}", KEY = "{key}" }
"#;

/// Sends one request to the path PATH_ASKED and prints the status and the body.
const ASK: &str = r#"
import http.client, os
url, key = os.environ['URL'].split('//')[1], os.environ['KEY']
connection = http.client.HTTPConnection(url)
headers = {'authorization': 'Bearer ' + key, 'content-type': 'application/json'}
connection.request('POST', os.environ['PATH_ASKED'], '{"model":"m"}', headers)
answer = connection.getresponse()
print(answer.status, answer.read().decode(), key)
"#;

/// A server that keeps every request and answers each with the same.
struct Server {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    fn answering(status: &'static str, body: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let mut request = String::new();
                while !request.ends_with("\r\n\r\n") && stream.read_line(&mut request).unwrap() > 0
                {
                }
                let length = request.to_lowercase();
                let length =
                    length.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
                let mut rest = vec![0; length.map_or(0, |length| length.parse().unwrap())];
                stream.read_exact(&mut rest).unwrap();
                request.push_str(&String::from_utf8_lossy(&rest));
                keep.lock().unwrap().push(request);
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
                     Connection: close\r\n\r\n{body}"
                );
                // The client may be gone.
                let _ = stream.get_mut().write_all(answer.as_bytes());
            }
        });
        Self { url, seen }
    }

    fn one(&self) -> String {
        let seen = self.seen.lock().unwrap();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }
}

fn stages(test: &str) -> Vec<Stage> {
    if !installed("python3") {
        skip(test, "python3 is not installed");
        return Vec::new();
    }
    let stage = |user: User| {
        let stage = Stage::new(user);
        stage.write("home/.config/pinfold/agents/probe.toml", AGENT);
        stage
    };
    people().into_iter().map(stage).collect()
}

fn set(stage: &Stage, id: &str, value: &str) {
    let file = stage.write("tmp/key", value);
    let mut set = stage.pinfold(&["secret", "set", id]);
    let set = set.stdin(fs::File::open(&file).unwrap()).stderr(Stdio::null()).status().unwrap();
    assert!(set.success());
    fs::remove_file(file).unwrap();
}

fn ask(stage: &Stage, options: &[&str], path: &str, env: &[(&str, &str)]) -> (String, Output) {
    let path = format!("PATH_ASKED={path}");
    let mut run = stage.pinfold(&["run", "--env", &path]);
    run.args(options).args(["probe", "--", "-c", ASK]).envs(env.iter().copied());
    let output = run.output().unwrap();
    (String::from_utf8_lossy(&output.stderr).into_owned(), output)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_base_url_and_a_key_of_the_callers_variables_are_used_together() {
    for stage in stages("a base URL of the caller") {
        let server = Server::answering("200 OK", "{}");
        let env = [("NOBODY_BASE_URL", server.url.as_str()), ("NOBODY_KEY", "sk-real-key")];
        let (errors, output) = ask(&stage, &[], "/v1/messages", &env);
        assert!(said(&output).starts_with("200 {}"), "{errors}");
        assert!(errors.contains(&format!("go to {} (NOBODY_BASE_URL)", server.url)), "{errors}");
        let request = server.one();
        assert!(request.to_lowercase().contains("x-api-key: sk-real-key"), "{request}");
        assert!(!said(&output).contains("sk-real-key"));
    }
}

/// An Ollama, an LM Studio, a LiteLLM without keys.
#[test]
fn a_server_without_keys_needs_no_secret() {
    for stage in stages("a server without keys") {
        let server = Server::answering("200 OK", "{\"choices\":[]}");
        let config = format!("[providers.ollama]\nbase_url = \"{}/v1\"", server.url);
        stage.write("home/.config/pinfold/config.toml", config);
        let options = ["--provider", "ollama", "--model", "qwen"];
        let (errors, output) = ask(&stage, &options, "/v1/chat/completions", &[]);
        assert!(said(&output).starts_with("200 {\"choices\":[]}"), "{errors}");
        let request = server.one();
        assert!(request.starts_with("POST /v1/chat/completions "), "{request}");
        assert!(!request.to_lowercase().contains("authorization"), "{request}");
    }
}

#[test]
fn a_provider_of_ones_own_has_its_own_name_and_variable() {
    for stage in stages("a provider of one's own") {
        let server = Server::answering("200 OK", "{}");
        let config = format!(
            "provider = \"corp\"\n[providers.corp]\napi = \"openai\"\nbase_url = \"{}\"",
            server.url
        );
        stage.write("home/.config/pinfold/config.toml", config);
        let (errors, _) = ask(&stage, &[], "/v1/responses", &[]);
        assert!(
            errors.contains("no credential for corp") && errors.contains("CORP_API_KEY"),
            "{errors}"
        );
        let (errors, output) = ask(&stage, &[], "/v1/responses", &[("CORP_API_KEY", "real")]);
        assert!(said(&output).starts_with("200"), "{errors}");
        assert!(server.one().to_lowercase().contains("authorization: bearer real"));
    }
}

#[test]
fn requests_to_bedrock_are_signed_and_nothing_else_is_asked_for() {
    const KEYS: &str = r#"{"Version":1,"AccessKeyId":"AKIDREAL","SecretAccessKey":"real/secret","SessionToken":"real-token"}"#;
    for stage in stages("Bedrock") {
        // It repeats what it got, as AWS does when a signature is wrong.
        let server = Server::answering("403 Forbidden", "{\"message\":\"AKIDREAL real-token\"}");
        let config = format!("[providers.bedrock]\nbase_url = \"{}\"", server.url);
        stage.write("home/.config/pinfold/config.toml", config);
        set(&stage, "bedrock", KEYS);
        let env = [("USE_BEDROCK", "1"), ("AWS_REGION", "eu-west-1")];
        let (errors, output) = ask(&stage, &[], "/model/a.b-v1%3A0/invoke", &env);
        let answer = said(&output);
        assert!(answer.starts_with("403 "), "{answer} {errors}");
        assert!(!answer.contains("AKIDREAL") && !answer.contains("real-token"), "{answer}");
        assert!(errors.contains("provider bedrock (USE_BEDROCK)"), "{errors}");
        let line = format!("provider `bedrock` at {} answered 403", server.address());
        assert!(errors.contains(&line), "{errors}");
        let request = server.one().to_lowercase();
        assert!(
            request.contains("authorization: aws4-hmac-sha256 credential=akidreal/"),
            "{request}"
        );
        assert!(request.contains("/eu-west-1/bedrock/aws4_request"), "{request}");
        assert!(!request.contains("real/secret"), "{request}");
        let (_, output) = ask(&stage, &[], "/async-invoke", &env);
        assert!(said(&output).starts_with("404 "));
        server.one();
        let (errors, _) = ask(&stage, &[], "/model/a/invoke", &[("USE_BEDROCK", "1")]);
        assert!(errors.contains("provider bedrock needs a region"), "{errors}");
    }
}

/// The credential in the provider's own header, the path of its own, and what it says of an error once.
#[test]
fn openrouter_azure_and_vertex_get_their_own_key_and_path() {
    const MODEL: &str =
        "/v1/projects/mine/locations/us-east5/publishers/anthropic/models/m:streamRawPredict";
    for stage in stages("OpenRouter, Azure, Vertex") {
        for (provider, more, below, path, arrives, header) in [
            (
                "openrouter",
                "",
                "/api",
                "/v1/responses",
                "/api/v1/responses",
                "authorization: bearer real",
            ),
            ("azure", "", "/openai/v1", "/v1/responses", "/openai/v1/responses", "api-key: real"),
            (
                "vertex",
                "project = \"mine\"\nregion = \"us-east5\"",
                "",
                MODEL,
                MODEL,
                "authorization: bearer real",
            ),
        ] {
            let server = Server::answering("429 Too Many Requests", "{\"error\":\"real\"}");
            let base_url = format!("{}{below}", server.url);
            let config = format!("[providers.{provider}]\nbase_url = \"{base_url}\"\n{more}");
            stage.write("home/.config/pinfold/config.toml", config);
            set(&stage, provider, "real");
            let options = ["--provider", provider, "--model", "m"];
            let (errors, output) = ask(&stage, &options, path, &[]);
            let answer = said(&output);
            assert!(answer.starts_with("429 ") && !answer.contains("real"), "{answer} {errors}");
            let line = format!("provider `{provider}` at {} answered 429", server.address());
            assert_eq!(errors.matches(&line).count(), 1, "{errors}");
            let request = server.one();
            assert!(request.starts_with(&format!("POST {arrives} ")), "{request}");
            let request = request.to_lowercase();
            assert!(request.contains(&format!("\r\n{header}\r\n")), "{request}");
            assert_eq!(request.matches("real").count(), 1, "{request}");
        }
    }
}

#[test]
fn provider_that_does_not_answer_is_reported_within_seconds_and_once() {
    let twice = ASK.replace("answer = ", "connection.getresponse().read()\nconnection.request('POST', '/v1/messages', '{}', headers)\nanswer = ");
    for stage in stages("a provider that is not there") {
        set(&stage, "nobody", "sk-ant-api03-NOT-A-KEY");
        let began = Instant::now();
        let mut run = stage.pinfold(&["run", "--env", "PATH_ASKED=/v1/messages", "probe"]);
        let output = run.args(["--", "-c", &twice]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(began.elapsed() < Duration::from_secs(10), "{errors}");
        let line = "provider `nobody` at 127.0.0.1:9 did not answer: connect: Connection refused";
        assert_eq!(errors.matches(line).count(), 1, "{errors}");
    }
}

#[test]
fn no_file_of_a_repository_or_an_agent_says_where_the_key_goes() {
    for stage in stages("where the key goes") {
        let server = Server::answering("200 OK", "{}");
        set(&stage, "anthropic", "sk-ant-api03-NOT-A-KEY");
        let settings = format!("{{\"env\":{{\"ANTHROPIC_BASE_URL\":\"{}\"}}}}", server.url);
        stage.write("home/.claude/settings.json", &settings);
        let output = stage.pinfold(&["run", "claude"]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{errors}");
        assert!(
            errors.contains("~/.claude/settings.json has its own env.ANTHROPIC_BASE_URL"),
            "{errors}"
        );
        assert!(errors.contains("under [providers.anthropic] in config.toml"), "{errors}");

        set(&stage, "nobody", "sk-ant-api03-NOT-A-KEY");
        let providers =
            format!("{{\"providers\":{{\"nobody\":{{\"base_url\":\"{}\"}}}}}}", server.url);
        let env = format!("{{\"env\":{{\"ANTHROPIC_BASE_URL\":\"{}\"}}}}", server.url);
        for sandbox in [providers.as_str(), env.as_str(), "{\"provider\":\"nobody\"}"] {
            stage.write("ws/sandbox.json", sandbox);
            let (errors, output) = ask(&stage, &[], "/v1/messages", &[]);
            assert_eq!(output.status.code(), Some(125), "{sandbox}: {errors}");
        }
        assert!(server.seen.lock().unwrap().is_empty());
    }
}
