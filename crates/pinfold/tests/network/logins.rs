//! Credentials that change on the host while sessions run, and logins that are refreshed there.

use std::fs::{self, File};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pinfold_testkit::{ModelServer, Script, Stage, TokenServer, User, installed, people, skip};

/// A program with a provider on this machine.
fn agent(model: &ModelServer, tokens: &TokenServer) -> String {
    let (base_url, token_url) = (model.base_url(), tokens.url());
    format!(
        r#"
name = "probe"
cli_command = "python3"
default_provider = "local"
[providers.local]
auth_modes = ["api_key", "oauth", "gateway"]
default_auth_mode = "api_key"
api = "anthropic"
base_url = "{base_url}"
secret = "anthropic"
env = {{ URL = "{{gateway}}", KEY = "{{key}}" }}
[providers.local.auth.oauth]
key_prefix = "sk-ant-oat01-"
token_url = "{token_url}"
client_id = "probe"
"#
    )
}

/// What claude keeps, with a login that ends so many milliseconds from now.
fn credentials(ends_in: i64) -> String {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let end = i64::try_from(now).unwrap() + ends_in;
    format!(
        r#"{{"claudeAiOauth":{{"accessToken":"{}","refreshToken":"{}","expiresAt":{end}}}}}"#,
        TokenServer::access(0),
        pinfold_testkit::token_server::FIRST_REFRESH
    )
}

/// Asks for the models on one connection: at once, and again for each line on a file that appears.
const PROBE: &str = r#"
import http.client, os, pathlib, time
url, key = os.environ['URL'].split('//')[1], os.environ['KEY']
connection = http.client.HTTPConnection(url)
def ask():
    connection.request('GET', '/v1/models', headers={'x-api-key': key})
    answer = connection.getresponse()
    text = answer.read().decode()
    said = 'again' if answer.getheader('x-should-retry') == 'true' else ''
    print(answer.status, 'pinfold secret' in text, said, key[:13], flush=True)
ask()
for turn in range(int(os.environ.get('TURNS', '0'))):
    while not pathlib.Path(f'go-{turn}').exists(): time.sleep(0.01)
    ask()
"#;

fn with_python(test: &str) -> Vec<User> {
    if installed("python3") {
        return people();
    }
    skip(test, "python3 is not installed");
    Vec::new()
}

struct Scene {
    stage: Stage,
    tokens: TokenServer,
}

impl Scene {
    /// A person with an agent whose upstream takes these keys.
    fn new(person: User, keys: &[&str]) -> Self {
        let (stage, tokens) = (Stage::new(person), TokenServer::start().unwrap());
        let options = pinfold_testkit::Options {
            require_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            ..pinfold_testkit::Options::default()
        };
        let model = ModelServer::start_with(Script::fix_the_bug(), options).unwrap();
        stage.write("home/.config/pinfold/agents/probe.toml", agent(&model, &tokens));
        // It serves as long as the test runs.
        std::mem::forget(model);
        Self { stage, tokens }
    }

    fn secret(&self, arguments: &[&str], value: &str) -> (bool, String) {
        let file = self.stage.write("tmp/value", value);
        let mut command = self.stage.pinfold(&["secret"]);
        let output = command.args(arguments).stdin(File::open(&file).unwrap()).output().unwrap();
        fs::remove_file(file).unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn probe(&self, turns: usize) -> Child {
        let turns = format!("TURNS={turns}");
        let mut run = self.stage.pinfold(&["run", "probe", "--env", &turns, "--", "-c", PROBE]);
        run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn log_in(&self, ends_in: i64) {
        self.stage.write("home/.claude/.credentials.json", credentials(ends_in));
        let (done, said) = self.secret(&["import", "claude"], "");
        assert!(done && said.contains("anthropic (oauth) is now taken from login"), "{said}");
        assert!(!said.contains("sk-ant-o"), "{said}");
    }
}

fn said(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until the probe has printed so many answers: they are in the audit log.
fn wait_for_answers(scene: &Scene, count: usize) {
    let began = Instant::now();
    loop {
        let audit = scene.stage.pinfold(&["audit", "--json"]).output().unwrap().stdout;
        let audit = String::from_utf8_lossy(&audit).into_owned();
        let answers = ["\"event\":\"credential-use\"", "\"door\":\"gateway\""];
        let answered = audit.lines().filter(|line| answers.iter().any(|a| line.contains(a)));
        if answered.count() >= count {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{audit}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_live_session_uses_a_rotated_secret_and_loses_a_revoked_one() {
    for person in with_python("rotation") {
        let scene = Scene::new(person, &["second-key"]);
        scene.secret(&["set", "anthropic"], "first-key");
        let probe = scene.probe(3);
        let next = |turn: usize| {
            scene.stage.write(&format!("ws/go-{turn}"), "");
            wait_for_answers(&scene, turn + 2);
        };
        wait_for_answers(&scene, 1);
        scene.secret(&["rotate", "anthropic"], "second-key");
        next(0);
        scene.secret(&["revoke", "anthropic"], "");
        next(1);
        scene.secret(&["set", "anthropic"], "second-key");
        next(2);
        let said = said(probe);
        let statuses: Vec<_> = said.lines().map(|line| &line[..3]).collect();
        assert_eq!(statuses, ["401", "200", "503", "200"], "{said}");
        assert!(said.lines().nth(2).unwrap().starts_with("503 True"), "{said}");
    }
}

#[test]
fn eight_sessions_refresh_an_imported_login_once() {
    for person in with_python("refreshing once") {
        let scene = Scene::new(person, &[&TokenServer::access(1)]);
        scene.log_in(-1);
        scene.tokens.pause(Duration::from_millis(200));
        let sessions: Vec<_> = (0..8).map(|_| scene.probe(0)).collect();
        for session in sessions {
            assert_eq!(
                said(session),
                "200 False  sk-ant-oat01-\n",
                "its key has the shape of a login's"
            );
        }
        assert_eq!((scene.tokens.given(), scene.tokens.refusals()), (1, 0));
    }
}

#[test]
fn a_login_that_has_ended_is_mended_by_another_import() {
    for person in with_python("a login that ended") {
        let scene = Scene::new(person, &[&TokenServer::access(0)]);
        scene.log_in(-1);
        scene.tokens.end_login();
        let probe = scene.probe(1);
        wait_for_answers(&scene, 1);
        scene.log_in(3_600_000);
        scene.stage.write("ws/go-0", "");
        let said = said(probe);
        assert_eq!(said, "503 True  sk-ant-oat01-\n200 False  sk-ant-oat01-\n");
    }
}
