use pinfold_egress::ProviderId;

use super::*;

fn texts(records: &Records) -> Vec<String> {
    records.rest().into_iter().map(|note| note.text).collect()
}

#[test]
fn no_flood_of_refusals_fills_the_log_or_the_screen() {
    let state = tempfile::tempdir().unwrap();
    let audit = Arc::new(Audit::open(state.path(), None).unwrap());
    let records = Records::new(audit, LiveLines::None, Vec::new());
    let began = std::time::Instant::now();
    for number in 0..20_000 {
        let (asked, path) = (format!("n{number}.example.net:443"), format!("/v1/{number}"));
        let refused = DoorEvent::Refused { asked: &asked, reason: &asked, hint: None };
        let denied = DoorEvent::Denied {
            status: 404,
            reason: "no such route",
            method: "GET",
            host: "localhost",
            path: &path,
            for_user: false,
        };
        records.record(&refused).unwrap();
        records.record(&denied).unwrap();
        records.fault("one place");
    }
    let lines = std::fs::read_to_string(state.path().join("audit.jsonl")).unwrap();
    // 200 at once, then 20 each second, each with the number of those that were left out.
    let most = 200 + 40 * (usize::try_from(began.elapsed().as_secs()).unwrap() + 1);
    assert!((200..=most).contains(&lines.lines().count()), "{}", lines.lines().count());
    // The fault has a line of its own.
    assert_eq!(records.rest().len(), MOST_LINES + 2);
}

#[test]
fn no_number_of_refusals_hides_a_provider_that_fails() {
    let state = tempfile::tempdir().unwrap();
    let audit = Arc::new(Audit::open(state.path(), None).unwrap());
    let records = Records::new(audit, LiveLines::None, Vec::new());
    for number in 0..2 * MOST_LINES {
        let asked = format!("n{number}.example.net:443");
        let refused = DoorEvent::Refused { asked: &asked, reason: &asked, hint: None };
        records.record(&refused).unwrap();
    }
    let provider = ProviderId::new("p").unwrap();
    for number in 0..2 * MOST_LINES {
        let what = &format!("answered {number}");
        let failed = DoorEvent::ProviderFailed { provider: &provider, host: "h", what };
        records.record(&failed).unwrap();
    }
    let shown = texts(&records);
    assert_eq!(shown.len(), 2 * (MOST_LINES + 1));
    assert_eq!(shown[MOST_LINES + 1], "provider `p` at h answered 0");
    // Each cause is recorded once, for those who follow the audit log.
    records
        .record(&DoorEvent::ProviderFailed { provider: &provider, host: "h", what: "answered 0" })
        .unwrap();
    let lines = std::fs::read_to_string(state.path().join("audit.jsonl")).unwrap();
    assert_eq!(lines.matches("provider-failure").count(), MOST_LINES + 1);
    assert_eq!(lines.matches(r#""what":"answered 0""#).count(), 1);
}

#[test]
fn usage_is_recorded_however_fast_it_comes() {
    let state = tempfile::tempdir().unwrap();
    let audit = Arc::new(Audit::open(state.path(), None).unwrap());
    let records = Records::new(audit, LiveLines::None, Vec::new());
    let provider = ProviderId::new("p").unwrap();
    for _ in 0..1000 {
        let used = DoorEvent::CredentialUse {
            provider: &provider,
            method: "POST",
            host: "example.com",
            path: "/v1/messages",
        };
        records.record(&used).unwrap();
    }
    let lines = std::fs::read_to_string(state.path().join("audit.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 1000);
}

#[test]
fn a_refusal_of_a_silent_host_is_recorded_and_not_shown() {
    let state = tempfile::tempdir().unwrap();
    let audit = Arc::new(Audit::open(state.path(), None).unwrap());
    let silent = vec!["news.example.net".parse().unwrap()];
    let records = Records::new(audit, LiveLines::None, silent);
    for asked in ["news.example.net:443", "other.example.net:443"] {
        let refused = DoorEvent::Refused { asked, reason: asked, hint: None };
        records.record(&refused).unwrap();
    }
    assert_eq!(texts(&records), ["refused: other.example.net:443"]);
    let recorded = std::fs::read_to_string(state.path().join("audit.jsonl")).unwrap();
    assert_eq!(recorded.lines().count(), 2);
}

#[test]
fn a_provider_that_fails_is_shown_once() {
    let state = tempfile::tempdir().unwrap();
    let audit = Arc::new(Audit::open(state.path(), None).unwrap());
    let records = Records::new(audit, LiveLines::None, Vec::new());
    let provider = ProviderId::new("p").unwrap();
    for path in ["/v1/messages", "/v1/other"] {
        let failed =
            DoorEvent::ProviderFailed { provider: &provider, host: "h", what: "answered 401" };
        records.record(&failed).unwrap();
        let reason = "pinfold: provider `p` at h did not answer: connect: refused";
        let (method, host) = ("POST", "h");
        let denied = DoorEvent::Denied { status: 502, reason, method, host, path, for_user: true };
        records.record(&denied).unwrap();
    }
    let expected =
        ["provider `p` at h answered 401", "provider `p` at h did not answer: connect: refused"];
    assert_eq!(texts(&records), expected);
}
