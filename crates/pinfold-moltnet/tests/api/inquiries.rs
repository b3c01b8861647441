//! What an agent learns of a server's task, and the files that it keeps with it.

use std::sync::Mutex;
use std::time::Duration;

use pinfold_content::{Cid, Value};
use pinfold_tasks::{Answer, ArtifactLabel, Claim, Inquiry, Request, Source as _, Token};

use crate::client::{create, with_remote};
use crate::scene::Scene;

#[test]
fn agent_asks_the_server_about_its_task_and_keeps_files_with_it() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = create(&agent, "freeform", "one");
    let other = create(&agent, "freeform", "two");
    let (address, said) = (format!("http://{}", agent.address), Mutex::default());
    with_remote(&address, &agent.agent.id, &agent.key, &said, &|| false, |remote| {
        let ttl = Duration::from_secs(60);
        let claim = Claim { token: Token::from_random([1; 16]), worker: "w".to_owned(), ttl };
        let claimed = match remote.ask(&Request::Claim(claim), ttl).unwrap() {
            Answer::Claimed(Some(claimed)) => claimed,
            answer => panic!("{answer:?}"),
        };
        let known = claimed.known_as().to_string();
        assert!(known == task || known == other);
        let holder = claimed.holder;
        remote.ask(&Request::Heartbeat(holder), ttl).unwrap();
        let ask = |inquiry: Inquiry, content: &[u8]| remote.inquire(&holder, &inquiry, content);
        let value = ask(Inquiry::Task, b"").unwrap().value;
        assert_eq!(value.text_of("id").unwrap(), known);
        assert_eq!(ask(Inquiry::Attempts, b"").unwrap().value.as_array().unwrap().len(), 1);
        let lines = r#"{"messages":[{"kind":"info","payload":{"text":"x"}}]}"#;
        (0..3).for_each(|_| {
            drop(agent.post(&format!("/tasks/{known}/attempts/1/messages"), lines).ok())
        });
        let messages = |limit| ask(Inquiry::Messages { attempt: 1, after: None, limit }, b"");
        assert_eq!(messages(500).unwrap().value.as_array().unwrap().len(), 3);
        assert_eq!(messages(2).unwrap().value.as_array().unwrap().len(), 2);
        let label = ArtifactLabel {
            kind: "log".to_owned(),
            title: "What was & said".to_owned(),
            content_type: "text/plain".to_owned(),
            content_encoding: None,
        };
        let kept = ask(Inquiry::AddArtifact(label), b"hello\n").unwrap().value;
        assert_eq!(kept.text_of("title").unwrap(), "What was & said");
        let cid = Cid::of_bytes(b"hello\n").to_string();
        for attempt in [None, Some(1)] {
            let artifact = ask(Inquiry::Artifact { attempt, cid: cid.clone() }, b"").unwrap();
            assert_eq!(artifact.content, b"hello\n");
        }
        let page = ask(Inquiry::Artifacts { limit: 1, cursor: None }, b"").unwrap().value;
        let artifacts = page.get("artifacts").and_then(Value::as_array).unwrap();
        assert_eq!(artifacts, [kept]);
        let missing = Inquiry::Artifact { attempt: None, cid: Cid::of_bytes(b"x").to_string() };
        assert_eq!(ask(missing, b"").unwrap_err(), "Not Found: Task artifact not found");
    });
}
