use std::fs;

use tempfile::TempDir;

use super::*;

fn pi(extensions: Option<&Path>) -> AgentContext {
    AgentContext::new(AgentFiles::built_in("pi").unwrap(), extensions).unwrap()
}

#[test]
fn a_context_is_the_agents_files_and_every_directory_of_the_extensions_folder() {
    let extensions = TempDir::new().unwrap();
    for name in ["one", "two"] {
        fs::create_dir(extensions.path().join(name)).unwrap();
        fs::write(extensions.path().join(name).join("package.json"), name).unwrap();
    }
    fs::write(extensions.path().join("README.md"), "a note").unwrap();
    let into = TempDir::new().unwrap();
    let context = pi(Some(extensions.path()));
    let content = context.read(Some(into.path())).unwrap();
    let expected = Sha256::of(b"one/package.json\0one\0two/package.json\0two\0");
    assert_eq!(content.listed, Some(expected));
    assert_eq!(context.read(None).unwrap(), content);
    let names = |path: &Path| {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(into.path()), ["Dockerfile", "packages", "settings.json"]);
    assert_eq!(names(&into.path().join("packages")), ["one", "two"]);
}

#[test]
fn a_new_extension_changes_the_tag_and_a_folder_without_any_does_not() {
    let extensions = TempDir::new().unwrap();
    let tag = |context: &AgentContext| {
        context.tag("pi", "", context.read(None).unwrap()).unwrap().to_string()
    };
    let without = tag(&pi(None));
    assert_eq!(tag(&pi(Some(extensions.path()))), without);
    fs::create_dir(extensions.path().join("new")).unwrap();
    fs::write(extensions.path().join("new/index.ts"), "").unwrap();
    let with = tag(&pi(Some(extensions.path())));
    assert_ne!(with, without);
    assert!(with.starts_with("agent-loop-sandbox-pi:v"));
}

#[test]
fn change_in_an_agents_other_files_changes_only_the_hash_of_the_whole() {
    let files = TempDir::new().unwrap();
    fs::write(files.path().join("Dockerfile"), "FROM debian").unwrap();
    fs::write(files.path().join("settings.json"), "{}").unwrap();
    let read = || {
        let files = AgentFiles::of_directory(files.path()).unwrap();
        AgentContext::new(files, None).unwrap().read(None).unwrap()
    };
    let before = read();
    fs::write(files.path().join("settings.json"), "[]").unwrap();
    let after = read();
    assert_eq!(before.listed, after.listed);
    assert_ne!(before.whole, after.whole);
}

#[test]
fn pis_image_leaves_its_base_to_the_provider() {
    let context = pi(None);
    assert!(context.dockerfile().takes_base());
    let node = "node:22-slim".parse().unwrap();
    assert!(context.dockerfile().base(Some(&node)).is_ok());
}
