use pinfold_host::wrappers::Wrappers;

use super::*;

fn engine(name: ImageEngine) -> Engine {
    Engine { name, program: Launcher::new(Wrappers::none()).program(PathBuf::new()) }
}

fn inspected(json: &str) -> Inspected {
    serde_json::from_str::<Vec<Image>>(json).unwrap().remove(0).into()
}

#[test]
fn image_is_identified_by_its_registry_digest_else_by_its_id() {
    let pulled = inspected(
        r#"[{"Id": "sha256:1", "RepoDigests": ["node@sha256:2"], "Created": "2025-05-20T10:11:12.5Z",
            "Config": {"User": "", "Labels": null}}]"#,
    );
    assert_eq!((pulled.digest.as_str(), pulled.is_from_registry), ("node@sha256:2", true));
    assert!(pulled.created.is_some() && pulled.user.is_none());
    let imported = inspected(
        r#"[{"Id": "sha256:1", "RepoDigests": [], "Config": {"User": "agent", "Labels": {"a": "b"}}}]"#,
    );
    assert_eq!((imported.digest.as_str(), imported.is_from_registry), ("sha256:1", false));
    assert_eq!(imported.user.as_deref(), Some("agent"));
    assert_eq!(imported.labels.get("a").map(String::as_str), Some("b"));
    let own = inspected(r#"[{"Id": "1", "RepoDigests": ["localhost/a@sha256:3"]}]"#);
    assert_eq!((own.digest.as_str(), own.is_from_registry), ("localhost/a@sha256:3", false));
}

#[test]
fn output_of_an_engine_becomes_an_error_with_a_hint() {
    let docker = engine(ImageEngine::Docker);
    let stopped = docker.failed(
        "x",
        "Cannot connect to the Docker daemon at unix:///a. Is the docker daemon running?",
    );
    assert!(matches!(stopped, ImageError::NotRunning { .. }), "{stopped}");
    let denied = docker.failed(
        "x",
        "permission denied while trying to connect to the Docker daemon socket at unix:///a",
    );
    assert!(matches!(denied, ImageError::NoAccess { .. }), "{denied}");
    let full = docker.failed("x", "Step 2/3\nwrite /a: no space left on device\n");
    assert!(matches!(full, ImageError::DiskFull { .. }), "{full}");
    for error in [stopped, denied, full] {
        assert!(error.hint().is_some());
    }
    let other =
        docker.failed("build a", "Step 1/2\n\u{1b}[31mThe command returned a non-zero code: 3\n\n");
    assert_eq!(
        other.to_string(),
        "docker cannot build a: [31mThe command returned a non-zero code: 3"
    );
}

#[test]
fn an_engine_that_is_not_known_is_refused_by_name() {
    assert_eq!("podman".parse(), Ok(ImageEngine::Podman));
    let refused = "rkt".parse::<ImageEngine>().unwrap_err();
    assert_eq!(refused.to_string(), "expected docker or podman");
}
