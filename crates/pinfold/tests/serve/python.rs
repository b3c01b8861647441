//! The package for Python: its client, Inspect's conformance suite for sandboxes (PyPI `inspect-ai`), what mini-swe-agent
//! expects of an environment, and trials of Harbor.

use std::path::{Path, PathBuf};
use std::{env, fs};

use pinfold_testkit::{Stage, User, executable, people, skip};

const PYTHON: &str = "/usr/bin/python3";
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../integrations/python");

/// Returns the directory of packages with this one that `scripts/python-packages` has installed.
fn packages(with: &str) -> Option<PathBuf> {
    let own = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache =
        if User::current().is_root() { PathBuf::from("/var/cache") } else { own.or_else(home)? };
    let entries = fs::read_dir(cache.join("pinfold-peers")).ok()?.filter_map(Result::ok);
    let mut installed = entries.map(|entry| entry.path());
    installed.find(|path| path.join(with).is_dir())
}

/// Copies the package, and runs the tests of a file with it, by a Python and packages with this one.
fn pytest(what: &str, python: &Path, with: &str, file: &str, passed: &str) {
    let Some(packages) = packages(with) else {
        return skip(what, "`scripts/python-packages` has not installed what it needs");
    };
    for user in people() {
        let stage = Stage::new(user);
        if !stage.command(python).arg("--version").output().is_ok_and(|it| it.status.success()) {
            skip(what, &format!("{user:?} cannot run {}", python.display()));
            continue;
        }
        for directory in ["pinfold", "tests"] {
            for entry in fs::read_dir(Path::new(PACKAGE).join(directory)).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_file() {
                    let name =
                        format!("python/{directory}/{}", entry.file_name().to_str().unwrap());
                    stage.write(&name, fs::read(entry.path()).unwrap());
                }
            }
        }
        let tests = stage.path(&format!("python/tests/{file}"));
        let path = env::join_paths([stage.path("python"), packages.clone()]).unwrap();
        let output = stage
            .command(python)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"])
            .arg(tests)
            .env("PYTHONPATH", &path)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PINFOLD", executable())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        // A suite with fewer checks than that has collected nothing.
        assert!(said.contains(passed), "{said}");
    }
}

fn by_system(what: &str, file: &str, passed: &str) {
    pytest(what, Path::new(PYTHON), "minisweagent", file, passed);
}

#[test]
fn trials_of_harbor_run_in_sessions() {
    const WHAT: &str = "Harbor's environment";
    let interpreter =
        packages("harbor").and_then(|it| fs::read_to_string(it.join("interpreter")).ok());
    let Some(interpreter) = interpreter else {
        return skip(WHAT, "`scripts/python-packages` has found no Python 3.12 for it");
    };
    pytest(WHAT, Path::new(interpreter.trim()), "harbor", "test_harbor.py", "6 passed");
}

#[test]
fn inspects_conformance_suite_passes_except_for_other_users() {
    by_system("Inspect's conformance suite", "test_self_check.py", "43 passed, 1 xfailed");
}

#[test]
fn client_for_python_works_with_and_without_asyncio() {
    by_system("the client for Python", "test_client.py", "11 passed");
}

#[test]
fn environment_of_mini_swe_agent_is_as_its_own() {
    by_system("mini-swe-agent's environment", "test_mini_swe_agent.py", "1 passed");
}
