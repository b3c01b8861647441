use super::*;

#[test]
fn a_list_has_one_package_a_line_and_comments() {
    let text = "# tools\nopenjdk-21-jdk\n\n  g++  # and a compiler\nlibc6:arm64=2.36-9+deb12u10\n";
    let packages = dependencies(text).unwrap();
    let names: Vec<String> = packages.iter().map(Package::to_string).collect();
    assert_eq!(names, ["openjdk-21-jdk", "g++", "libc6:arm64=2.36-9+deb12u10"]);
    assert_eq!(dependencies(" \n# nothing\n"), Ok(Vec::new()));
}

#[test]
fn invalid_package_name_is_refused_with_its_line() {
    let bad = [
        "jq curl",
        "-o",
        "--purge",
        "jq;id",
        "jq`id`",
        "$(id)",
        "../x",
        "/tmp/x.deb",
        "./x.deb",
        "jq-",
        "JQ",
        "j",
        "jq*",
        "jq|id",
        "jq\\",
        "jq'",
        "jq=",
        "jq=-1",
        "jq=1 2",
        "jq:",
        "jq/sid",
        "jq=1-",
        "jq\u{a0}x",
        "jq\r\u{7}",
        "é1",
    ];
    for line in bad {
        let error = DependencyError { line: 2, text: line.to_owned() };
        assert_eq!(dependencies(&format!("curl\n{line}\n")), Err(error), "{line:?}");
    }
}

proptest::proptest! {
    #[test]
    fn a_package_is_never_more_than_a_word_of_the_shell(text in "\\PC*") {
        if let Ok(package) = text.parse::<Package>() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "+-.:=~".contains(c);
            assert!(package.to_string().chars().all(plain));
            assert!(text.starts_with(|c: char| c.is_ascii_alphanumeric()));
        }
    }
}
