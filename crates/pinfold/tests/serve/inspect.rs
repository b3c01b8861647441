//! Inspect's conformance suite for sandboxes (PyPI `inspect-ai`), over the local API.

use std::path::{Path, PathBuf};
use std::{env, fs};

use pinfold_testkit::{Stage, User, executable, people, skip};

const PYTHON: &str = "/usr/bin/python3";
const INTEGRATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../integrations/inspect");
const FILES: [&str; 2] = ["pinfold_inspect.py", "test_self_check.py"];

/// Returns the packages that `scripts/inspect` has installed.
fn packages() -> Option<PathBuf> {
    let own = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache =
        if User::current().is_root() { PathBuf::from("/var/cache") } else { own.or_else(home)? };
    let entries = fs::read_dir(cache.join("pinfold-peers")).ok()?.filter_map(Result::ok);
    let mut installed = entries.map(|entry| entry.path());
    installed.find(|path| path.join("inspect_ai").is_dir())
}

#[test]
fn inspects_conformance_suite_passes_except_for_other_users() {
    let Some(packages) = packages() else {
        return skip("Inspect's conformance suite", "`scripts/inspect` has not installed it");
    };
    for user in people() {
        let stage = Stage::new(user);
        for name in FILES {
            let content = fs::read_to_string(Path::new(INTEGRATION).join(name)).unwrap();
            stage.write(&format!("ws/{name}"), &content);
        }
        let options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--asyncio-mode=auto"];
        let output = stage
            .command(Path::new(PYTHON))
            .args(options)
            .env("PYTHONPATH", &packages)
            .env("PINFOLD", executable())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        // One suite with fewer checks than that has collected nothing.
        assert!(said.contains("43 passed, 1 xfailed"), "{said}");
    }
}
