//! What a recipe file may say.
#![expect(clippy::unwrap_used, reason = "a failing helper is a failing test")]

mod common;

use std::path::Path;

use common::{BIN, package, recipe, tarball};
use pinfold_provision::{Platform, Recipe, RecipeError, Registry};
use proptest::prelude::*;

fn refused(packages: &str, bin: &str) -> String {
    let text = format!(
        r#"{{"format":1,"name":"agent","version":"1.0.0","packages":[{packages}],"bin":[{bin}]}}"#
    );
    Recipe::parse(text.as_bytes()).unwrap_err().to_string()
}

fn entry(path: &str) -> String {
    package("agent", b"").replace("node_modules/agent", path)
}

#[test]
fn a_path_that_leaves_the_layer_is_refused() {
    for path in [
        "../x",
        "/etc/x",
        "node_modules/../../x",
        "node_modules/./x",
        "node_modules//x",
        "node_modules/",
        "",
        "node_modules/a\\u0000b",
        "node_modules/a\\nb",
        "node_modules/a\\\\b",
    ] {
        let message = refused(&entry(path), "");
        assert!(message.contains("is not a plain relative path"), "{path:?}: {message}");
    }
    for path in ["bin", "bin/x", "node_modules", "layer.json", "node_modulesx/a"] {
        let message = refused(&entry(path), "");
        assert!(message.contains("must begin with `node_modules/`"), "{path:?}: {message}");
    }
    for path in ["../x", "/bin/sh", "node_modules/agent/../../../x"] {
        let bin = format!(r#"{{"command":"agent","path":"{path}"}}"#);
        let message = refused(&entry("node_modules/agent"), &bin);
        assert!(message.contains("is not a plain relative path"), "{path:?}: {message}");
    }
}

#[test]
fn a_command_is_one_word_and_starts_a_file_of_a_package() {
    for command in ["../sh", "a/b", "", ".", "..", "-x", "a b", "a\\u0000"] {
        let bin = BIN.replace("\"agent\"", &format!("\"{command}\""));
        let message = refused(&entry("node_modules/agent"), &bin);
        assert!(message.contains("is not a name"), "{command:?}: {message}");
    }
    let message = refused(&entry("node_modules/agent"), &BIN.replace("/agent/", "/other/"));
    assert!(message.contains("which is in no package of the recipe"), "{message}");
    let message = refused(&entry("node_modules/agent"), &BIN.replace("/agent/", "/agentx/"));
    assert!(message.contains("which is in no package of the recipe"), "{message}");
}

#[test]
fn two_entries_for_one_place_are_refused() {
    let one = entry("node_modules/agent");
    assert!(refused(&format!("{one},{one}"), "").contains("two packages are written to"));
    assert!(refused(&one, &format!("{BIN},{BIN}")).contains("command `agent` is given twice"));
    let x64 = BIN.replace('}', r#","cpu":"x64"}"#);
    assert!(refused(&one, &format!("{BIN},{x64}")).contains("given twice for linux x64"));
}

#[test]
fn unknown_keys_formats_and_weak_digests_are_refused() {
    let one = entry("node_modules/agent");
    let more = one.replace('}', r#","scripts":"x"}"#);
    assert!(refused(&more, "").contains("unknown field `scripts`"));
    let weak = one.replace("sha512-", "sha1-");
    assert!(refused(&weak, "").contains("expected `sha512-`"));
    let short = one.replace("sha512-", "sha512-AAAA");
    assert!(refused(&short, "").contains("expected `sha512-`"));
    assert!(refused(&one.replace("1.0.0", "^1.0.0"), "").contains("exact version"));
    assert!(refused(&one.replace("1.0.0", "1.0/../2"), "").contains("exact version"));
    assert!(refused("", "").contains("has no packages"));
    let text = br#"{"format":2,"name":"a","version":"1.0","packages":[],"bin":[]}"#;
    assert!(matches!(Recipe::parse(text), Err(RecipeError::Format(2))));
}

#[test]
fn the_hash_is_that_of_the_content_not_of_its_order() {
    let (a, b) = (package("a", b"a"), package("agent", b"b"));
    let one = recipe(&[a.clone(), b.clone()], BIN);
    let other = recipe(&[b.clone(), a.clone()], BIN);
    assert_eq!(one.hash().unwrap(), other.hash().unwrap());
    assert_eq!(Recipe::parse(&one.to_bytes().unwrap()).unwrap(), one);
    let changed = recipe(&[a, package("agent", b"c")], BIN);
    assert_ne!(one.hash().unwrap(), changed.hash().unwrap());
    assert_eq!(one.hash().unwrap().to_string().len(), 64);
}

#[test]
fn equal_tarballs_are_fetched_once_and_addresses_follow_the_registry() {
    let bytes = tarball(&[]);
    let scoped = package("b", &bytes).replace(r#""name":"b""#, r#""name":"@scope/b""#);
    let twice = package("b", &bytes).replace("_modules/b", "_modules/agent/node_modules/b");
    let agent = recipe(&[package("agent", b"x"), scoped, twice], BIN);
    let registry = Registry::parse("https://example.invalid/npm/").unwrap();
    let jobs = agent.jobs(&registry, Path::new("/t"));
    let urls: Vec<_> = jobs.iter().map(|job| job.url.as_str()).collect();
    assert_eq!(jobs.len(), 2, "{urls:?}");
    assert!(urls.contains(&"https://example.invalid/npm/agent/-/agent-1.0.0.tgz"), "{urls:?}");
    for bad in ["ftp://x", "https://", "https:///x", "https://u@x", "https://x?y", "https://x y"] {
        assert!(Registry::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_shipped_recipes_give_their_agent_on_every_platform_they_claim() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agents/recipes");
    let platforms = |file: &str| {
        let recipe = Recipe::parse(&std::fs::read(dir.join(file)).unwrap()).unwrap();
        // A file that was edited by hand would not be canonical.
        assert_eq!(std::fs::read(dir.join(file)).unwrap(), recipe.to_bytes().unwrap(), "{file}");
        let works = |p: &Platform| recipe.for_platform(*p).is_ok();
        Platform::ALL.iter().filter(|p| works(p)).map(ToString::to_string).collect::<Vec<_>>()
    };
    let glibc = ["linux x64 glibc", "linux arm64 glibc"];
    let all = ["linux x64 glibc", "linux x64 musl", "linux arm64 glibc", "linux arm64 musl"];
    assert_eq!(platforms("pi.json"), glibc);
    assert_eq!(platforms("pi-0.74.json"), glibc);
    assert_eq!(platforms("claude.json"), all);
    assert_eq!(platforms("codex.json"), all);
    assert_eq!(platforms("opencode.json"), glibc[..1]);
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Recipe::parse(&bytes);
    }

    #[test]
    fn no_change_of_a_recipe_makes_the_parser_panic(
        at in 0_usize..400, with in any::<u8>(), cut in 0_usize..400,
    ) {
        let mut bytes = recipe(&[package("agent", b"x")], BIN).to_bytes().unwrap();
        let at = at % bytes.len();
        bytes[at] = with;
        bytes.truncate(bytes.len() - cut % bytes.len());
        if let Ok(recipe) = Recipe::parse(&bytes) {
            for package in recipe.packages() {
                prop_assert!(package.path.as_str().starts_with("node_modules/"));
                prop_assert!(!package.path.as_str().split('/').any(|part| part == ".."));
            }
        }
    }
}
