//! claude and codex on the host, without tools of their own: what they do, they do through
//! `pinfold mcp`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pinfold_testkit::agent::{KEY, cache, own_tree, ready};
use pinfold_testkit::{ModelServer, Script, Stage, TempRepo, executable, processes_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const TOOLS: [&str; 13] = [
    "bash",
    "edit",
    "find",
    "grep",
    "ls",
    "read",
    "session_list",
    "session_start",
    "session_stop",
    "snapshot_build",
    "snapshot_inspect",
    "stat",
    "write",
];

/// How codex is kept from its own tools. What is left of them asks a person, or reads what servers
/// of this protocol offer; `apply_patch`, which some models bring along, writes nothing in a
/// read-only sandbox.
const CODEX: &str = r#"
check_for_update_on_startup = false
cli_auth_credentials_store = "file"
model = "MODEL"
model_provider = "gateway"
sandbox_mode = "read-only"
approval_policy = "never"
web_search = "disabled"
[model_providers.gateway]
name = "gateway"
base_url = "BASE/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
supports_websockets = false
[analytics]
enabled = false
[features]
apps = false
goals = false
hooks = false
multi_agent = false
plugins = false
shell_tool = false
unified_exec = false
view_image = false
[agents]
enabled = false
[mcp_servers.pinfold]
command = "PINFOLD"
args = ["mcp"]
default_tools_approval_mode = "approve"
"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agent {
    Claude,
    Codex,
}

impl Agent {
    fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    /// A call of a tool of pinfold's, as its model says it.
    fn call(self, tool: &str, input: Value) -> Value {
        let name = match self {
            Self::Claude => format!("mcp__pinfold__{tool}"),
            // Tools of a server are in a namespace.
            Self::Codex => tool.to_owned(),
        };
        json!({ "tool": { "name": name, "input": input } })
    }
}

struct Scene {
    agent: Agent,
    stage: Stage,
    repo: TempRepo,
    server: ModelServer,
    program: PathBuf,
}

impl Scene {
    /// None, and the reason said, where that cannot be.
    fn new(test: &str, agent: Agent, steps: Vec<Value>) -> Option<Self> {
        let stage = Stage::new(ready(test)?);
        let repo = TempRepo::new();
        repo.write("a.txt", "hello\n");
        // Without a person claude asks nobody before it runs these on the host.
        let hook = json!([{ "hooks": [{ "type": "command", "command": "touch made-outside" }] }]);
        let hooks = json!({ "hooks": { "SessionStart": hook, "PreToolUse": hook } });
        repo.write(".claude/settings.json", &hooks.to_string());
        repo.commit("a file");
        own_tree(&stage, repo.outer());
        let script = json!({ "steps": steps });
        let script = Script::parse(script.to_string().as_bytes()).unwrap();
        let server = ModelServer::require_key(script, KEY).unwrap();
        stage.write("home/secret", "HOST-SECRET");
        let program = provisioned(&stage, agent);
        let scene = Self { agent, stage, repo, server, program };
        scene.configure("gpt-5.4");
        Some(scene)
    }

    fn configure(&self, model: &str) {
        let config = CODEX
            .replace("MODEL", model)
            .replace("BASE", &self.server.base_url())
            .replace("PINFOLD", executable());
        self.stage.write("home/.codex/config.toml", config);
    }

    fn command(&self) -> Command {
        let mut command = self.stage.command(&self.program);
        let servers = json!({ "mcpServers": {
            "pinfold": { "command": executable(), "args": ["mcp"] },
        } });
        match self.agent {
            Agent::Claude => command
                .args(["-p", "go", "--tools", "", "--strict-mcp-config", "--mcp-config"])
                .arg(servers.to_string())
                .args(["--allowedTools", "mcp__pinfold", "--setting-sources", "user"]),
            Agent::Codex => command.args([
                "exec",
                "--ephemeral",
                "--skip-git-repo-check",
                "--strict-config",
                "go",
            ]),
        };
        command
            .current_dir(self.repo.path())
            .env("ANTHROPIC_API_KEY", KEY)
            .env("OPENAI_API_KEY", KEY)
            .env("ANTHROPIC_BASE_URL", self.server.base_url())
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::null());
        command
    }

    /// Has the agent go through the script, and gives what tools said to the model.
    fn play(&self) -> String {
        let output = self.command().output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.contains("DONE"), "{said}\n{errors}");
        self.told()
    }

    fn told(&self) -> String {
        let requests = self.server.requests();
        let last = requests.iter().rev().find_map(|request| request.json()).unwrap();
        let messages = if last["messages"].is_null() { &last["input"] } else { &last["messages"] };
        messages.to_string()
    }

    /// The agent's own tools, and pinfold's, as its model is told of them.
    fn offered(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let requests = self.server.requests();
        let body = requests.iter().rev().find_map(|request| request.json()).unwrap();
        let (mut own, mut others) = (BTreeSet::new(), BTreeSet::new());
        for tool in body["tools"].as_array().unwrap() {
            let name = tool["name"].as_str().unwrap().to_owned();
            if name == "mcp__pinfold" {
                let tools = tool["tools"].as_array().unwrap().iter();
                others.extend(tools.map(|tool| tool["name"].as_str().unwrap().to_owned()));
            } else if let Some(tool) = name.strip_prefix("mcp__pinfold__") {
                others.insert(tool.to_owned());
            } else {
                own.insert(name);
            }
        }
        (own, others)
    }
}

/// The agent's program in its layer, fetched if that is not there.
fn provisioned(stage: &Stage, agent: Agent) -> PathBuf {
    let layers = cache(stage.user).join("pinfold/agents");
    let find = || {
        let layers = fs::read_dir(&layers).into_iter().flatten().flatten();
        layers.map(|layer| layer.path()).find(|layer| {
            let about = fs::read(layer.join("layer.json")).unwrap_or_default();
            let about: Value = serde_json::from_slice(&about).unwrap_or_default();
            about["agent"] == agent.name()
        })
    };
    if find().is_none() {
        let key = stage.write("tmp/key", KEY);
        for name in ["anthropic", "openai"] {
            let mut set = stage.pinfold(&["secret", "set", name]);
            set.stdin(fs::File::open(&key).unwrap()).stderr(Stdio::null()).status().unwrap();
        }
        let mut run = stage.pinfold(&["run", "--unattended", agent.name(), "--", "--version"]);
        run.env("XDG_CACHE_HOME", cache(stage.user)).output().unwrap();
    }
    find().unwrap().join("tree/bin").join(agent.name())
}

#[test]
fn an_agent_without_tools_of_its_own_works_inside_and_its_key_stays_outside() {
    for agent in [Agent::Claude, Agent::Codex] {
        let look = "hostname; echo key=$ANTHROPIC_API_KEY$OPENAI_API_KEY; env; cat ~/secret; \
            cat /proc/[0-9]*/environ; echo end";
        let edits = json!([{ "old": "hello", "new": "bye" }]);
        let png = b"\x89PNG\r\n\x1a\n not shown".as_slice();
        let steps = vec![
            agent.call("bash", json!({ "command": look })),
            agent.call("read", json!({ "path": "a.txt" })),
            agent.call("edit", json!({ "path": "a.txt", "edits": edits })),
            agent.call("write", json!({ "path": "new/b.txt", "content": "written\n" })),
            agent.call("grep", json!({ "pattern": "b.e", "mode": "lines", "path": "." })),
            agent.call("find", json!({ "pattern": "*.txt" })),
            agent.call("ls", json!({ "path": "new" })),
            agent.call("stat", json!({ "path": "new" })),
            agent.call("read", json!({ "path": "/etc/shadow" })),
            agent.call("write", json!({ "path": "/srv/outside", "content": "x" })),
            agent.call("session_list", json!({})),
            json!({ "text": "DONE" }),
        ];
        let Some(scene) = Scene::new("agents over MCP", agent, steps) else { return };
        scene.stage.write("home/x.png", png);
        let told = scene.play();
        assert!(told.contains("pinfold\\n") && told.contains("key=\\n"), "{agent:?}: {told}");
        assert!(told.contains("end\\n"), "{agent:?}: {told}");
        assert!(!told.contains(KEY) && !told.contains("HOST-SECRET"), "{agent:?}: {told}");
        // The content itself, and not what is known about it.
        assert!(told.contains("hello"), "{agent:?}: {told}");
        assert!(told.contains("a.txt:1:bye") && told.contains("new/b.txt"), "{agent:?}: {told}");
        assert!(told.contains("b.txt\\n") && told.contains("directory"), "{agent:?}: {told}");
        for path in ["/etc/shadow", "/srv/outside"] {
            let refused = format!("path escapes workspace: {path}");
            assert!(told.contains(&refused), "{agent:?}: {told}");
        }
        assert!(!told.contains("root:x:0"), "{agent:?}: {told}");
        assert!(!scene.repo.path().join("made-outside").exists(), "{agent:?}: a hook ran");
        assert_eq!(scene.repo.read("a.txt"), "bye\n");
        assert_eq!(scene.repo.read("new/b.txt"), "written\n");
        assert!(!Path::new("/srv/outside").exists());
        let (own, others) = scene.offered();
        assert_eq!(others, TOOLS.map(str::to_owned).into());
        let harmless: &[&str] = match agent {
            Agent::Claude => &["DeferredToolPlaceholder"],
            Agent::Codex => &[
                "list_mcp_resource_templates",
                "list_mcp_resources",
                "read_mcp_resource",
                "request_user_input",
            ],
        };
        assert!(own.iter().all(|name| harmless.contains(&name.as_str())), "{agent:?}: {own:?}");
    }
}

#[test]
fn calls_of_an_agents_own_tools_do_nothing_on_the_host() {
    let touch = "touch made-outside; hostname";
    let own = |name: &str, input: Value| json!({ "tool": { "name": name, "input": input } });
    let scripts = [
        (
            Agent::Claude,
            "",
            vec![
                own("Bash", json!({ "command": touch, "description": "x" })),
                own("Write", json!({ "file_path": "made-outside", "content": "x" })),
                own("Read", json!({ "file_path": "a.txt" })),
            ],
        ),
        (
            Agent::Codex,
            "gpt-5.4",
            vec![
                own("exec_command", json!({ "cmd": touch })),
                own("shell", json!({ "command": ["sh", "-c", touch] })),
                own("view_image", json!({ "path": "a.txt" })),
            ],
        ),
        // It brings a tool that writes.
        (
            Agent::Codex,
            "gpt-5.5",
            vec![own(
                "apply_patch",
                "*** Begin Patch\n*** Add File: made-outside\n+x\n*** End Patch\n".into(),
            )],
        ),
    ];
    for (agent, model, mut steps) in scripts {
        let calls = steps.len();
        steps.push(json!({ "text": "DONE" }));
        let Some(scene) = Scene::new("own tools of agents", agent, steps) else { return };
        scene.configure(model);
        let told = scene.play();
        assert!(!scene.repo.path().join("made-outside").exists(), "{agent:?} {model}: {told}");
        assert!(!told.contains("hello"), "{agent:?} {model}: {told}");
        let refusals = ["No such tool available", "unsupported call", "patch rejected"];
        let refused: usize = refusals.iter().map(|refusal| told.matches(refusal).count()).sum();
        assert!(refused >= calls, "{agent:?} {model}: {told}");
    }
}

#[test]
fn when_pinfold_is_killed_nothing_happens_on_the_host() {
    for agent in [Agent::Claude, Agent::Codex] {
        let mark = format!("2{:07}", std::process::id());
        let steps = vec![
            agent.call("bash", json!({ "command": format!("touch began; sleep {mark}") })),
            agent.call("bash", json!({ "command": "hostname > where; touch ~/made-outside" })),
            agent.call("write", json!({ "path": "../made-outside", "content": "x" })),
            json!({ "text": "DONE" }),
        ];
        let Some(scene) = Scene::new("killed under an agent", agent, steps) else { return };
        let workspace = scene.repo.path().to_owned();
        let killer = std::thread::spawn(move || {
            while !workspace.join("began").exists() {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            // The server of this test is the one whose directory is this test's repository.
            let program = format!("{}\0mcp\0", executable());
            for pid in processes_with(&program) {
                if fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == workspace) {
                    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
                }
            }
        });
        let told = scene.play();
        killer.join().unwrap();
        let failed = ["Connection closed", "Transport closed", "not connected"];
        assert!(failed.iter().any(|failed| told.contains(failed)), "{agent:?}: {told}");
        // A client may start the server again: then it is a new inside.
        let at = fs::read_to_string(scene.repo.path().join("where"));
        assert!(at.as_ref().is_err() || at.is_ok_and(|at| at == "pinfold\n"), "{agent:?}: {told}");
        for place in [scene.stage.path("home"), scene.repo.outer().to_owned()] {
            assert!(!place.join("made-outside").exists(), "{agent:?}: {told}");
        }
        let began = std::time::Instant::now();
        while !processes_with(&format!("sleep\0{mark}\0")).is_empty() {
            assert!(began.elapsed().as_secs() < 20, "{agent:?}: it still runs");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
