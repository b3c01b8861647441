use std::path::Path;

use super::Workspace;

fn sample() -> Workspace {
    let package = |name: &str| {
        format!(r#"{{"name":"{name}","manifest_path":"/w/crates/{name}/Cargo.toml"}}"#)
    };
    let packages = ["base", "middle", "top"].map(package).join(",");
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
