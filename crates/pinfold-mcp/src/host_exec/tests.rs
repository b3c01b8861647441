use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use pinfold_content::SystemClock;
use pinfold_host::audit::{Audit, Reader};
use pinfold_host::session_id::SessionId;
use pinfold_memory::{Diary, KnownSecrets, MemoryTools, Rules};
use pinfold_policy::settings::MemoryGrant;
use serde_json::{Value, json};

use super::{HostExecTool, InsideProgram, LONGEST, RunInside};
use crate::call::Call;

fn tool(at: &Path, run: Option<Box<RunInside>>) -> HostExecTool {
    let diary = Diary::open_file(&at.join("diary.db"), None, Box::new(SystemClock)).unwrap();
    let rules = Rules::new(MemoryGrant::Read, || Ok(KnownSecrets::default())).unwrap();
    let audit = Audit::open(&at.join("state"), Some(SessionId::generate().unwrap())).unwrap();
    HostExecTool::new(run, Arc::new(MemoryTools::new(diary, rules)), Arc::new(audit))
}

/// Calls the tool where the program in the sandbox writes this.
fn called(stdout: &'static [u8], stderr: &'static [u8]) -> Result<String, String> {
    let directory = tempfile::tempdir().unwrap();
    let run = move |program: InsideProgram, _: &Call| {
        let words: Vec<&str> = program.argv.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words[1..], ["--json", "--directory", "/work", "--", "git", "push", "--force"]);
        let [_, out, errors] = program.streams;
        File::from(errors).write_all(stderr)?;
        // One that is no longer read is ended by SIGPIPE.
        let _ = File::from(out).write_all(stdout);
        Ok(())
    };
    tool(directory.path(), Some(Box::new(run))).text(asked(), &Call::default())
}

fn asked() -> Value {
    json!({ "executable": "git", "args": ["push", "--force"], "cwd": "/work", "other": 1 })
}

#[test]
fn result_is_what_the_sandboxs_own_program_prints() {
    let ran = br#"{"host_exec":true,"executable":"git","args":["push"],"cwd":"/work","stdout":"x\n","exit_code":1}
"#;
    assert_eq!(called(ran, b"").unwrap(), String::from_utf8_lossy(ran).trim());
    let refused = br#"{"host_exec":true,"executable":"git","args":[],"cwd":"/work","stdout":"","refused":"denied: no user can be asked"}"#;
    assert_eq!(called(refused, b"").unwrap_err(), "denied: no user can be asked");
}

#[test]
fn what_is_no_result_is_an_error_that_says_so() {
    let gone = called(b"", b"pinfold-host: the host cannot be asked: gone\n").unwrap_err();
    assert_eq!(gone, "pinfold-host: the host cannot be asked: gone");
    assert_eq!(called(b"{}", b"").unwrap_err(), "the host cannot be asked: it gave no result");
    let endless: &'static [u8] = vec![b' '; LONGEST as usize + 2].leak();
    let long = called(endless, b"").unwrap_err();
    assert_eq!(long, "the host cannot be asked: the result has more than 16 MiB");
}

#[test]
fn call_ends_with_the_program_whatever_keeps_its_output_open() {
    let directory = tempfile::tempdir().unwrap();
    let result = r#"{"host_exec":true,"executable":"git","args":[],"cwd":"/work","stdout":""}"#;
    let left_running = Arc::new(Mutex::new(Vec::new()));
    let background = Arc::clone(&left_running);
    let run = move |program: InsideProgram, _: &Call| {
        let [_, out, errors] = program.streams;
        let mut out = File::from(out);
        out.write_all(result.as_bytes())?;
        background.lock().unwrap().extend([out, File::from(errors)]);
        Ok(())
    };
    let tool = tool(directory.path(), Some(Box::new(run)));
    assert_eq!(tool.text(asked(), &Call::default()).unwrap(), result);
    assert_eq!(left_running.lock().unwrap().len(), 2);
}

#[test]
fn session_that_may_not_ask_for_host_commands_runs_nothing_and_records_the_call() {
    let directory = tempfile::tempdir().unwrap();
    let tool = tool(directory.path(), None);
    let refused = tool.text(asked(), &Call::default()).unwrap_err();
    assert_eq!(refused, "commands on the host are off in this session (--host-exec)");
    let wrong = tool.text(json!({ "executable": "git" }), &Call::default()).unwrap_err();
    assert!(wrong.starts_with("Validation Failed: ") && wrong.contains("args"), "{wrong}");
    let mut reader = Reader::open(&directory.path().join("state")).unwrap().unwrap();
    assert!(reader.next_record().unwrap().is_some());
}
