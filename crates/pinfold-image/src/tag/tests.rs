use super::*;
use crate::hash::Sha256;

fn hash() -> ImageHash {
    ImageHash::of_agent(b"", "", None)
}

#[test]
fn a_tag_names_agent_repository_and_hash() {
    let tag = ImageTag::of_agent("claude", hash()).unwrap();
    let digits = hash().to_string();
    assert_eq!(digits.len(), 8);
    assert_eq!(tag.to_string(), format!("agent-loop-sandbox-claude:v{digits}"));
    let layer = tag.with_layer("my-app", hash()).unwrap();
    assert_eq!(layer.to_string(), format!("agent-loop-sandbox-claude-my-app:v{digits}"));
}

#[test]
fn any_name_of_a_repository_gives_an_image_a_name() {
    let long = "x".repeat(400);
    let cases = [
        ("My App", "my-app"),
        ("../../etc", "etc"),
        ("a__b..c--d", "a_b.c-d"),
        ("line\nbreak", "line-break"),
        ("é1", "1"),
        ("-rf ", "rf"),
        (long.as_str(), &long[..LONGEST]),
    ];
    for (name, expected) in cases {
        assert_eq!(component(name).as_deref(), Ok(expected), "{name:?}");
    }
    assert_eq!(component("é—"), Err(NoName("é—".to_owned())));
    for name in ["--", "é—", ""] {
        let agents = ImageTag::of_agent("pi", hash()).unwrap();
        let error = agents.with_layer(name, hash()).unwrap_err().to_string();
        assert!(error.ends_with(" has no letter or digit that an image could be named by"));
    }
}

#[test]
fn references_are_no_options_no_paths_and_one_word() {
    for good in
        ["node:22-slim", "docker/sandbox-templates:claude-code", "127.0.0.1:5000/a@sha256:ab"]
    {
        assert_eq!(good.parse::<Reference>().unwrap().as_str(), good);
    }
    let long = "a".repeat(513);
    for bad in ["", "-v", "/etc/passwd", "./x", "a b", "a\nb", "a;b", "${X}", "a\0", "é", &long] {
        assert!(bad.parse::<Reference>().is_err(), "{bad:?}");
    }
    assert!(Sha256::of(b"").to_string().parse::<Reference>().is_ok());
}

#[test]
fn name_without_a_registry_is_one_of_dockers_registry() {
    for (name, full) in [
        ("node:22-slim", "docker.io/library/node:22-slim"),
        ("docker/templates:claude", "docker.io/docker/templates:claude"),
        ("ghcr.io/a/b", "ghcr.io/a/b"),
        ("localhost/a:1", "localhost/a:1"),
        ("127.0.0.1:5000/a@sha256:ab", "127.0.0.1:5000/a@sha256:ab"),
    ] {
        assert_eq!(name.parse::<Reference>().unwrap().with_registry(), full);
    }
}
