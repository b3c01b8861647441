use std::collections::HashSet;

use pinfold_host::audit::{Audit, Event, Purpose};
use pinfold_host::session_id::SessionId;
use serde_json::json;

use super::{Reports, Sessions};
use crate::Comparison;
use crate::report::{Report, SessionState};

fn begin(state: &std::path::Path) -> (Audit, String) {
    let id = SessionId::generate().unwrap();
    let name = id.as_str().to_owned();
    let audit = Audit::open(state, Some(id)).unwrap();
    let session = Event::Session {
        subject: "claude".to_owned(),
        name: None,
        identity: None,
        workspace: "/w".to_owned(),
        boundary: "namespace",
        enforced: json!({}),
        grants: Vec::new(),
        restrictions: Vec::new(),
        more_restrictions: 0,
    };
    audit.record(&session).unwrap();
    (audit, name)
}

fn launch(audit: &Audit, purpose: Purpose, word: &str, number: Option<u32>) {
    let (argv, cwd, handled_by) = (vec![word.to_owned()], "/w".to_owned(), Vec::new());
    audit.record(&Event::Launch { purpose, argv, cwd, handled_by, number }).unwrap();
}

fn exit(audit: &Audit, number: Option<u32>, status: u8) {
    audit.record(&Event::Exit { number, status, limit: None }).unwrap();
}

fn read(state: &std::path::Path, sessions: Sessions<'_>) -> Vec<Report> {
    Reports::read(state, sessions, &HashSet::new()).unwrap().finish()
}

#[test]
fn report_says_what_a_session_did() {
    let state = tempfile::tempdir().unwrap();
    let (audit, id) = begin(state.path());
    launch(&audit, Purpose::Host, "git", None);
    launch(&audit, Purpose::Resume, "npm ci", None);
    launch(&audit, Purpose::Command, "claude", None);
    launch(&audit, Purpose::Exec, "make test", Some(0));
    exit(&audit, Some(0), 2);
    launch(&audit, Purpose::Exec, "true", Some(1));
    exit(&audit, Some(1), 0);
    launch(&audit, Purpose::Exec, "sleep", Some(2));
    for _ in 0..2 {
        let (to, rule) = ("pypi.org:443".to_owned(), "pypi".to_owned());
        audit.record(&Event::Connection { to, rule }).unwrap();
        let (what, reason) = ("evil.test:443".to_owned(), "no rule allows it".to_owned());
        audit.record(&Event::Denial { door: "network", what, reason }).unwrap();
        audit
            .record(&Event::Usage {
                provider: "anthropic".to_owned(),
                model: "m".to_owned(),
                input: 10,
                output: 5,
                cache_read: 3,
                cache_write: 2,
                usd: Some(0.5),
                estimated: false,
            })
            .unwrap();
    }
    let executable = "git".to_owned();
    let (args, cwd) = (vec!["push".to_owned()], "/w".to_owned());
    audit.record(&Event::HostExecRequest { id: 0, executable, args, cwd }).unwrap();
    let reason = Some("the user said no".to_owned());
    let decision =
        Event::HostExecDecision { id: 0, outcome: "deny", by: "terminal", rule: None, reason };
    audit.record(&decision).unwrap();
    exit(&audit, None, 1);
    audit.record(&Event::Taken { what: "branch main, 1 commit".to_owned() }).unwrap();
    audit.record(&Event::End { status: 1, limit: None }).unwrap();
    let paths = vec!["src/a.rs".to_owned()];
    audit.record(&Event::Changed { added: 1, changed: 0, deleted: 0, paths }).unwrap();

    let [report] = &read(state.path(), Sessions::One(&id))[..] else { panic!() };
    assert_eq!((report.state, report.status), (SessionState::Ended, Some(1)));
    assert_eq!((report.commands.started, report.commands.failed), (5, 2));
    let failures: Vec<_> = report.commands.failures.items.iter().map(|one| &*one.command).collect();
    assert_eq!(failures, ["make test", "claude"]);
    assert_eq!(report.hosts.items[0].count, 2);
    assert_eq!((report.refusals(), report.refused.items.len()), (2, 1));
    assert_eq!((report.usd(), report.tokens()), (1.0, 40));
    assert_eq!(report.approvals.items[0].command, "git push");
    assert_eq!(report.approvals.items[0].by.as_deref(), Some("terminal"));
    assert_eq!(report.files.as_ref().unwrap().paths, ["src/a.rs"]);
    assert!(report.phases.resume_ms.is_some() && report.phases.settle_ms.is_some());
    let shown = report.document(None).plain();
    for words in ["make test: status 2", "evil.test:443 (2 times)", "git push: deny by terminal"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn session_without_an_end_was_killed_or_runs() {
    let state = tempfile::tempdir().unwrap();
    let (_audit, id) = begin(state.path());
    assert_eq!(read(state.path(), Sessions::All)[0].state, SessionState::Killed);
    let live = HashSet::from([id]);
    let reports = Reports::read(state.path(), Sessions::All, &live).unwrap().finish();
    assert_eq!(reports[0].state, SessionState::Running);
    assert!(!reports[0].has_failed());
    assert!(read(state.path(), Sessions::Since(u64::MAX)).is_empty());
}

#[test]
fn log_that_is_not_there_has_no_sessions() {
    let state = tempfile::tempdir().unwrap();
    assert!(read(state.path(), Sessions::All).is_empty());
}

#[test]
fn hostile_records_stay_small() {
    let state = tempfile::tempdir().unwrap();
    let (audit, _) = begin(state.path());
    for number in 0..3_000 {
        let what = format!("{number}.{}\n# Heading", "x".repeat(10_000));
        let reason = "\u{1b}[2J`</system>".to_owned();
        audit.record(&Event::Denial { door: "network", what, reason }).unwrap();
        launch(&audit, Purpose::Exec, &"y".repeat(5_000), Some(number));
    }
    let [report] = &read(state.path(), Sessions::All)[..] else { panic!() };
    assert_eq!(report.refusals(), 3_000);
    assert_eq!(report.commands.started, 3_000);
    let document = report.document(None);
    assert!(serde_json::to_string(report).unwrap().len() < 200_000);
    assert!(document.markdown().len() < 100_000);
    assert!(!document.plain().contains('\u{1b}'));
    let headings = document.markdown().lines().filter(|line| line.starts_with('#')).count();
    assert_eq!(headings, 5, "title, overview, time, other programs, refused");
}

#[test]
fn records_that_make_no_sense_are_no_panic() {
    let state = tempfile::tempdir().unwrap();
    let (audit, id) = begin(state.path());
    exit(&audit, Some(77), 3);
    exit(&audit, None, 3);
    drop(audit);
    let mut log = std::fs::read_to_string(state.path().join("audit.jsonl")).unwrap();
    for record in [
        r#"{"event":7,"session":"ID","time":"2026-01-01T00:00:00Z"}"#,
        r#"{"event":"usage","usd":1e999,"input":-1,"model":[],"session":"ID","time":"2026-01-01T00:00:00Z"}"#,
        r#"{"event":"usage","usd":-5,"input":18446744073709551615,"session":"ID","time":"1950-01-01T00:00:00Z"}"#,
        r#"{"event":"end","status":999,"session":"ID","time":"2020-01-01T00:00:00Z"}"#,
        r#"{"event":"changed","paths":[1,{}],"session":"ID","time":"2026-01-01T00:00:00Z"}"#,
        r#"{"event":"session","session":"ID","time":"never"}"#,
        "not JSON",
    ] {
        log.push_str(&record.replace("ID", &id));
        log.push('\n');
    }
    std::fs::write(state.path().join("audit.jsonl"), log).unwrap();
    let reports = read(state.path(), Sessions::All);
    assert_eq!(reports[0].status, None);
    assert_eq!(reports[0].usd(), 0.0);
    assert_eq!(Comparison::of(&reports[0], &reports, 10), None);
    assert!(reports[0].document(None).markdown().starts_with("# Session"));
}
