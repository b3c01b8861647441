//! What becomes of tasks.

use std::time::Duration;

use pinfold_content::{Cid, Value, read};

use crate::scene::{DIARY, Scene, completion};

/// The fields of a task, in the order of the original. A strict client knows these and no others.
const TASK: &str = "id taskType title tags teamId diaryId outputKind input inputSchemaCid inputCid references \
     correlationId proposedByAgentId proposedByHumanId acceptedAttemptN claimCondition \
     requiredExecutorTrustLevel allowedProfiles status queuedAt completedAt expiresAt cancelledByAgentId \
     cancelledByHumanId cancelReason maxAttempts dispatchTimeoutSec runningTimeoutSec";
const ATTEMPT: &str = "taskId attemptN claimedByAgentId leaseId runtimeProfileId runtimeProfileRevision \
     policySnapshotHash runtimeId claimedAt startedAt completedAt status outputCid output \
     claimedExecutorFingerprint claimedExecutorManifest completedExecutorFingerprint \
     completedExecutorManifest error usage contentSignature signedAt daemonState";

fn keys(value: &Value) -> String {
    let keys = value.as_object().unwrap().members().map(|(key, _)| key.escaped().to_owned());
    keys.collect::<Vec<_>>().join(" ")
}

#[test]
fn task_is_created_claimed_started_and_completed() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = agent.create(r#","title":"t","tags":["a"],"unknown":1"#);
    let created = agent.task(&task);
    assert_eq!(keys(&created), TASK);
    let input = created.get("input").unwrap();
    assert!(input.to_string().contains("submit_freeform_output"), "{input}");
    assert_eq!(created.text_of("inputCid").unwrap(), Cid::of_json(input).as_str());
    assert_eq!(
        created.text_of("inputSchemaCid").unwrap(),
        "bagaaierat5wm743x7nyue47hy3vgnx3hghsaq4lz5e4koid3jl7mjluua5ia"
    );

    let claimed = agent.claim(&task).ok();
    assert_eq!(keys(&claimed), "task attempt");
    let attempt = claimed.get("attempt").unwrap();
    assert_eq!(keys(attempt), ATTEMPT);
    assert_eq!(attempt.text_of("claimedByAgentId").unwrap(), agent.agent.id);
    assert_eq!(agent.status(&task), "dispatched");
    assert_eq!(
        agent.claim(&task).problem(),
        (409, "Task is not queued or is already being claimed".to_owned())
    );
    // Nothing counts before the first heartbeat.
    for what in ["complete", "fail", "abort"] {
        let body = match what {
            "complete" => agent.result(&task),
            "fail" => r#"{"error":{"code":"x","message":"m"}}"#.to_owned(),
            _ => "{}".to_owned(),
        };
        let said =
            format!("Cannot {what} an attempt that has not been started; call /heartbeat first");
        assert_eq!(agent.of_attempt(&task, 1, what, &body).problem(), (409, said));
    }
    let beat = agent.of_attempt(&task, 1, "heartbeat", r#"{"leaseTtlSec":600}"#).ok();
    assert_eq!(keys(&beat), "claimExpiresAt cancelled cancelReason");
    assert_eq!(beat.get("cancelled"), Some(&Value::Bool(false)));
    assert_eq!(agent.status(&task), "running");

    let done = agent.of_attempt(&task, 1, "complete", &agent.result(&task)).ok();
    assert_eq!(done.text_of("status").unwrap(), "completed");
    assert_eq!(done.get("acceptedAttemptN").and_then(Value::as_count), Some(1));
    assert!(done.given("completedAt").is_some());
    let ended = (409, "Task is already in terminal state: completed".to_owned());
    assert_eq!(agent.of_attempt(&task, 1, "complete", &agent.result(&task)).problem(), ended);
    assert_eq!(agent.of_attempt(&task, 1, "heartbeat", "").problem(), ended);
    assert_eq!(agent.claim(&task).problem(), ended);
    let attempts = agent.get(&format!("/tasks/{task}/attempts")).ok();
    let attempt = &attempts.as_array().unwrap()[0];
    let output = attempt.get("output").unwrap();
    assert_eq!(attempt.text_of("outputCid").unwrap(), Cid::of_json(output).as_str());
    assert_eq!(attempt.get("usage").unwrap().to_string(), r#"{"inputTokens":1,"outputTokens":2}"#);
}

#[test]
fn input_that_is_not_one_of_its_type_is_refused_by_field() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let create = |kind: &str, input: &str| {
        let body = format!(r#"{{"taskType":"{kind}","diaryId":"{DIARY}","input":{input}}}"#);
        agent.post("/tasks", &body).fields()
    };
    assert_eq!(create("freeform", "{}"), (400, vec!["input/brief".to_owned()]));
    assert_eq!(create("freeform", r#"{"brief":"x","y":1}"#), (400, vec!["input/y".to_owned()]));
    assert_eq!(create("other", "{}"), (400, vec!["/taskType".to_owned()]));
    assert_eq!(create("freeform", "[]"), (400, vec!["/input".to_owned()]));
    let missing = agent.post("/tasks", "{}").fields();
    assert_eq!(missing, (400, ["/taskType", "/diaryId", "/input"].map(str::to_owned).into()));
    let body = agent.post("/tasks", "{}").json();
    assert_eq!(keys(&body), "type title status code detail instance errors");
    assert_eq!(body.text_of("type").unwrap(), "https://themolt.net/problems/validation-failed");
}

#[test]
fn output_has_to_be_what_its_address_and_verification_say() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = agent.create("");
    agent.begin(&task);
    let complete = |body: &str| agent.of_attempt(&task, 1, "complete", body);
    let bare = complete(&completion(r#"{"summary":"done"}"#));
    assert_eq!(bare.fields(), (400, vec!["output/verification".to_owned()]));
    let other = agent.result(&task).replace("done", "other");
    let reply = complete(&other);
    assert_eq!(reply.fields(), (400, vec!["outputCid".to_owned()]));
    assert!(reply.json().to_string().contains("for the supplied output"));
    // The order of keys and the way that numbers are written decide nothing that JavaScript does not.
    let good = agent.result(&task);
    let value = read(&good).unwrap();
    let (output, cid) = (value.get("output").unwrap(), value.get("outputCid").unwrap());
    let spelled = format!(
        r#"{{ "usage": {{"inputTokens": 1.0, "outputTokens": 2e0}}, "output" : {output}, "outputCid": {cid} }}"#
    );
    complete(&spelled).ok();
}

#[test]
fn failure_is_repeated_unless_it_is_said_to_be_final() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let fail = |task: &str, number, error: &str| {
        agent.of_attempt(task, number, "fail", &format!("{{\"error\":{error}}}")).ok()
    };
    let task = agent.create(r#","maxAttempts":3"#);
    agent.begin(&task);
    let error = r#"{"code":"c","message":"m","retryable":true,"stack":"s"}"#;
    assert_eq!(fail(&task, 1, error).text_of("status").unwrap(), "queued");
    // The attempt that is over changes nothing any more, and does not say whose the next one is.
    assert_eq!(
        agent.of_attempt(&task, 1, "complete", &agent.result(&task)).problem(),
        (409, "Attempt is already in terminal state: failed".to_owned())
    );
    agent.begin(&task);
    assert_eq!(
        agent.of_attempt(&task, 1, "heartbeat", "{}").problem(),
        (403, "Task is claimed by another attempt".to_owned())
    );
    let error = r#"{"code":"c","message":"m","retryable":false}"#;
    assert_eq!(fail(&task, 2, error).text_of("status").unwrap(), "failed");
    let attempts = agent.get(&format!("/tasks/{task}/attempts")).ok();
    let first = attempts.as_array().unwrap()[0].get("error").unwrap().to_string();
    assert_eq!(first, r#"{"code":"c","message":"m","retryable":true,"stack":"s"}"#);
    // A worker that gives a task back does not cancel it.
    let task = agent.create(r#","maxAttempts":2"#);
    agent.begin(&task);
    let body = r#"{"reason":"runner_sigterm"}"#;
    let given = agent.of_attempt(&task, 1, "abort", body).ok();
    assert_eq!(given.text_of("status").unwrap(), "queued");
    agent.begin(&task);
    let given = agent.of_attempt(&task, 2, "abort", body).ok();
    assert_eq!(given.text_of("status").unwrap(), "failed");
}

#[test]
fn cancel_wins_and_its_worker_learns_of_it_by_a_heartbeat() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = agent.create(r#","maxAttempts":3"#);
    agent.begin(&task);
    assert_eq!(agent.post(&format!("/tasks/{task}/cancel"), "{}").status, 400);
    let done = agent.post(&format!("/tasks/{task}/cancel"), r#"{"reason":"not wanted"}"#).ok();
    assert_eq!(done.text_of("cancelReason").unwrap(), "not wanted");
    assert_eq!(done.text_of("cancelledByAgentId").unwrap(), agent.agent.id);
    let beat = agent.of_attempt(&task, 1, "heartbeat", "{}").ok();
    assert_eq!(beat.get("cancelled"), Some(&Value::Bool(true)));
    assert_eq!(beat.text_of("cancelReason").unwrap(), "not wanted");
    assert!(beat.given("claimExpiresAt").is_some());
    let late = agent.of_attempt(&task, 1, "complete", &agent.result(&task)).problem();
    assert_eq!(late, (409, "Task is already in terminal state: cancelled".to_owned()));
    let again = agent.post(&format!("/tasks/{task}/cancel"), r#"{"reason":"x"}"#);
    assert_eq!(again.status, 409);
    assert_eq!(again.json().get("conflict").unwrap().to_string(), "{}");
}

#[test]
fn lease_that_is_over_ends_the_attempt_and_the_task_goes_to_another() {
    let scene = Scene::new();
    let (one, two) = (scene.client("one"), scene.client("two"));
    let task = one.create(r#","maxAttempts":2"#);
    one.begin(&task);
    scene.pass(Duration::from_secs(301));
    let late = one.of_attempt(&task, 1, "complete", &one.result(&task)).problem();
    assert_eq!(late, (409, "Task claim lease has expired".to_owned()));
    assert_eq!(two.begin(&task), 2);
    let foreign = one.of_attempt(&task, 2, "complete", &one.result(&task)).problem();
    assert_eq!(foreign, (403, "Attempt is claimed by another agent".to_owned()));
    two.of_attempt(&task, 2, "complete", &two.result(&task)).ok();
    let attempts = one.get(&format!("/tasks/{task}/attempts")).ok();
    let first = &attempts.as_array().unwrap()[0];
    assert_eq!(first.text_of("status").unwrap(), "timed_out");
    assert_eq!(first.get("error").unwrap().text_of("code").unwrap(), "lease_expired");
}

#[test]
fn messages_have_dense_numbers_in_the_order_of_their_times() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = agent.create("");
    agent.begin(&task);
    let batch = |times: [&str; 2]| {
        let message = |at: &str| {
            format!(
                r#"{{"kind":"info","payload":{{"at":"{at}"}},"timestamp":"2026-11-24T06:50:{at}.000Z"}}"#
            )
        };
        let body = format!(r#"{{"messages":[{},{}]}}"#, message(times[0]), message(times[1]));
        agent.of_attempt(&task, 1, "messages", &body).ok()
    };
    assert_eq!(batch(["02", "01"]).to_string(), r#"{"count":2}"#);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (agent, task) = (agent.clone(), task.clone());
            std::thread::spawn(move || {
                for _ in 0..5 {
                    let body = r#"{"messages":[{"kind":"text_delta","payload":{}},{"kind":"info","payload":{}}]}"#;
                    agent.of_attempt(&task, 1, "messages", body).ok();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let path = format!("/tasks/{task}/attempts/1/messages");
    let all = agent.get(&format!("{path}?limit=200")).ok();
    let all = all.as_array().unwrap();
    let numbers: Vec<u64> =
        all.iter().map(|it| it.get("seq").unwrap().as_count().unwrap()).collect();
    assert_eq!(numbers, (0..42).collect::<Vec<u64>>());
    assert_eq!(keys(&all[0]), "taskId attemptN seq timestamp kind payload");
    assert_eq!(all[0].get("payload").unwrap().to_string(), r#"{"at":"01"}"#);
    let rest = agent.get(&format!("{path}?afterSeq=39&limit=200")).ok();
    assert_eq!(rest.as_array().unwrap().len(), 2);
    assert_eq!(agent.get(&format!("{path}?limit=201")).status, 400);
}

#[test]
fn pages_of_a_list_skip_nothing_and_queued_tasks_come_oldest_first() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let mut ids: Vec<String> = (0..7).map(|_| agent.create("")).collect();
    let walk = |query: &str| {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = agent.get(&format!("/tasks?limit=3{query}{cursor}")).ok();
            assert_eq!(page.get("total").and_then(Value::as_count), Some(7));
            let items = page.get("items").and_then(Value::as_array).unwrap().to_vec();
            found.extend(items.iter().map(|it| it.text_of("id").unwrap().into_owned()));
            match page.text_of("nextCursor") {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return found,
            }
        }
    };
    assert_eq!(walk("&status=queued&taskTypes=freeform&orderBy=createdAt"), ids);
    ids.reverse();
    assert_eq!(walk(""), ids);
    for wrong in ["cursor=x", "limit=0", "limit=101", "status=none", "cursor="] {
        assert_eq!(agent.get(&format!("/tasks?{wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn list_is_filtered() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let tagged = agent.create(r#","tags":["a","b"],"title":"Find me""#);
    let other = agent.create(
        r#","tags":["b"],"allowedProfiles":[{"profileId":"88888888-8888-4888-8888-888888888888"}]"#,
    );
    let found = |query: &str| {
        let list = agent.get(&format!("/tasks?{query}")).ok();
        let items = list.get("items").and_then(Value::as_array).unwrap().to_vec();
        items.iter().map(|it| it.text_of("id").unwrap().into_owned()).collect::<Vec<_>>()
    };
    let tagged = std::slice::from_ref(&tagged);
    assert_eq!(found("tags=a&tags=b"), tagged);
    assert_eq!(found("tags=b&excludeTags=a"), std::slice::from_ref(&other));
    assert_eq!(found("query=find%20ME"), tagged);
    assert_eq!(found("profileId=99999999-9999-4999-8999-999999999999"), tagged);
    assert_eq!(found("hasAttempts=true"), [""; 0]);
    assert_eq!(found("taskTypes=fulfill_brief"), [""; 0]);
    assert_eq!(
        agent.claim(&other).problem(),
        (403, "Task requires an allowed runtime profile".to_owned())
    );
    let profile = r#"{"profileId":"88888888-8888-4888-8888-888888888888"}"#;
    agent.post(&format!("/tasks/{other}/claim"), profile).ok();
    assert_eq!(found("hasAttempts=true"), [other]);
    let changed = r#"{"title":null,"tags":["c"]}"#;
    agent.call("PATCH", &format!("/tasks/{}", tagged[0]), changed).ok();
    assert_eq!(found("tags=c"), tagged);
    assert_eq!(found("query=find"), [""; 0]);
}

#[test]
fn task_waits_for_its_condition() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let (first, second) = (agent.create(""), agent.create(""));
    let condition = format!(
        r#","claimCondition":{{"op":"any","conditions":[{{"op":"task_accepted","taskId":"{first}"}},{{"op":"task_status","taskId":"{second}","statuses":["failed","cancelled"]}}]}}"#
    );
    let (waiting, other) = (agent.create(&condition), agent.create(&condition));
    assert_eq!(agent.status(&waiting), "waiting");
    assert_eq!(agent.claim(&waiting).status, 409);
    agent.begin(&first);
    agent.of_attempt(&first, 1, "complete", &agent.result(&first)).ok();
    assert_eq!((agent.status(&waiting), agent.status(&other)), ("queued".into(), "queued".into()));
    agent.begin(&waiting);
    let none = condition.replace(&first, DIARY);
    let body =
        format!(r#"{{"taskType":"freeform","diaryId":"{DIARY}","input":{{"brief":"x"}}{none}}}"#);
    assert_eq!(agent.post("/tasks", &body).fields(), (400, vec!["/claimCondition".to_owned()]));
}

#[test]
fn same_request_with_the_same_key_creates_one_task() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let body = format!(r#"{{"taskType":"freeform","diaryId":"{DIARY}","input":{{"brief":"x"}}}}"#);
    let send = |key: &str, body: &str| {
        let headers = format!("content-type: application/json\r\nidempotency-key: {key}\r\n");
        agent.send("POST", "/tasks", &headers, body.as_bytes())
    };
    let (first, again) = (send("k", &body), send("k", &body));
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.json(), again.json());
    assert_eq!(send("k", &body.replace('x', "y")).status, 409);
    assert_ne!(send("k2", &body).json(), first.json());
    assert_eq!(send(&"k".repeat(201), &body).status, 400);
    // Another agent's key is another one.
    let other = scene.client("b");
    let headers = "content-type: application/json\r\nidempotency-key: k\r\n";
    let of_other = other.send("POST", "/tasks", headers, body.as_bytes()).json();
    assert_ne!(of_other.get("id"), first.json().get("id"));
}

#[test]
fn task_that_nobody_begins_expires_and_ended_tasks_are_deleted() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = agent.create(r#","expiresInSec":60"#);
    let queued = agent.create("");
    scene.pass(Duration::from_secs(61));
    let late = agent.claim(&task).problem();
    assert_eq!(late, (409, "Task is already in terminal state: expired".to_owned()));
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while agent.status(&task) != "expired" {
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(50));
    }
    let delete = |more: &str| {
        let body = format!(r#"{{"ids":["{task}","{queued}","{DIARY}"]{more}}}"#);
        let reply = agent.call("DELETE", "/tasks", &body);
        assert_eq!(reply.status, 202);
        let answer = reply.json();
        [answer.get("accepted"), answer.get("skipped")].map(|it| it.unwrap().as_count().unwrap())
    };
    assert_eq!(delete(""), [1, 2]);
    assert_eq!(agent.get(&format!("/tasks/{task}")).status, 404);
    assert_eq!(delete(r#","force":true"#), [1, 2]);
}

#[test]
fn artifacts_are_kept_by_their_content() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = agent.create("");
    agent.begin(&task);
    let path = format!("/tasks/{task}/attempts/1/artifacts");
    let headers = "content-type: application/octet-stream\r\n";
    let put = |query: &str, content: &[u8]| {
        agent.send("PUT", &format!("{path}?{query}"), headers, content)
    };
    let made = put("kind=log&title=a%20log&contentType=text%2Fplain", b"hello\n").ok();
    let cid = "bafkreicysg23kiwv34eg2d7qweipxwosdo2py4ldv42nbauguluen5v6am";
    assert_eq!(made.text_of("cid").unwrap(), cid);
    assert_eq!(made.get("sizeBytes").and_then(Value::as_count), Some(6));
    assert_eq!(put("kind=log&title=other", b"hello\n").ok(), made);
    put("kind=log&title=two", b"two").ok();
    assert_eq!(put("kind=log", b"x").status, 400);
    assert_eq!(put("kind=log&title=a%0d%0ab", b"x").status, 400);
    let list = agent.get(&format!("/tasks/{task}/artifacts?limit=1")).ok();
    let next = list.text_of("nextCursor").unwrap().into_owned();
    let rest = agent.get(&format!("/tasks/{task}/artifacts?limit=1&cursor={next}")).ok();
    assert_eq!(rest.get("nextCursor"), Some(&Value::Null));
    for path in [format!("{path}/{cid}/content"), format!("/tasks/{task}/artifacts/{cid}/content")]
    {
        let got = agent.get(&path);
        assert_eq!((got.status, &got.body[..]), (200, &b"hello\n"[..]));
        assert!(
            got.head.contains("x-moltnet-task-artifact-content-type: text/plain"),
            "{}",
            got.head
        );
        assert!(got.head.contains("content-type: application/octet-stream"));
    }
    let file = scene.directory.path().join("artifacts").join(&task).join(cid);
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // A file that was changed on the disk is not what its address says.
    std::fs::write(&file, "other").unwrap();
    assert_eq!(agent.get(&format!("{path}/{cid}/content")).status, 500);
    agent.post(&format!("/tasks/{task}/cancel"), r#"{"reason":"x"}"#).ok();
    assert_eq!(put("kind=log&title=late", b"late").status, 409);
    agent.call("DELETE", "/tasks", &format!(r#"{{"ids":["{task}"]}}"#));
    assert!(!file.exists());
}
