use pinfold_boundary::Capabilities;

use super::*;

fn finding(what: &str, hint: Option<&str>, fatal: bool) -> Finding {
    Finding { what: what.to_owned(), hint: hint.map(str::to_owned), fatal }
}

fn works() -> Probe {
    let capabilities = Capabilities { memory: true, cpus: true, pids: true, landlock: 7 };
    Probe { capabilities, hands_over: true, ..Probe::default() }
}

fn fails(what: &str, hint: Option<&str>) -> Probe {
    Probe { findings: vec![finding(what, hint, true)], ..Probe::default() }
}

fn report(namespace: Probe, docker: Probe) -> Report {
    Report {
        boundaries: vec![
            ("namespace".to_owned(), namespace),
            ("container (docker)".to_owned(), docker),
        ],
        keys: Vec::new(),
        agents: ["claude", "codex"].map(str::to_owned).to_vec(),
        unpacked: Vec::new(),
        room: Some(Room { free: 20 << 30, is_short: false }),
    }
}

#[test]
fn report_begins_with_a_verdict_when_everything_works() {
    let key =
        |id: &str, place: Option<&str>| Key { id: id.to_owned(), place: place.map(str::to_owned) };
    let missing = fails("docker is not installed", None);
    let report = Report {
        keys: vec![key("anthropic", Some("variable ANTHROPIC_API_KEY")), key("github", None)],
        unpacked: vec![("claude".to_owned(), "2.0.1".to_owned())],
        ..report(works(), missing)
    };
    insta::assert_snapshot!(report);
}

#[test]
fn report_names_limits_and_how_to_lift_them() {
    let mut namespace = works();
    namespace.capabilities = Capabilities { landlock: 0, ..Capabilities::default() };
    namespace.hands_over = false;
    namespace.findings = vec![
        finding("the second wall is missing", Some("use a kernel with Landlock"), false),
        finding("no control group can be made", Some("run under systemd-run"), false),
    ];
    insta::assert_snapshot!(report(namespace, works()));
}

#[test]
fn report_says_what_to_do_when_nothing_works() {
    let hint = Some("sysctl kernel.unprivileged_userns_clone=1");
    let namespace = || fails("user namespaces are forbidden", hint);
    let mut both = report(namespace(), fails("docker is not installed", None));
    both.room = Some(Room { free: 1 << 20, is_short: true });
    insta::assert_snapshot!("nothing_works", both);
    insta::assert_snapshot!("another_boundary_works", report(namespace(), works()));
}

#[test]
fn json_has_the_verdict_and_every_finding() {
    let report = report(fails("no", Some("do")), works());
    insta::assert_snapshot!(format!("{:#}", report.as_json()));
}

#[test]
fn limits_of_a_machine_are_its_own_and_no_control_group_is_named() {
    let machine = Probe { is_machine: true, ..works() };
    let said = Boundary(&machine).to_string();
    assert!(said.contains("memory of its own, CPUs of its own"), "{said}");
    assert!(!said.contains("control group"), "{said}");
}
