//! Calling a tool, and telling a model what it gave.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_client::api::Program;
use pinfold_client::{Fault, code};
use pinfold_host::launcher::start_session;
use pinfold_mcp::{Asked, Call, Failure, Toolset};
use pinfold_tools::{
    Bytes, ContentKind, Edit, EntryKind, ErrorKind, Find, Grep, GrepMode, LineKind, List,
    Operation, Range, Read, Stat, ToolError, Write,
};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::definitions::{
    BashArguments, EditArguments, NoArguments, ReadArguments, SaidDone, SessionsDone,
    WriteArguments,
};
use super::sessions::Sessions;
use super::{definitions, text};
use crate::exec::{Job, Tail};

/// Lines that are read unless another number is asked for.
const LINES: u64 = 2_000;
/// Bytes of an image: what models take at most.
const IMAGE: usize = 5 << 20;
/// Bytes of a command's output.
const OUTPUT: usize = 64 * 1024;
/// Runs its first argument by the best shell that the session's system has: bash, where it is there.
const SHELL: &str = r#"exec "${SHELL:-sh}" -c "$1""#;
/// How often the progress of a command is reported.
const PROGRESS: Duration = Duration::from_secs(1);

/// What a tool gave.
struct Given {
    content: Value,
    /// All that the content says, for programs: clients show a model this alone where it is there.
    structured: Option<Value>,
    is_error: bool,
}

impl Given {
    fn text(text: &str) -> Self {
        let content = json!([{ "type": "text", "text": text }]);
        Self { content, structured: None, is_error: false }
    }

    fn structured(text: &str, structured: &impl serde::Serialize) -> Result<Self, Fault> {
        let structured = serde_json::to_value(structured)
            .map_err(|error| Fault::refused(error.to_string(), None))?;
        Ok(Self { structured: Some(structured), ..Self::text(text) })
    }
}

impl Toolset for Sessions {
    fn definitions(&self) -> Vec<Value> {
        definitions::all()
    }

    fn has(&self, name: &str) -> bool {
        definitions::has(name)
    }

    fn call(&self, asked: Asked<'_>) -> Result<Value, Fault> {
        run(self, asked.call, asked.name, asked.arguments, asked.report)
    }

    /// Sessions review no failures: the model has seen them.
    fn note(&self, _: &Failure<'_>) {}
}

/// Calls a tool. What it refuses is a result that the model reads; what is no call is a fault.
fn run(
    sessions: &Sessions,
    call: &Call,
    name: &str,
    mut arguments: Value,
    report: &dyn Fn(u64, &str),
) -> Result<Value, Fault> {
    if arguments.is_null() {
        arguments = json!({});
    }
    if !arguments.is_object() {
        return Err(Fault::new(code::PARAMS, "arguments: expected an object"));
    }
    let session = match arguments.as_object_mut().and_then(|members| members.remove("session")) {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name),
        Some(_) => return Err(Fault::new(code::PARAMS, "session: expected a string")),
    };
    let to = session.as_deref();
    let given = match name {
        "read" => read(sessions, to, parse(arguments)?),
        "write" => write(sessions, to, parse(arguments)?),
        "edit" => edit(sessions, to, parse(arguments)?),
        "bash" => bash(sessions, to, parse(arguments)?, call, report),
        "ls" => list(sessions, to, parse(arguments)?),
        "find" => find(sessions, to, parse(arguments)?, call),
        "grep" => grep(sessions, to, parse(arguments)?, call),
        "stat" => stat(sessions, to, parse(arguments)?),
        "session_list" => parse::<NoArguments>(arguments).and_then(|_| with_sessions(sessions, "")),
        "session_start" => parse::<NoArguments>(arguments).and_then(|_| {
            let (name, notes) = sessions.start()?;
            with_sessions(sessions, &format!("started {name}\n{}", notes.join("\n")))
        }),
        "session_stop" => parse::<NoArguments>(arguments).and_then(|_| {
            let name = sessions.stop(session.as_deref())?;
            with_sessions(sessions, &format!("ended {name}"))
        }),
        "snapshot_inspect" => {
            parse::<NoArguments>(arguments).and_then(|_| own(sessions, "inspect", call))
        }
        _ => parse::<NoArguments>(arguments).and_then(|_| own(sessions, "build", call)),
    };
    match given {
        Ok(Given { content, structured, is_error }) => {
            let mut result = json!({ "content": content, "isError": is_error });
            if let Some(structured) = structured {
                result["structuredContent"] = structured;
            }
            Ok(result)
        }
        Err(fault) if fault.code == code::PARAMS => Err(fault),
        Err(fault) => {
            let hint = fault
                .data
                .as_ref()
                .and_then(|data| data["hint"].as_str())
                .map_or(String::new(), |hint| format!("\nhint: {hint}"));
            let text = format!("{}{hint}", fault.message);
            Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
        }
    }
}

fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, Fault> {
    serde_json::from_value(arguments)
        .map_err(|error| Fault::new(code::PARAMS, format!("arguments: {error}")))
}

fn read(sessions: &Sessions, session: Option<&str>, asked: ReadArguments) -> Result<Given, Fault> {
    let tools = sessions.tools(session)?;
    let path = Bytes::from(asked.path);
    let (first, count) = (asked.offset.unwrap_or(1), asked.limit.unwrap_or(LINES));
    let lines = Read { path: path.clone(), range: Some(Range::Lines { first, count }) };
    // Tools give the hints of the API.
    let read = tools.read(lines).map_err(|error| match error.kind {
        ErrorKind::TooLarge => {
            let what = "these lines are too long, or too far behind, to be read; `bash` can show a \
                part of them";
            ToolError { message: format!("{what}: {}", path.to_text()), ..error }
        }
        _ => error,
    });
    let (done, content) = sessions.said(&tools, read)?;
    match (done.kind, &done.mime) {
        (ContentKind::Image, Some(mime)) => {
            let read = Read { path, range: None };
            let (_, content) = sessions.said(&tools, tools.read(read))?;
            if content.len() > IMAGE {
                let what = format!("an image of {} bytes is too large to be shown", content.len());
                return Err(Fault::refused(what, None));
            }
            let image = json!({
                "type": "image", "data": STANDARD.encode(content), "mimeType": mime,
            });
            Ok(Given { content: json!([image]), ..Given::text("") })
        }
        (ContentKind::Binary, _) => {
            Ok(Given::text(&format!("a binary file of {} bytes", done.size)))
        }
        _ => Ok(Given::text(&some_lines(&content, first.max(1), done.lines))),
    }
}

/// Lines from this one on, of so many if that is known, and where to go on.
fn some_lines(content: &[u8], first: u64, all: Option<u64>) -> String {
    let cut = content.len() > text::MOST;
    let whole = &content[..content.len().min(text::MOST)];
    let end = if cut { memchr::memrchr(b'\n', whole).map(|at| at + 1) } else { None };
    let mut text = String::from_utf8_lossy(&whole[..end.unwrap_or(whole.len())]).into_owned();
    let shown = text.lines().count() as u64;
    let next = first.saturating_add(shown);
    // To write to a string cannot fail.
    let _ = match all {
        _ if cut && end.is_none() => write!(text, "\n[line {first} is longer than can be shown]"),
        Some(all) if shown == 0 && all > 0 => write!(text, "[{all} lines in all]"),
        Some(all) if cut || next <= all => {
            write!(text, "\n[{all} lines in all; continue with offset {next}]")
        }
        None => write!(text, "\n[there are more; continue with offset {next}]"),
        Some(_) => Ok(()),
    };
    text
}

fn write(
    sessions: &Sessions,
    session: Option<&str>,
    asked: WriteArguments,
) -> Result<Given, Fault> {
    let tools = sessions.tools(session)?;
    let write = Write { path: asked.path.into(), parents: true, new: false };
    let done = sessions.said(&tools, tools.write(write.clone(), asked.content.as_bytes()))?;
    let text = format!("{} bytes written to {}", done.size, text::name(&write.path));
    Given::structured(&text, &done)
}

fn edit(sessions: &Sessions, session: Option<&str>, asked: EditArguments) -> Result<Given, Fault> {
    let tools = sessions.tools(session)?;
    let edit = Edit { path: asked.path.into(), edits: asked.edits };
    let done = sessions.said(&tools, tools.edit(edit))?;
    let text = format!("{} replaced, the first in line {}", done.replaced, done.first_line);
    Given::structured(&text, &done)
}

fn bash(
    sessions: &Sessions,
    session: Option<&str>,
    asked: BashArguments,
    call: &Call,
    report: &dyn Fn(u64, &str),
) -> Result<Given, Fault> {
    if asked.timeout == Some(0) {
        let what = "timeout: expected 1 second at least; leave it out for no limit";
        return Err(Fault::new(code::PARAMS, what));
    }
    let session = sessions.session(session)?;
    let program = Program {
        argv: ["sh", "-c", SHELL, "sh", &asked.command].map(str::to_owned).to_vec(),
        cwd: asked.cwd,
        timeout_ms: asked.timeout.map(|seconds| seconds.saturating_mul(1000)),
        ..Program::default()
    };
    let job = Job::start(&session, program, false)?;
    let running = std::sync::Arc::clone(&job.running);
    call.can_be_taken_back(move || running.kill());
    let (mut output, mut bytes, mut last) = (Tail::of(OUTPUT), 0, Instant::now());
    let ended = job.until_end(|_, data| {
        output.push(data);
        bytes += data.len() as u64;
        if last.elapsed() >= PROGRESS {
            last = Instant::now();
            report(bytes, &text::progress(data));
        }
        Ok(())
    })?;
    let (output, dropped) = output.finish();
    let mut text = shown(&output, dropped);
    if ended.timed_out {
        text.push_str("\n[its time was over]");
    } else if ended.status != 0 {
        // To write to a string cannot fail.
        let _ = write!(text, "\n[status {}]", ended.status);
    }
    Ok(Given { is_error: ended.status != 0, ..Given::text(&text) })
}

fn list(sessions: &Sessions, session: Option<&str>, asked: List) -> Result<Given, Fault> {
    let tools = sessions.tools(session)?;
    let done = sessions.said(&tools, tools.list(asked))?;
    let mut lines = text::Lines::default();
    for entry in &done.entries {
        let mark = match entry.kind {
            EntryKind::Directory => "/",
            EntryKind::Link => "@",
            EntryKind::File | EntryKind::Special => "",
        };
        lines.push(&format!("{}{mark}", text::name(&entry.name)));
    }
    Ok(Given::text(&lines.finish(done.truncated)))
}

fn find(
    sessions: &Sessions,
    session: Option<&str>,
    asked: Find,
    call: &Call,
) -> Result<Given, Fault> {
    let tools = sessions.tools(session)?;
    let found = tools.call(&Operation::Find(asked), &[]).and_then(|found| {
        let (tools, id) = (std::sync::Arc::clone(&tools), found.id());
        call.can_be_taken_back(move || tools.cancel(id));
        found.found()
    });
    let done = sessions.said(&tools, found)?;
    let mut lines = text::Lines::default();
    done.entries.iter().for_each(|entry| lines.push(&text::name(&entry.name)));
    Ok(Given::text(&lines.finish(done.truncated)))
}

fn grep(
    sessions: &Sessions,
    session: Option<&str>,
    asked: Grep,
    call: &Call,
) -> Result<Given, Fault> {
    let tools = sessions.tools(session)?;
    let mode = asked.mode;
    let found = tools.call(&Operation::Grep(asked), &[]).and_then(|found| {
        let (tools, id) = (std::sync::Arc::clone(&tools), found.id());
        call.can_be_taken_back(move || tools.cancel(id));
        found.lines()
    });
    let done = sessions.said(&tools, found)?;
    let mut lines = text::Lines::default();
    for line in &done.lines {
        let path = text::name(&line.path);
        let mark = if line.kind == LineKind::Match { ':' } else { '-' };
        lines.push(&match mode {
            GrepMode::Files => path,
            GrepMode::Count => format!("{path}:{}", line.line),
            GrepMode::Lines => format!("{path}{mark}{}{mark}{}", line.line, line.text.to_text()),
        });
    }
    if done.binary {
        lines.push("[a binary file: it was searched up to its first NUL byte]");
    } else if done.lines.is_empty() {
        lines.push("nothing matches");
    }
    Ok(Given::text(&lines.finish(done.truncated)))
}

fn stat(sessions: &Sessions, session: Option<&str>, asked: Stat) -> Result<Given, Fault> {
    let tools = sessions.tools(session)?;
    let done = sessions.said(&tools, tools.stat(asked))?;
    let text =
        serde_json::to_string(&done).map_err(|error| Fault::refused(error.to_string(), None))?;
    Given::structured(&text, &done)
}

fn with_sessions(sessions: &Sessions, said: &str) -> Result<Given, Fault> {
    let done = SessionsDone { sessions: sessions.list() };
    let list = done.sessions.join("\n");
    Given::structured(format!("{said}\nsessions:\n{list}").trim(), &done)
}

/// Asks this very program about snapshots. Taken back, it is asked to end (SIGTERM).
fn own(sessions: &Sessions, command: &str, call: &Call) -> Result<Given, Fault> {
    let arguments: [OsString; 2] = ["snapshot".into(), command.into()];
    let refused = |error: io::Error| Fault::refused(error.to_string(), None);
    let mut child = start_session(&arguments, sessions.directory()).map_err(refused)?;
    drop(child.stdin.take());
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
        .map_err(|errno| refused(errno.into()))?;
    // One that has ended needs no signal.
    call.can_be_taken_back(move || {
        let _ = pidfd_send_signal(&process, Signal::TERM);
    });
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (said, notes) = std::thread::scope(|scope| {
        let notes = scope.spawn(|| the_end_of(stderr));
        (the_end_of(stdout), notes.join().unwrap_or_default())
    });
    let is_success = child.wait().map_err(refused)?.success();
    let said = format!("{said}{notes}").trim().to_owned();
    if is_success {
        Given::structured(&said, &SaidDone { said: said.clone() })
    } else {
        Err(Fault::refused(said, None))
    }
}

/// Returns what a program says, as much of its end as a model is shown.
fn the_end_of(output: Option<impl io::Read>) -> String {
    let (mut tail, mut buffer) = (Tail::of(OUTPUT), [0; 8 << 10]);
    let Some(mut output) = output else { return String::new() };
    while let Ok(count @ 1..) = output.read(&mut buffer) {
        tail.push(&buffer[..count]);
    }
    let (bytes, dropped) = tail.finish();
    shown(&bytes, dropped)
}

/// Returns output whose beginning may be left out.
fn shown(bytes: &[u8], dropped: u64) -> String {
    let text = String::from_utf8_lossy(bytes);
    match dropped {
        0 => text.into_owned(),
        _ => format!("[{dropped} bytes before this are not shown]\n{text}"),
    }
}
