use super::*;

const DOCKERFILE: &[u8] = b"FROM debian:12\nRUN true\n";
const LAYER: &[u8] = b"ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n";

fn base() -> String {
    format!("debian@sha256:{}", "ab".repeat(32))
}

/// The digits on the right come from Python's hashlib, given what the format says.
#[test]
fn hashes_of_agents_are_those_of_the_format() {
    let of = |base: &str, extensions| ImageHash::of_agent(DOCKERFILE, base, extensions).to_string();
    assert_eq!(of(&base(), None), "c4ee6864");
    assert_eq!(of("", None), "ac30d2e5");
    let extensions = Sha256::of(b"a/index.ts\0one\0a/sub/x\0\0b/package.json\0{}\0");
    let whole = "ebddc06c85e601717058101f55b6694b6ad3daf7fd67c32f27d058c02b5233f8";
    assert_eq!(extensions.to_string(), whole);
    assert_eq!(of(&base(), Some(extensions)), "7a74153c");
}

#[test]
fn hashes_of_layers_are_those_of_the_format() {
    let hash = ImageHash::of_agent(DOCKERFILE, &base(), None);
    let agent = ImageTag::of_agent("pi", hash).unwrap();
    assert_eq!(agent.to_string(), "agent-loop-sandbox-pi:vc4ee6864");
    assert_eq!(ImageHash::of_layer(&agent, LAYER, None).to_string(), "8ef5e72c");
    let files = Sha256::of(b"tool.sh\0echo\0");
    assert_eq!(ImageHash::of_layer(&agent, LAYER, Some(files)).to_string(), "a53b57f2");
}

#[test]
fn labels_tell_apart_what_tags_do_not() {
    let digest = |path: &[u8], may_be_executed: bool| {
        let mut digest = ContextDigest::default();
        digest.file(path, may_be_executed, 1);
        digest.bytes(b"x");
        digest.finish()
    };
    let one = digest(b"a", false);
    assert_ne!(one, digest(b"a", true));
    assert_ne!(one, digest(b"b", false));
    assert_ne!(label(one, "base"), label(one, "other base"));
}
