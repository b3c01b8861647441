//! Programs that fail, hang, say too much or answer what no launch can be.

use std::time::Instant;

use pinfold_policy::path::HostPath;

use super::*;
use crate::wrappers::{How, Launch, Wrapper};

/// Returns what `CAT` is given to wrap.
fn context() -> Context {
    let launch = Launch {
        argv: vec!["program".into(), "own".into()],
        env: vec![("A".into(), "1".into())],
        cwd: PathBuf::from("/"),
        handled_by: Vec::new(),
    };
    Context::of(&launch).unwrap()
}

fn setting(program: &Path, arguments: &[&str]) -> WrapperSetting {
    WrapperSetting {
        id: "the-wrapper".to_owned(),
        label: None,
        program: HostPath::new(program).unwrap(),
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
    }
}

/// Returns what becomes of a launch whose wrapper is this line of a shell.
fn ask(line: &str, patience: Duration) -> Result<Context, String> {
    let setting = setting(Path::new("/bin/sh"), &["-c", line]);
    let program = Program { patience, ..Program::of(setting) };
    let answer = program.ask(&context(), "namespace", None, &SearchPath::without(Vec::new()));
    answer.and_then(|answer| answer.checked(&context())).map_err(|wrong| wrong.to_string())
}

#[test]
fn a_program_that_fails_in_any_way_refuses_the_launch() {
    let began = Instant::now();
    for (line, expected) in [
        ("exit 0", "gave an answer that is not a launch"),
        ("echo '{'", "gave an answer that is not a launch"),
        ("echo '{\"command\": 1}'", "gave an answer that is not a launch"),
        ("echo broken >&2; exit 3", "failed with status 3: broken"),
        ("kill -9 $$", "was ended by a signal"),
        ("head -c 1000000000 /dev/zero", "answered more than 8388608 bytes"),
        ("yes >&2", "answered more than 8388608 bytes"),
    ] {
        let error = ask(line, Duration::from_secs(60)).unwrap_err();
        assert!(error.contains(expected), "{line}: {error}");
    }
    assert!(began.elapsed() < Duration::from_secs(60), "none of them is waited for");
}

#[test]
fn a_program_that_gives_no_answer_is_not_waited_for() {
    assert!(Program::of(setting(Path::new("/bin/cat"), &[])).patience <= Duration::from_secs(5));
    for line in ["sleep 1000", "sleep 1000 & echo '{}'"] {
        let began = Instant::now();
        let error = ask(line, Duration::from_millis(200)).unwrap_err();
        assert!(error.starts_with("gave no answer within"), "{line}: {error}");
        assert!(began.elapsed() < Duration::from_secs(20), "{line}: {:?}", began.elapsed());
    }
}

#[test]
fn an_answer_that_cannot_be_launched_is_refused() {
    let echo = |from: &str, to: &str| {
        let mut answer = json!(context()).to_string();
        assert!(answer.contains(from), "{from}: {answer}");
        answer = answer.replacen(from, to, 1);
        // The shell must not read it, nor echo(1) its escapes.
        ask(&format!("printf %s '{answer}'"), Duration::from_secs(60))
    };
    assert_eq!(echo("\"own\"", "\"own\",\"more\"").unwrap().args, ["own", "more"]);
    for (from, to, expected) in [
        ("\"wrappers\":[]", "\"wrappers\":[\"other\"]", "another list of wrappers"),
        ("\"own\"", "\"a\\u0000b\"", "a NUL"),
        ("\"command\":\"program\"", "\"command\":\"\"", "an empty command"),
        ("\"cwd\":\"/\"", "\"cwd\":\"relative\"", "not absolute"),
        ("\"shell\":null", "\"shell\":\"sh\"", "not absolute"),
        ("\"A\":\"1\"", "\"A=B\":\"\"", "invalid name"),
        (
            "\"args\"",
            "\"subject\":{\"name\":\"another\",\"grants\":[]},\"args\"",
            "another subject or boundary",
        ),
        ("\"args\"", "\"boundary\":\"host\",\"args\"", "another subject or boundary"),
        ("\"args\"", "\"more\":1,\"args\"", "unknown field"),
        ("\"env\":{\"A\":\"1\"},", "", "missing field"),
    ] {
        let error = echo(from, to).unwrap_err();
        assert!(error.contains("not a launch") && error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn a_program_that_is_not_there_or_is_no_file_is_not_asked() {
    let ask = |program: &Path| {
        let program = Program::of(setting(program, &[]));
        program.ask(&context(), "namespace", None, &SearchPath::without(Vec::new())).unwrap_err()
    };
    let missing = ask(Path::new("/nowhere/wrapper"));
    let how = How::Program(Program::of(setting(Path::new("/nowhere/wrapper"), &[])).into());
    let wrapper = Wrapper { id: "the-wrapper".to_owned(), label: None, how };
    let error = wrapper.failed(missing).to_string();
    assert!(error.starts_with("the wrapper the-wrapper cannot be asked: No such file"), "{error}");
    assert!(ask(Path::new("/")).to_string().contains("is no file"));
}
