use super::*;

fn parse(text: &str) -> Result<Dockerfile, DockerfileError> {
    Dockerfile::parse(text.as_bytes().to_vec())
}

fn image(name: &str) -> Reference {
    name.parse().unwrap()
}

/// Returns what it builds on without an override.
fn base(text: &str) -> Result<Base, DockerfileError> {
    parse(text)?.base(None)
}

#[test]
fn the_base_is_what_the_last_stage_builds_on() {
    let cases = [
        ("FROM debian:12", "debian:12"),
        ("from debian:12\nRUN true", "debian:12"),
        (
            "# syntax=docker/dockerfile:1\n\n  FROM --platform=linux/amd64 debian:12 AS x",
            "debian:12",
        ),
        ("FROM golang AS build\nFROM debian:12\nCOPY --from=build /a /b", "debian:12"),
        ("FROM debian:12 AS one\nFROM one as two\nFROM TWO", "debian:12"),
        ("FROM \\\n# a comment between\n  debian:12", "debian:12"),
        ("# escape=`\nFROM debian:12\nRUN echo `\nFROM other", "debian:12"),
        ("FROM debian:12\nRUN python3 <<EOF\nfrom os import path\nEOF", "debian:12"),
        ("FROM debian:12\nCOPY <<-\"A\" <<B /x/\n\tFROM a\n\tA\nFROM b\nB\nRUN true", "debian:12"),
    ];
    for (text, expected) in cases {
        assert_eq!(base(text), Ok(Base::Image(image(expected))), "{text}");
    }
    assert_eq!(base("FROM scratch"), Ok(Base::Scratch));
}

#[test]
fn a_dockerfile_without_from_is_refused() {
    for text in ["", "RUN true", "FROM", "FROM --platform=x", "# FROM debian"] {
        assert_eq!(base(text), Err(DockerfileError::NoFrom), "{text}");
    }
    assert_eq!(Dockerfile::parse(vec![0xff]), Err(DockerfileError::NoText));
    assert!(matches!(base("FROM -v"), Err(DockerfileError::Reference(_))));
}

#[test]
fn an_override_wins_over_what_the_argument_is_by_default() {
    let own = image("own:1");
    for from in ["$BASE_IMAGE", "${BASE_IMAGE}", "${BASE_IMAGE:-node}"] {
        for argument in ["ARG BASE_IMAGE", "ARG A=b BASE_IMAGE=debian:12", "arg BASE_IMAGE=x"] {
            let dockerfile = parse(&format!("{argument}\nFROM {from}")).unwrap();
            assert!(dockerfile.takes_base());
            assert_eq!(dockerfile.base(Some(&own)), Ok(Base::Image(own.clone())), "{from}");
        }
    }
}

#[test]
fn a_variable_that_nobody_gives_is_refused() {
    for from in ["${BASE_IMAGE}", "$BASE_IMAGE", "debian:${VERSION}", "$OTHER"] {
        let text = format!("ARG BASE_IMAGE=debian\nARG VERSION=12\nFROM {from}");
        assert_eq!(base(&text), Err(DockerfileError::Unknown { from: from.to_owned() }));
    }
    let other = parse("ARG BASE_IMAGE\nFROM ${BASE_IMAGE_2}").unwrap().base(Some(&image("a")));
    let unknown = DockerfileError::Unknown { from: "${BASE_IMAGE_2}".to_owned() };
    let says = "the Dockerfile says FROM ${BASE_IMAGE_2}, and nothing says what that is";
    assert_eq!(unknown.to_string(), says);
    assert_eq!(unknown.hint().as_deref(), Some("name an image with --base-image"));
    assert_eq!(other, Err(unknown));
}

#[test]
fn override_that_the_engine_would_skip_is_refused() {
    let given = image("own:1");
    let fixed = parse("FROM debian:12").unwrap().base(Some(&given));
    let error = DockerfileError::Fixed { from: "debian:12".to_owned() };
    let says = "the Dockerfile says FROM debian:12, so it cannot be built on another image";
    assert_eq!(error.to_string(), says);
    assert!(error.hint().unwrap().starts_with("begin it with `ARG BASE_IMAGE`"));
    assert_eq!(fixed, Err(error));
    for text in ["FROM ${BASE_IMAGE}", "FROM a\nARG BASE_IMAGE\nFROM ${BASE_IMAGE}"] {
        let undeclared = parse(text).unwrap().base(Some(&given));
        let from = "${BASE_IMAGE}".to_owned();
        assert_eq!(undeclared, Err(DockerfileError::Undeclared { from }), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_to_its_end(text in "(FROM|ARG|RUN|<<A|\\\\|\n|#|\\$|\\{| |[a-z])*") {
        let _ = base(&text);
    }
}
