use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use pinfold_content::{Cid, SystemClock, Value};
use pinfold_host::audit::{Audit, Reader};
use pinfold_host::session_id::SessionId;
use pinfold_memory::{Diary, KnownSecrets, MemoryTools, Rules, TaskSocket};
use pinfold_policy::settings::MemoryGrant;
use pinfold_tasks::{Inquiry, Reply};
use serde_json::json;

use super::{TOOLS, TaskTools};
use crate::toolset::Toolset as _;

const TASK: &str = "11111111-2222-4333-8444-555555555555";

fn tools(at: &Path) -> TaskTools {
    let diary = Diary::open_file(&at.join("diary.db"), None, Box::new(SystemClock)).unwrap();
    let rules = Rules::new(MemoryGrant::Read, || Ok(KnownSecrets::default())).unwrap();
    let audit = Audit::open(&at.join("state"), Some(SessionId::generate().unwrap())).unwrap();
    let socket = TaskSocket { task: TASK.to_owned(), path: at.join("socket") };
    let files = || Err(std::io::ErrorKind::Unsupported.into());
    TaskTools::new(socket, Arc::new(MemoryTools::new(diary, rules)), Arc::new(audit), files)
}

#[test]
fn definitions_are_of_the_tools_that_there_are() {
    let directory = tempfile::tempdir().unwrap();
    let tools = tools(directory.path());
    let defined: Vec<String> =
        tools.definitions().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect();
    let mut known: Vec<&str> = TOOLS.iter().map(|(name, _)| *name).collect();
    known.sort_unstable();
    let mut defined: Vec<&str> = defined.iter().map(String::as_str).collect();
    defined.sort_unstable();
    assert_eq!(defined, known);
}

#[test]
fn question_about_another_task_is_refused_and_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let tools = tools(directory.path());
    // Nobody listens at the socket: it is not asked.
    let other = json!({ "taskId": "99999999-2222-4333-8444-555555555555", "attemptN": 1, "cid": "x", "outputPath": "y" });
    for name in ["get_task", "list_task_attempts", "list_task_messages", "list_task_artifacts"] {
        let refused = tools.value(&format!("moltnet_{name}"), other.clone()).unwrap_err();
        assert_eq!(refused, "Not Found: Task not found", "{name}");
    }
    let refused = tools.value("moltnet_download_task_artifact", other).unwrap_err();
    assert_eq!(refused, "Not Found: Task not found");
    let own = json!({ "taskId": TASK });
    let unavailable = tools.value("moltnet_get_task", own).unwrap_err();
    assert!(unavailable.starts_with("Service Unavailable: "), "{unavailable}");
    let wrong = tools.value("moltnet_list_task_artifacts", json!({ "limit": 101 })).unwrap_err();
    assert_eq!(wrong, "Validation Failed: limit: expected a number from 1 to 100");
    let mut reader = Reader::open(&directory.path().join("state")).unwrap().unwrap();
    let mut records = 0;
    while reader.next_record().unwrap().is_some() {
        records += 1;
    }
    assert_eq!(records, 7);
}

#[test]
fn artifact_that_does_not_have_the_content_of_its_address_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
    let lies = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let (mut from, mut to) = (std::io::BufReader::new(&stream), &stream);
        Inquiry::serve(&mut from, &mut to, |_, _| {
            Ok(Reply { value: Value::object([]), content: b"something else".to_vec() })
        })
    });
    let asked = json!({ "cid": Cid::of_bytes(b"hello\n").as_str(), "outputPath": "/tmp/x" });
    let refused =
        tools(directory.path()).value("moltnet_download_task_artifact", asked).unwrap_err();
    assert_eq!(refused, "the artifact does not have the content of its address");
    lies.join().unwrap().unwrap();
}
