//! The audit log as its user reads and checks it.

use std::fs;
use std::process::Output;

use pinfold_testkit::{Stage, people};
use serde_json::Value;

fn audit(stage: &Stage, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } =
        stage.pinfold(&[&["audit"], args].concat()).output().unwrap();
    (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn log_is_shown_in_parts_and_checked_as_a_whole() {
    for user in people() {
        let stage = Stage::new(user);
        assert_eq!(audit(&stage, &["verify"]), (Some(0), "no records with a chain\n".to_owned()));
        assert!(stage.run_shell(&[], "true").status.success());
        let (_, all) = audit(&stage, &["--json"]);
        let count = all.lines().count();
        assert!(count >= 3, "{all}");
        let (_, last) = audit(&stage, &["-n", "2", "--json"]);
        assert_eq!(
            last.lines().collect::<Vec<_>>(),
            all.lines().skip(count - 2).collect::<Vec<_>>()
        );
        assert_eq!(audit(&stage, &["--since", "1h", "--json"]).1, all);
        let (status, said) = audit(&stage, &["--since", "soon"]);
        assert_eq!(status, Some(2), "{said}");
        assert!(!audit(&stage, &[]).1.contains("chain="));

        let (status, said) = audit(&stage, &["verify", "--json"]);
        let found: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((status, found["records"].as_u64()), (Some(0), Some(count as u64)));
        let chain = found["chain"].as_str().unwrap();
        assert!(stage.run_shell(&[], "true").status.success());
        assert_eq!(audit(&stage, &["verify", "--contains", chain]).0, Some(0));
        let (status, said) = audit(&stage, &["verify", "--contains", &"0".repeat(64)]);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("no record of the audit log has this chain"), "{said}");

        let path = stage.state().join("audit.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen("\"event\":\"end\"", "\"event\":\"End\"", 1)).unwrap();
        let (status, said) = audit(&stage, &["verify"]);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("does not follow from those before it"), "{said}");
    }
}
