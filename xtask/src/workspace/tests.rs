use std::collections::BTreeSet;
use std::path::Path;

use super::Workspace;

/// `top` uses `middle`, which uses `base`.
fn sample() -> Workspace {
    let package = |name: &str, uses: &str| {
        let dependencies = match uses {
            "" => String::new(),
            uses => format!(
                r#"{{"name":"{uses}","path":"/w/crates/{uses}"}},{{"name":"serde","path":null}}"#
            ),
        };
        format!(
            r#"{{"name":"{name}","manifest_path":"/w/crates/{name}/Cargo.toml","dependencies":[{dependencies}]}}"#
        )
    };
    let packages =
        [package("base", ""), package("middle", "base"), package("top", "middle")].join(",");
    Workspace::parse(&format!(r#"{{"packages":[{packages}],"workspace_root":"/w"}}"#)).unwrap()
}

fn owners(files: &[&str]) -> Vec<String> {
    sample().owners(files.iter().map(Path::new)).into_iter().collect()
}

#[test]
fn a_file_belongs_to_the_package_around_it() {
    assert_eq!(owners(&["crates/middle/src/lib.rs", "docs/guides/api.md"]), ["middle"]);
    // Not to one whose name only begins alike.
    assert!(owners(&["crates/middleman/src/lib.rs"]).is_empty());
}

#[test]
fn a_file_that_concerns_all_packages_selects_all() {
    assert_eq!(owners(&["Cargo.lock"]), ["base", "middle", "top"]);
}

#[test]
fn a_file_that_is_compiled_into_a_package_selects_it() {
    assert_eq!(owners(&["agents/recipes/pi.json"]), ["pinfold-session"]);
    assert_eq!(owners(&["agents/pi.toml"]), ["pinfold-policy"]);
}

#[test]
fn dependents_are_found_through_others() {
    let changed = BTreeSet::from(["base".to_owned()]);
    let all = sample().with_dependents(&changed);
    assert_eq!(all.into_iter().collect::<Vec<_>>(), ["base", "middle", "top"]);
}
