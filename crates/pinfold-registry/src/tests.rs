use super::manifest::{Found, read};
use super::*;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn reference(text: &str) -> Result<Reference, InvalidReference> {
    text.parse()
}

#[test]
fn names_are_read_as_docker_reads_them() {
    for (text, url) in [
        ("debian", "https://registry-1.docker.io/v2/library/debian/manifests/latest"),
        ("debian:12", "https://registry-1.docker.io/v2/library/debian/manifests/12"),
        ("a/b:c", "https://registry-1.docker.io/v2/a/b/manifests/c"),
        ("docker.io/library/x:1", "https://registry-1.docker.io/v2/library/x/manifests/1"),
        ("ghcr.io/o/r:v1.2", "https://ghcr.io/v2/o/r/manifests/v1.2"),
        ("r.example:5000/x", "https://r.example:5000/v2/x/manifests/latest"),
        ("127.0.0.1:5000/a/b:c", "http://127.0.0.1:5000/v2/a/b/manifests/c"),
        ("localhost/x", "http://localhost/v2/x/manifests/latest"),
    ] {
        let reference = reference(text).unwrap();
        assert_eq!(reference.url("manifests", reference.manifest()), url, "{text}");
    }
    let pinned = reference(&format!("r.example/x:1@{DIGEST}")).unwrap();
    assert_eq!(pinned.manifest(), DIGEST);
    assert_eq!(pinned.to_string(), format!("r.example/x:1@{DIGEST}"));
}

#[test]
fn reference_that_could_lead_elsewhere_is_invalid() {
    for text in [
        "",
        "/x",
        "x/",
        "r.example//x",
        "r.example/../x",
        "r.example/x/..",
        "user@r.example/x",
        "r.example:0/x",
        "r.example:99999/x",
        "r.example/x?y",
        "r.example/x#y",
        "r.example/x:tag/../..",
        "UPPER",
        "x@sha256:short",
        &format!("x@{}", DIGEST.to_uppercase()),
        "x@sha512:00",
        "x:.hidden",
        "r example/x",
    ] {
        assert!(reference(text).is_err(), "{text}");
    }
}

#[test]
fn a_manifest_gives_its_layers_in_order() {
    let text = format!(
        r#"{{"schemaVersion": 2, "layers": [
            {{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": "{DIGEST}", "size": 1}},
            {{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "digest": "{DIGEST}", "size": 2}},
            {{"mediaType": "application/vnd.oci.image.layer.v1.tar+zstd", "digest": "{DIGEST}", "size": 3}},
            {{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": "{DIGEST}", "size": 4}}]}}"#
    );
    let Found::Image(layers) = read(text.as_bytes(), "amd64").unwrap() else { panic!("an image") };
    let names: Vec<String> =
        layers.iter().enumerate().map(|(index, layer)| layer.file_name(index)).collect();
    assert_eq!(names, ["0000.tgz", "0001.tgz", "0002.tzst", "0003.tar"]);
}

#[test]
fn an_index_leads_to_this_machines_manifest() {
    let text = format!(
        r#"{{"manifests": [
            {{"digest": "sha256:00", "size": 1, "platform": {{"os": "linux", "architecture": "s390x"}}}},
            {{"digest": "sha256:00", "size": 1, "platform": {{"os": "windows", "architecture": "amd64"}}}},
            {{"digest": "{DIGEST}", "size": 1, "platform": {{"os": "linux", "architecture": "amd64"}}}}]}}"#
    );
    let found = read(text.as_bytes(), "amd64").unwrap();
    assert!(matches!(found, Found::Index(digest) if digest == DIGEST));
    let error = read(text.as_bytes(), "arm64").unwrap_err();
    assert_eq!(error, "it has nothing for linux/arm64");
}

#[test]
fn hostile_manifests_are_refused() {
    let layer = |digest: &str, size: u64, kind: &str| {
        format!(
            r#"{{"layers": [{{"mediaType": "{kind}", "digest": "{digest}", "size": {size}}}]}}"#
        )
    };
    let tar = "application/vnd.oci.image.layer.v1.tar";
    let many = format!(r#"{{"layers": [{}]}}"#, vec![r#"{"digest":"","size":1}"#; 600].join(","));
    for (text, message) in [
        ("[]".to_owned(), "it is not a manifest"),
        ("{}".to_owned(), "neither layers nor manifests"),
        (layer("../../etc/passwd", 1, tar), "is not a sha256 digest"),
        (layer(DIGEST, u64::MAX, tar), "a layer has 18446744073709551615 bytes"),
        (layer(DIGEST, 1, "text/html"), "unknown kind `text/html`"),
        (many, "more than 512 layers"),
    ] {
        let error = read(text.as_bytes(), "amd64").unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_registry_elsewhere_does_not_send_us_to_this_machine_for_a_token() {
    let registry = Registry::default();
    let reference = reference("r.example/x").unwrap();
    let asking = Asking { registry: &registry, reference: &reference, authorization: None };
    let mut headers = HeaderMap::new();
    let challenge = r#"Bearer realm="http://127.0.0.1:1/token",service="x""#;
    headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    assert!(matches!(asking.token(&headers), Err(RegistryError::Account { .. })));
}
