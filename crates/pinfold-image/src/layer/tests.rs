use std::fs;

use tempfile::TempDir;

use super::*;

fn repository(files: &[(&str, &[u8])]) -> TempDir {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join(DIRECTORY)).unwrap();
    for (file, content) in files {
        fs::write(root.path().join(name(file)), content).unwrap();
    }
    root
}

fn found(files: &[(&str, &[u8])]) -> Result<Option<Layer>, LayerError> {
    Layer::find(repository(files).path())
}

const BUILDS: &[u8] = b"ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY tool.sh /\n";

#[test]
fn a_repository_need_not_add_anything() {
    assert!(Layer::find(TempDir::new().unwrap().path()).unwrap().is_none());
    assert!(found(&[("config.json", b"{}")]).unwrap().is_none());
}

#[test]
fn a_dockerfile_goes_before_a_list_of_packages() {
    let layer =
        found(&[("Dockerfile.sandbox", BUILDS), ("dependencies", b"jq\n")]).unwrap().unwrap();
    assert_eq!(layer.path(), Path::new(".agent-loop/Dockerfile.sandbox"));
    assert_eq!(layer.dockerfile().as_bytes(), BUILDS);
}

#[test]
fn files_next_to_the_dockerfile_are_in_context_and_tag() {
    let root = repository(&[("Dockerfile.sandbox", BUILDS), ("tool.sh", b"echo")]);
    let into = TempDir::new().unwrap();
    let content = Layer::find(root.path()).unwrap().unwrap().read(Some(into.path())).unwrap();
    assert_eq!(content.listed, Some(crate::Sha256::of(b"tool.sh\0echo\0")));
    assert_eq!(fs::read(into.path().join("tool.sh")).unwrap(), b"echo");
    assert_eq!(fs::read(into.path().join("Dockerfile.sandbox")).unwrap(), BUILDS);
    fs::write(root.path().join(name("tool.sh")), "rm").unwrap();
    let changed = Layer::find(root.path()).unwrap().unwrap().read(None).unwrap();
    assert_ne!(changed, content);
}

#[test]
fn packages_become_a_dockerfile_that_leaves_the_user_alone() {
    let layer = found(&[("dependencies", b"jq # json\ng++\n")]).unwrap().unwrap();
    let text = String::from_utf8(layer.dockerfile().as_bytes().to_vec()).unwrap();
    assert_eq!(
        text,
        "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nUSER root\n\
         RUN set -eu; export DEBIAN_FRONTEND=noninteractive; apt-get update; \\\n    \
         apt-get install --yes --no-install-recommends \\\n        jq \\\n        g++; \\\n    \
         rm -rf /var/lib/apt/lists/*\nARG BASE_USER=root\nUSER ${BASE_USER}\n"
    );
    assert!(layer.dockerfile().base(Some(&"a:1".parse().unwrap())).is_ok());
    assert_eq!(layer.read(None).unwrap().listed, None);
    let names: Vec<String> = layer.packages().unwrap().iter().map(Package::to_string).collect();
    assert_eq!(names, ["jq", "g++"]);
}

#[test]
fn dockerfile_that_skips_the_agents_image_is_refused() {
    for text in ["FROM debian:12\n", "ARG BASE_IMAGE\nFROM ${BASE_IMAGE} AS a\nFROM debian\n"] {
        let error = found(&[("Dockerfile.sandbox", text.as_bytes())]).unwrap_err();
        assert!(matches!(error, LayerError::NotOnAgent), "{error}");
    }
}

#[test]
fn mistakes_are_reported_with_file_and_line() {
    let error_of = |files: &[(&str, &[u8])]| found(files).unwrap_err().to_string();
    let list = error_of(&[("dependencies", b"jq\n$(id)\n")]);
    assert_eq!(
        list,
        ".agent-loop/dependencies: line 2: \"$(id)\" is not the name of a Debian package"
    );
    let empty = error_of(&[("Dockerfile.sandbox", b"")]);
    assert_eq!(empty, ".agent-loop/Dockerfile.sandbox: the Dockerfile has no FROM");
    assert!(error_of(&[("dependencies", b"\xff")]).contains("not UTF-8 text"));
    let large = vec![b'#'; 2 << 20];
    assert!(error_of(&[("dependencies", &large)]).contains("file too large"), "{large:?}");
}
