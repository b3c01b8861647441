use super::*;

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').filter(|word| !word.is_empty()).map(|word| word.as_bytes().to_vec()).collect()
}

fn rule(prefix: &str, contains: &str, excludes: &str) -> ApprovalRule {
    let texts = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    ApprovalRule {
        executable: "git".to_owned(),
        args: None,
        prefix: texts(prefix),
        contains: texts(contains),
        excludes: texts(excludes),
    }
}

#[test]
fn a_rule_allows_what_begins_so_and_nothing_that_is_excluded() {
    let push = rule("push origin", "", "--mirror --force -f");
    for allowed in
        ["push origin", "push origin main", "push origin --tags main", "push origin -u f"]
    {
        assert!(push.allows(b"git", &words(allowed), &[]), "{allowed}");
    }
    for other in [
        "push",
        "origin push",
        "push origina",
        "push --verbose origin",
        "push origin --mirror",
        "push origin main --force",
        "push origin --force=yes",
        "push origin -f",
        "push origin -uf",
        "push origin -fu main",
    ] {
        assert!(!push.allows(b"git", &words(other), &[]), "{other}");
    }
    assert!(
        !push.allows(b"gh", &words("push origin"), &[])
            && !push.allows(b"gi", &words("push origin"), &[])
    );
}

#[test]
fn excluded_option_is_refused_in_any_spelling() {
    let force = ["--force", "-f", "--force-with-lease"];
    let push = rule("push", "", "--force");
    assert!(push.allows(b"git", &words("push origin main"), &[]));
    assert!(push.allows(b"git", &words("push origin :main"), &["--delete", "-d"]));
    assert!(!push.allows(b"git", &words("push origin +main"), &force));
    assert!(rule("push", "", "--mirror").allows(b"git", &words("push origin +main"), &force));
}

#[test]
fn a_rule_for_all_the_arguments_allows_no_others() {
    let exact = |line| ApprovalRule { args: Some(vec![line]), ..rule("", "", "") };
    let push = exact("push".to_owned());
    assert!(push.allows(b"git", &words("push"), &[]));
    assert!(!push.allows(b"git", &words("push origin"), &[]));
    assert!(!push.allows(b"git", &[], &[]));
    assert_eq!(push.to_string(), "git push");
    let none = ApprovalRule { args: Some(Vec::new()), ..rule("", "", "") };
    assert!(none.allows(b"git", &[], &[]) && !none.allows(b"git", &words("push"), &[]));
}

#[test]
fn required_arguments_may_be_anywhere_in_any_order() {
    let rule = rule("", "--draft --web", "");
    assert!(rule.allows(b"git", &words("x --web y --draft"), &[]));
    assert!(!rule.allows(b"git", &words("x --web --draftt"), &[]));
}

#[test]
fn a_rule_that_names_nothing_else_allows_all_arguments() {
    assert!(rule("", "", "").allows(b"git", &[vec![0xff, b'\n'], Vec::new()], &[]));
    assert!(AutoApprove::All.allows(b"gh", &[], &[]));
}

#[test]
fn bytes_are_compared_and_not_what_they_look_like() {
    let push = rule("push", "", "--all");
    assert!(!push.allows(b"git", &[b"push\0".to_vec()], &[]));
    assert!(!push.allows(b"git", &["рush".as_bytes().to_vec()], &[]), "a Cyrillic letter");
}

#[test]
fn names_of_executables_lead_nowhere() {
    for name in ["git", "git-lfs", "python3.11", "a_b"] {
        assert!(is_executable(name), "{name}");
    }
    for name in ["", ".", "..", "/bin/sh", "a/b", "-x", ".hidden", "a b", "a\n", "gít"] {
        assert!(!is_executable(name), "{name}");
    }
}
