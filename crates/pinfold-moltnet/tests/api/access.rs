//! Who may do what.

use pinfold_content::Value;
use pinfold_moltnet::Scope;

use crate::scene::{Client, Reply, Scene, TEAM, raw};

fn token(scene: &Scene, form: &str) -> Reply {
    let request = format!(
        "POST /oauth2/token HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: \
         application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
        form.len()
    );
    raw(scene.address, request.as_bytes())
}

fn form(client: &Client, more: &str) -> String {
    let (id, key) = (&client.agent.id, &client.key);
    format!("grant_type=client_credentials&client_id={id}&client_secret={key}{more}")
}

#[test]
fn request_without_a_valid_key_is_unauthorized() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let shorter = &agent.key[..agent.key.len() - 1];
    for key in ["", "x", shorter, &format!("{} ", "k".repeat(20_000)), &agent.agent.id] {
        let bad = Client { key: key.to_owned(), ..agent.clone() };
        let reply = bad.get("/agents/whoami");
        assert_eq!(reply.problem().0, 401, "{key:.10}");
        assert_eq!(reply.json().text_of("title").unwrap(), "Unauthorized");
    }
    assert!(scene.agents.remove("a").unwrap());
    assert_eq!(agent.get("/agents/whoami").status, 401);
}

#[test]
fn whoami_says_which_team_and_scopes_a_key_is_of() {
    let scene = Scene::new();
    let key = "ed25519:6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=".parse().unwrap();
    let agent = scene.client_of("a", TEAM, Scope::OF_A_WORKER, Some(key));
    let who = agent.get("/agents/whoami").ok();
    assert_eq!(who.text_of("identityId").unwrap(), agent.agent.id);
    assert_eq!(who.text_of("fingerprint").unwrap(), "FE81-2C12-F3AB-4CE6");
    assert_eq!(who.text_of("currentTeamId").unwrap(), TEAM);
    assert_eq!(
        who.get("scopes").unwrap().to_string(),
        r#"["agent:profile","runtime:read","task:read","task:claim","task:execute"]"#
    );
    // An executor of an agent with a key has to be signed by it.
    let body = r#"{"executorManifest":{},"executorFingerprint":"bafkreicecnx2gvntm6fbcrvnc336qze6st5u7qq7457igegamd3bzkx7ri","executorSignature":"AAAA"}"#;
    let refused = agent.post("/executor-manifests/register", body).fields();
    assert_eq!(refused, (400, vec!["/executorSignature".to_owned()]));
}

#[test]
fn key_does_only_what_its_scopes_say() {
    let scene = Scene::new();
    let all = scene.client("all");
    let task = all.create("");
    let worker = scene.client_of("worker", TEAM, Scope::OF_A_WORKER, None);
    let reader = scene.client_of("reader", TEAM, &[Scope::TaskRead], None);
    let missing = |reply: Reply, scope: &str| {
        assert_eq!(reply.problem(), (403, format!("Missing scope: {scope}")));
    };
    missing(worker.post("/tasks", "{}"), "task:manage");
    missing(worker.post(&format!("/tasks/{task}/cancel"), r#"{"reason":"x"}"#), "task:manage");
    missing(worker.call("DELETE", "/tasks", "{}"), "task:manage");
    missing(reader.claim(&task), "task:claim");
    missing(reader.of_attempt(&task, 1, "heartbeat", "{}"), "task:execute");
    missing(reader.get("/agents/whoami"), "agent:profile");
    reader.task(&task);
    worker.begin(&task);
}

#[test]
fn team_sees_its_own_tasks_alone() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let other = scene.client_of("b", "33333333-3333-4333-8333-333333333333", Scope::ALL, None);
    let task = agent.create("");
    agent.begin(&task);
    let list = other.get("/tasks").ok();
    assert_eq!(list.get("total").and_then(Value::as_count), Some(0));
    for reply in [
        other.get(&format!("/tasks/{task}")),
        other.get(&format!("/tasks/{task}/attempts")),
        other.get(&format!("/tasks/{task}/attempts/1/messages")),
        other.get(&format!("/tasks/{task}/artifacts")),
        other.claim(&task),
        other.of_attempt(&task, 1, "heartbeat", "{}"),
        other.of_attempt(&task, 1, "complete", &agent.result(&task)),
        other.post(&format!("/tasks/{task}/cancel"), r#"{"reason":"x"}"#),
    ] {
        assert_eq!(reply.problem(), (404, "Task not found".to_owned()));
    }
    other.call("DELETE", "/tasks", &format!(r#"{{"ids":["{task}"],"force":true}}"#));
    assert_eq!(agent.status(&task), "running");
    // A team that is named has to be the key's own; none needs to be.
    let named = |team: &str| {
        agent.send("GET", "/tasks", &format!("x-moltnet-team-id: {team}\r\n"), b"").status
    };
    assert_eq!([named(TEAM), named(&other.agent.team), named("x")], [200, 403, 400]);
}

#[test]
fn client_gets_a_token_for_its_secret_with_the_scopes_of_both() {
    let scene = Scene::new();
    let agent = scene.client_of("a", TEAM, Scope::OF_A_WORKER, None);
    let reply = token(&scene, &form(&agent, ""));
    assert!(reply.head.contains("cache-control: no-store"));
    let granted = reply.ok();
    assert_eq!(granted.get("expires_in").and_then(Value::as_count), Some(3_600));
    let all = "agent:profile runtime:read task:read task:claim task:execute";
    assert_eq!(granted.text_of("scope").unwrap(), all);
    let bearer = |granted: &Value| Client {
        key: granted.text_of("access_token").unwrap().into_owned(),
        ..agent.clone()
    };
    bearer(&granted).get("/tasks").ok();
    // A token has what was asked for, and never more than the key.
    let less =
        token(&scene, &form(&agent, "&scope=agent%3Aprofile+task%3Amanage+team%3Aread")).ok();
    assert_eq!(less.text_of("scope").unwrap(), "agent:profile");
    assert_eq!(bearer(&less).get("/tasks").status, 403);
    // It is worth nothing as a secret, and nothing after its agent was removed.
    let stolen = form(&bearer(&granted), "");
    assert_eq!(token(&scene, &stolen).status, 401);
    assert!(scene.agents.remove("a").unwrap());
    assert_eq!(bearer(&granted).get("/tasks").status, 401);
}

#[test]
fn wrong_secret_and_wrong_grant_are_refused() {
    let scene = Scene::new();
    let (one, two) = (scene.client("one"), scene.client("two"));
    let error = |form: &str| {
        let reply = token(&scene, form);
        (reply.status, reply.json().text_of("error").unwrap_or_default().into_owned())
    };
    let invalid = (401, "invalid_client".to_owned());
    assert_eq!(error(&form(&Client { key: "x".to_owned(), ..one.clone() }, "")), invalid);
    // The secret of another client.
    assert_eq!(error(&form(&Client { agent: two.agent, ..one.clone() }, "")), invalid);
    assert_eq!(error("grant_type=client_credentials"), invalid);
    let password = form(&one, "").replace("client_credentials", "password");
    assert_eq!(error(&password), (400, "unsupported_grant_type".to_owned()));
}

#[test]
fn old_tokens_end_when_there_are_too_many() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let tokens: Vec<String> = (0..33)
        .map(|_| {
            token(&scene, &form(&agent, "")).ok().text_of("access_token").unwrap().into_owned()
        })
        .collect();
    let status =
        |key: &str| Client { key: key.to_owned(), ..agent.clone() }.get("/agents/whoami").status;
    assert_eq!([status(&tokens[0]), status(&tokens[1]), status(&tokens[32])], [401, 200, 200]);
}
