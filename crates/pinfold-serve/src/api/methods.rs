//! What each method does.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use pinfold_client::api::{
    ApprovalsAnswer, ApprovalsList, ApprovalsWatch, Call, Cancel, EventsSubscribe, ExecDone,
    ExecExit, ExecOutput, ExecResize, ExecRun, ExecSignal, ExecStart, ExecStarted, ExecWrite,
    FileContent, FilesChanged, FilesEdit, FilesFind, FilesGrep, FilesList, FilesMakeDirectory,
    FilesRead, FilesStat, FilesUnwatch, FilesWatch, FilesWrite, Hello, SessionInfo, SessionList,
    SessionStart, SessionStarted, SessionStop, Sessions, Stream, WatchStarted,
};
use pinfold_client::{Fault, Id, code};
use pinfold_host::session_id::SessionId;
use pinfold_tools::{Operation, Tools, Watch};
use serde_json::Value;

use super::connection::{Asked, Connection, done, hello, params, start_thread, to_value};
use super::going_on::{ExecHandle, Inlet, Input, feed, input};
use super::{approvals, events};
use crate::exec::{Job, Tail, fault};
use crate::start::{detached, start};

/// Bytes of each output that `exec.run` keeps unless another number is asked for,
const KEPT: u64 = 1 << 20;
/// and at most.
const MOST_KEPT: u64 = 32 << 20;
/// How long `session.stop` waits before it kills.
const GRACE: u64 = 10_000;

type Answer = Result<Option<Value>, Fault>;

/// Does what a request asks for. Nothing is answered yet if it goes on.
pub(super) fn dispatch(to: &Arc<Connection>, asked: &Asked, method: &str, given: Value) -> Answer {
    match method {
        Hello::METHOD => params::<Hello>(given).and_then(|_| hello()),
        SessionStart::METHOD => session_start(to, asked, params(given)?),
        SessionList::METHOD => params::<SessionList>(given).and_then(|_| sessions(to)),
        SessionStop::METHOD => session_stop(to, asked, params(given)?),
        ExecStart::METHOD => exec_start(to, asked, params(given)?),
        ExecWrite::METHOD => exec_write(to, asked, params(given)?),
        ExecResize::METHOD => exec_resize(to, params(given)?),
        ExecSignal::METHOD => exec_signal(to, params(given)?),
        ExecRun::METHOD => exec_run(to, asked, params(given)?),
        FilesWatch::METHOD => watch(to, asked, params(given)?),
        FilesUnwatch::METHOD => unwatch(to, params(given)?),
        FilesFind::METHOD => find(to, asked, params(given)?),
        FilesGrep::METHOD => grep(to, asked, params(given)?),
        EventsSubscribe::METHOD => {
            let EventsSubscribe { session } = params(given)?;
            events::subscribe(to, session)?;
            done()
        }
        ApprovalsList::METHOD => {
            let ApprovalsList { session } = params(given)?;
            to_value(&approvals::list(to, &session)?).map(Some)
        }
        ApprovalsWatch::METHOD => {
            let ApprovalsWatch { session } = params(given)?;
            approvals::watch(to, &session)?;
            done()
        }
        ApprovalsAnswer::METHOD => {
            approvals::answer(to, params(given)?)?;
            done()
        }
        Cancel::METHOD => {
            let Cancel { request } = params(given)?;
            to.going_on.cancel(&request);
            done()
        }
        _ => files(to, method, given),
    }
}

/// Returns what is done at once.
fn files(to: &Connection, method: &str, given: Value) -> Answer {
    let with = &to.going_on;
    let answer = match method {
        FilesRead::METHOD => {
            let FilesRead { session, read } = params(given)?;
            let (file, content) = with.with_tools(&session, |tools| tools.read(read))?;
            to_value(&FileContent { file, content: content.into() })
        }
        FilesWrite::METHOD => {
            let FilesWrite { session, write, content } = params(given)?;
            to_value(&with.with_tools(&session, |tools| tools.write(write, content.as_slice()))?)
        }
        FilesEdit::METHOD => {
            let FilesEdit { session, edit } = params(given)?;
            to_value(&with.with_tools(&session, |tools| tools.edit(edit))?)
        }
        FilesList::METHOD => {
            let FilesList { session, list } = params(given)?;
            to_value(&with.with_tools(&session, |tools| tools.list(list))?)
        }
        FilesStat::METHOD => {
            let FilesStat { session, stat } = params(given)?;
            to_value(&with.with_tools(&session, |tools| tools.stat(stat))?)
        }
        FilesMakeDirectory::METHOD => {
            let FilesMakeDirectory { session, directory } = params(given)?;
            with.with_tools(&session, |tools| tools.make_directory(directory))?;
            return done();
        }
        _ => return Err(Fault::new(code::METHOD, format!("no method {method}"))),
    };
    answer.map(Some)
}

fn session_start(to: &Arc<Connection>, asked: &Asked, call: SessionStart) -> Answer {
    to.later(asked, move |to, _| {
        if !call.workspace.is_absolute() {
            return Err(Fault::new(code::PARAMS, "workspace: expected an absolute path"));
        }
        let name = call.name.iter().flat_map(|name| ["--name".into(), OsString::from(name)]);
        let options: Vec<OsString> = name.chain(call.options.iter().map(OsString::from)).collect();
        let (session, notes) = if call.detached {
            detached(&call.workspace, &options)?
        } else {
            let started = start(&call.workspace, &options)?;
            let answer = (started.session().to_owned(), started.notes().to_vec());
            to.going_on.own(started);
            answer
        };
        let boundary = SessionId::parse(&session)
            .and_then(|id| pinfold_host::sessions::boundary_of(to.going_on.places(), &id));
        let gone = || Fault::refused("the session has ended".to_owned(), None);
        Ok(SessionStarted { session, boundary: boundary.ok_or_else(gone)?, notes })
    })
}

fn sessions(to: &Connection) -> Answer {
    let places = to.going_on.places();
    let names = pinfold_host::sessions::names(places);
    let mut live: Vec<String> = pinfold_host::sessions::live_sessions(places).into_iter().collect();
    live.sort_unstable();
    let name =
        |session: &String| names.iter().find_map(|(id, name)| (id == session).then_some(name));
    let sessions = live
        .iter()
        .map(|session| SessionInfo { session: session.clone(), name: name(session).cloned() });
    to_value(&Sessions { sessions: sessions.collect() }).map(Some)
}

fn session_stop(to: &Arc<Connection>, asked: &Asked, call: SessionStop) -> Answer {
    to.later(asked, move |to, _| {
        let session = to.going_on.session(&call.session)?;
        session.stop(Duration::from_millis(call.grace_ms.unwrap_or(GRACE))).map_err(fault)?;
        to.going_on.disown(session.name());
        Ok(pinfold_client::api::Done {})
    })
}

fn exec_start(to: &Arc<Connection>, asked: &Asked, call: ExecStart) -> Answer {
    to.going_on.has_room()?;
    let session = to.going_on.session(&call.session)?;
    let mut job = match call.terminal {
        Some(size) => Job::start_in_terminal(&session, call.program, size)?,
        None => Job::start(&session, call.program, call.input)?,
    };
    let exec = to.going_on.number();
    let inlet = job.input.take().map(|pipe| take_input(to, pipe)).transpose()?;
    let running = Arc::clone(&job.running);
    to.going_on.execs.lock().insert(exec, ExecHandle { running, input: inlet });
    let (of_thread, asked) = (Arc::clone(to), asked.clone());
    let started = start_thread(move || {
        let to = of_thread;
        let opened = match call.terminal {
            Some(_) => open_terminal(&to, &mut job, exec),
            None => Ok(()),
        };
        if let Err(fault) = opened {
            to.going_on.execs.lock().remove(&exec);
            // A client that has gone wants no answer.
            return drop(to.answer(&asked, Err(fault)));
        }
        // The client is to know the number before it hears of it.
        let sent = to.answer(&asked, to_value(&ExecStarted { exec }));
        let ended = match sent {
            Ok(()) => job.until_end(|stream, data| {
                to.outgoing.report(&ExecOutput { exec, stream, data: data.into() })
            }),
            Err(error) => Err(Fault::refused(error.to_string(), None)),
        };
        to.going_on.execs.lock().remove(&exec);
        let (ended, error) = match ended {
            Ok(ended) => (Some(ended), None),
            Err(fault) => (None, Some(fault.message)),
        };
        // A client that has gone wants no answer.
        let _ = to.outgoing.report(&ExecExit { exec, ended, error });
    });
    if started.is_err() {
        to.going_on.execs.lock().remove(&exec);
    }
    started.map(|()| None)
}

/// Waits for a program's terminal, where what is written to the program goes from then on.
fn open_terminal(to: &Arc<Connection>, job: &mut Job, exec: u64) -> Result<(), Fault> {
    job.open_terminal()?;
    let inlet = job.input.take().map(|keys| take_input(to, keys)).transpose()?;
    if let Some(handle) = to.going_on.execs.lock().get_mut(&exec) {
        handle.input = inlet;
    }
    Ok(())
}

/// Writes to a program's input what is handed in.
fn take_input(to: &Arc<Connection>, pipe: OwnedFd) -> Result<Inlet, Fault> {
    let (inlet, outlet) = input();
    let to = Arc::clone(to);
    start_thread(move || {
        feed(pipe, outlet, |id, written| {
            let result = written.and_then(|()| to_value(&pinfold_client::api::Done {}));
            // A client that has gone wants no answer.
            let _ = to.outgoing.answer(id, result);
        });
    })?;
    Ok(inlet)
}

fn exec_write(to: &Connection, asked: &Asked, call: ExecWrite) -> Answer {
    let input = Input { id: asked.id(), data: call.data.into(), end: call.end };
    to.going_on.write(call.exec, input).map(|()| None)
}

fn exec_resize(to: &Connection, ExecResize { exec, terminal }: ExecResize) -> Answer {
    match to.going_on.execs.lock().get(&exec) {
        Some(exec) => exec.running.resize((terminal.rows, terminal.columns)).map_err(fault)?,
        None => return Err(Fault::refused("no such program, or it has ended", None)),
    }
    done()
}

fn exec_signal(to: &Connection, call: ExecSignal) -> Answer {
    match to.going_on.execs.lock().get(&call.exec) {
        Some(exec) if call.signal == libc::SIGKILL => exec.running.kill(),
        Some(exec) => exec.running.signal(call.signal),
        None => return Err(Fault::refused("no such program, or it has ended", None)),
    }
    done()
}

fn exec_run(to: &Arc<Connection>, asked: &Asked, call: ExecRun) -> Answer {
    to.later(asked, move |to, id| {
        let session = to.going_on.session(&call.session)?;
        let limit = call.limit.unwrap_or(KEPT).min(MOST_KEPT) as usize;
        let mut job = Job::start(&session, call.program, !call.input.as_slice().is_empty())?;
        let running = Arc::clone(&job.running);
        to.going_on.can_be_taken_back(id, Arc::new(move || running.kill()));
        if let Some(pipe) = job.input.take() {
            // One that does not read its input may still do its work.
            start_thread(move || {
                let mut pipe = std::fs::File::from(pipe);
                let _ = std::io::Write::write_all(&mut pipe, call.input.as_slice());
            })?;
        }
        let (mut stdout, mut stderr) = (Tail::of(limit), Tail::of(limit));
        let ended = job.until_end(|stream, data| {
            match stream {
                Stream::Stdout => stdout.push(data),
                Stream::Stderr => stderr.push(data),
            }
            Ok(())
        })?;
        let ((stdout, first), (stderr, second)) = (stdout.finish(), stderr.finish());
        let dropped = first + second;
        Ok(ExecDone { ended, stdout: stdout.into(), stderr: stderr.into(), dropped })
    })
}

fn watch(to: &Arc<Connection>, asked: &Asked, call: FilesWatch) -> Answer {
    to.going_on.has_room()?;
    let tools = to.going_on.tools(&call.session)?;
    let (to, asked) = (Arc::clone(to), asked.clone());
    start_thread(move || follow(&to, &tools, &asked, call.watch)).map(|()| None)
}

/// Answers once everything is watched, and reports what changes from then on.
fn follow(to: &Connection, tools: &Arc<Tools>, asked: &Asked, what: Watch) {
    let watched = tools.watch(what).and_then(|mut events| events.event().map(|_| events));
    let mut events = match watched {
        Ok(events) => events,
        // A client that has gone wants no answer.
        Err(error) => return drop(to.answer(asked, Err(error.into()))),
    };
    let watch = to.going_on.number();
    let (of_watch, id) = (Arc::clone(tools), events.id());
    to.going_on.watches(watch, Arc::new(move || of_watch.cancel(id)));
    let mut sent = to.answer(asked, to_value(&WatchStarted { watch }));
    while sent.is_ok() {
        let changed = match events.event() {
            Ok(event) => {
                FilesChanged { watch, change: Some(event.change), path: event.path, error: None }
            }
            Err(error) => {
                let error = Some(error.message);
                let last = FilesChanged { watch, change: None, path: "".into(), error };
                sent = to.outgoing.report(&last);
                break;
            }
        };
        sent = to.outgoing.report(&changed);
    }
    // Sent or not, it is over.
    drop(sent);
    to.going_on.forget_watch(watch);
}

fn unwatch(to: &Connection, call: FilesUnwatch) -> Answer {
    to.going_on.end_watch(call.watch)?;
    done()
}

fn find(to: &Arc<Connection>, asked: &Asked, call: FilesFind) -> Answer {
    to.later(asked, move |to, id| {
        long(to, id, &call.session, Operation::Find(call.find), |call| call.found())
    })
}

fn grep(to: &Arc<Connection>, asked: &Asked, call: FilesGrep) -> Answer {
    to.later(asked, move |to, id| {
        long(to, id, &call.session, Operation::Grep(call.grep), |call| call.lines())
    })
}

/// Does something with a session's tools that can be taken back.
fn long<T>(
    to: &Arc<Connection>,
    id: &Id,
    session: &str,
    operation: Operation,
    wait: impl FnOnce(pinfold_tools::Call<'_>) -> Result<T, pinfold_tools::ToolError>,
) -> Result<T, Fault> {
    let tools = to.going_on.tools(session)?;
    to.going_on.with_tools(session, |_| {
        let call = tools.call(&operation, &[])?;
        let (of_request, number) = (Arc::clone(&tools), call.id());
        to.going_on.can_be_taken_back(id, Arc::new(move || of_request.cancel(number)));
        wait(call)
    })
}
