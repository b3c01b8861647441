//! Models and budgets of a session, a group and the administrator, from inside.

use std::fs;
use std::process::{Command, Stdio};

use pinfold_testkit::{ModelServer, Script, Stage, User, installed, people, skip};
use serde_json::Value;

const AGENT: &str = r#"
name = "probe"
cli_command = "python3"
default_provider = "local"
[providers.local]
auth_modes = ["api_key"]
default_auth_mode = "api_key"
api = "anthropic"
base_url = "http://127.0.0.1:9"
secret = "anthropic"
env = { URL = "{gateway}", KEY = "{key}" }
"#;

/// Asks as often as ASKS says, and prints each status with what the error says.
const PROBE: &str = r#"
import http.client, json, os
url, key = os.environ['URL'].split('//')[1], os.environ['KEY']
for _ in range(int(os.environ['ASKS'])):
    connection = http.client.HTTPConnection(url)
    body = {'model': os.environ['MODEL'], 'stream': True, 'messages': []}
    connection.request('POST', '/v1/messages', json.dumps(body), {'x-api-key': key})
    answer = connection.getresponse()
    text = answer.read().decode()
    said = json.loads(text)['error']['message'] if answer.status != 200 else ''
    print(answer.status, said, flush=True)
"#;

struct Scene {
    stage: Stage,
    _model: ModelServer,
}

impl Scene {
    fn new(user: User, config: &str) -> Self {
        let stage = Stage::new(user);
        let model = ModelServer::start(Script::fix_the_bug()).unwrap();
        stage.write("home/.config/pinfold/agents/probe.toml", AGENT);
        let url = format!("{config}\n[providers.local]\nbase_url = \"{}\"\n", model.base_url());
        stage.write("home/.config/pinfold/config.toml", url);
        let key = stage.write("tmp/key", "key");
        let mut set = stage.pinfold(&["secret", "set", "anthropic"]);
        let set = set.stdin(fs::File::open(key).unwrap()).stderr(Stdio::null()).status();
        assert!(set.unwrap().success());
        Self { stage, _model: model }
    }

    fn probe(&self, model: &str, asks: usize, options: &[&str]) -> Command {
        let (model, asks) = (format!("MODEL={model}"), format!("ASKS={asks}"));
        let mut run = self.stage.pinfold(&["run", "probe", "--env", &model, "--env", &asks]);
        run.args(options).args(["--", "-c", PROBE]).stdout(Stdio::piped()).stderr(Stdio::piped());
        run
    }

    fn ask(&self, model: &str, asks: usize, options: &[&str]) -> Vec<String> {
        let output = self.probe(model, asks, options).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said.lines().map(str::to_owned).collect()
    }
}

fn with_python(test: &str) -> Vec<User> {
    if installed("python3") {
        return people();
    }
    skip(test, "python3 is not installed");
    Vec::new()
}

const SONNET: &str = "claude-sonnet-4-5";

#[test]
fn flags_limit_one_session_and_its_usage_is_recorded() {
    for user in with_python("budgets of a session") {
        let scene = Scene::new(user, "");
        // The model server says 100 tokens in and 20 out for each answer.
        let said = scene.ask(SONNET, 3, &["--budget-tokens", "200"]);
        assert_eq!((&said[0][..3], &said[1][..3], &said[2][..3]), ("200", "200", "429"));
        assert!(
            said[2].contains("200 tokens for this session (set by --budget-tokens)"),
            "{said:?}"
        );
        let said = scene.ask(SONNET, 2, &["--budget-requests", "1"]);
        assert!(said[0].starts_with("200") && said[1].starts_with("429"), "{said:?}");
        let said = scene.ask(SONNET, 2, &["--budget-usd", "0.0005"]);
        assert!(
            said[0].starts_with("200") && said[1].contains("$0.0005 for this session"),
            "{said:?}"
        );
        let said = scene.ask("nobody-knows", 1, &["--budget-usd", "5"]);
        assert!(
            said[0].starts_with("403") && said[0].contains("[prices.\"nobody-knows\"]"),
            "{said:?}"
        );

        let audit = scene.stage.pinfold(&["audit", "--json"]).output().unwrap().stdout;
        let audit = String::from_utf8_lossy(&audit).into_owned();
        let usage = audit.lines().find(|line| line.contains("\"event\":\"usage\"")).unwrap();
        let usage: Value = serde_json::from_str(usage).unwrap();
        assert_eq!(
            (&usage["model"], &usage["input"], &usage["output"]),
            (&SONNET.into(), &100.into(), &20.into())
        );
        assert_eq!((&usage["usd"], &usage["estimated"]), (&0.0006.into(), &false.into()));
    }
}

#[test]
fn sessions_of_a_group_at_once_share_its_budget() {
    let config = "group = \"team\"\n[budget.group.team]\nrequests = 5\nper = \"month\"\n\
                  [budget.group.other]\nrequests = 1\nper = \"month\"";
    for user in with_python("budgets of a group") {
        let scene = Scene::new(user, config);
        let sessions: Vec<_> =
            (0..4).map(|_| scene.probe(SONNET, 2, &[]).spawn().unwrap()).collect();
        let outputs = sessions.into_iter().map(|session| session.wait_with_output().unwrap());
        let said: String =
            outputs.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).collect();
        let count = |status: &str| said.lines().filter(|line| line.starts_with(status)).count();
        assert_eq!((count("200"), count("429")), (5, 3), "{said}");
        assert!(said.contains("the budget of group team of 5 requests for this month"), "{said}");
        assert!(said.contains("it starts again at "), "{said}");
        let said = scene.ask(SONNET, 2, &["--group", "other"]);
        assert!(said[0].starts_with("200") && said[1].starts_with("429"), "{said:?}");
    }
}

#[test]
fn a_model_that_is_not_listed_is_refused() {
    let user = match with_python("a list of models").pop() {
        Some(user) => user,
        None => return,
    };
    let scene = Scene::new(user, "");
    let config = scene.stage.path("home/.config/pinfold/config.toml");
    let listed = format!("{}models = [\"claude-haiku*\"]\n", fs::read_to_string(&config).unwrap());
    scene.stage.write("home/.config/pinfold/config.toml", listed);
    let said = scene.ask(SONNET, 1, &[]);
    assert!(said[0].starts_with("403") && said[0].contains("(allowed: claude-haiku*)"), "{said:?}");
    assert_eq!(scene.ask("claude-haiku-4-5", 1, &[]), ["200 "]);
}

/// A worker that is started again, or another one, has what is left of the day.
#[test]
fn budget_of_tasks_is_for_all_sessions_of_tasks_and_no_others() {
    for user in with_python("the budget of tasks") {
        let scene = Scene::new(user, "[budget.tasks]\nrequests = 2\nper = \"month\"\n");
        let said = scene.ask(SONNET, 1, &["--task-budget"]);
        assert!(said[0].starts_with("200"), "{said:?}");
        let said = scene.ask(SONNET, 3, &[]);
        assert!(said.iter().all(|said| said.starts_with("200")), "{said:?}");
        let said = scene.ask(SONNET, 2, &["--task-budget"]);
        assert!(said[0].starts_with("200") && said[1].starts_with("429"), "{said:?}");
        assert!(said[1].contains("2 requests"), "{said:?}");
        let said = scene.ask(SONNET, 1, &["--task-budget", "--budget-requests", "9"]);
        assert!(said[0].starts_with("429"), "{said:?}");
    }
}
