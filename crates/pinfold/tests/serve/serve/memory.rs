//! The tools of a diary as a client of the API has them: by the program in the sandbox.

use pinfold_client::api::{ExecRun, Program};
use pinfold_testkit::{Stage, people};
use serde_json::{Value, json};

use super::Served;

impl Served<'_> {
    fn memory(&self, session: &str, tool: &str, arguments: &Value) -> (u8, String) {
        let argv = ["pinfold-memory", tool, "-"].map(str::to_owned).to_vec();
        let run = ExecRun {
            session: session.to_owned(),
            program: Program { argv, ..Program::default() },
            input: arguments.to_string().as_str().into(),
            limit: None,
        };
        let done = self.client.call(&run).unwrap();
        let said = [done.stdout.as_slice(), done.stderr.as_slice()].concat();
        (done.ended.status, String::from_utf8_lossy(&said).into_owned())
    }
}

#[test]
fn client_of_the_api_uses_the_diary_that_a_session_is_granted() {
    for user in people() {
        let stage = Stage::new(user);
        let served = Served::new(&stage);
        let session = served.start(&["--memory-grant", "write"]);
        // The longest entry is no argument of a program.
        let long = json!({ "title": "Long", "content": "x ".repeat(50_000) });
        let (status, made) = served.memory(&session, "moltnet_create_entry", &long);
        assert_eq!(status, 0, "{made}");
        let made: Value = serde_json::from_str(&made).unwrap();
        let got = json!({ "entryId": made["id"] });
        let (status, entry) = served.memory(&session, "moltnet_get_entry", &got);
        assert!(status == 0 && entry.len() > 100_000, "{entry:.200}");
        let longer = json!({ "title": "Longer", "content": "x".repeat(100_001) });
        let (status, refused) = served.memory(&session, "moltnet_create_entry", &longer);
        assert_eq!(status, 1);
        assert!(refused.contains("/content must have 100000 characters at most"), "{refused}");
        let (status, refused) = served.memory(
            &session,
            "moltnet_create_entry",
            &json!({
                "title": "Huge", "content": "x".repeat(10 << 20)
            }),
        );
        assert!(status != 0 && refused.len() < 1000, "{status} {refused:.500}");
        let tools = ExecRun {
            session: session.clone(),
            program: Program {
                argv: ["pinfold-memory", "tools"].map(str::to_owned).to_vec(),
                ..Program::default()
            },
            ..ExecRun::default()
        };
        let listed = served.client.call(&tools).unwrap().stdout;
        let listed: Vec<Value> = serde_json::from_slice(listed.as_slice()).unwrap();
        assert_eq!(listed.len(), 12);
        let plain = served.start(&[]);
        let (status, _) = served.shell(&plain, "command -v pinfold-memory");
        assert_ne!(status.status, 0);
        served.end();
    }
}
