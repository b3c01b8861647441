//! The server: MoltNet's task API on a store of tasks.

mod artifacts;
mod attempts;
pub(crate) mod caller;
mod create;
mod document;
pub(crate) mod http;
mod list;
mod manage;
mod messages;
pub(crate) mod query;
mod render;
mod route;
pub(crate) mod runtime;
mod sent;
mod service;
mod sessions;
mod shares;
mod slots;
mod tls;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use pinfold_tasks::{LARGEST_ARTIFACT, NewMessage, Store};

use crate::agents::Agents;
use crate::problem::Problem;
use crate::task_type::TaskType;
use attempts::AttemptId;
use caller::{Caller, Callers, Granted};
use http::{Admission, Handler, Head, Reply};
use pinfold_content::{Uuid, Value};
use query::Query;
use route::Route;
use service::Service;

pub use runtime::Profile;
pub use tls::{TlsFiles, TlsFilesError};

/// The largest body of a request that is not an artifact, in bytes: an output has up to 4 MiB.
const LARGEST_BODY: usize = 5 << 20;
/// The largest body of a request for a token.
pub(crate) const LARGEST_FORM: usize = 16 << 10;
/// The largest page of tasks with its last task, and the largest answer of most other kinds.
const LARGEST_LIST: usize = 10 << 20;
const LARGEST_ANSWER: usize = 1 << 20;
/// How often time passes for tasks that nobody asks about.
const SWEEP: Duration = Duration::from_secs(2);
/// How many threads may use the store and the disk at once.
const THREADS: usize = 16;

/// What a server needs.
pub struct ServerConfig<S> {
    /// Where tasks are kept.
    pub store: S,
    /// Who may use it.
    pub agents: Agents,
    /// The directory of artifacts.
    pub files: PathBuf,
    /// The profile that daemons are to use, if there is one.
    pub profile: Option<Profile>,
    /// The certificate; connections are not encrypted without one.
    pub tls: Option<TlsFiles>,
}

/// A server of the task API.
pub struct Server {
    listener: TcpListener,
    run: Box<dyn FnOnce(TcpListener) -> io::Result<()> + Send>,
}

impl Server {
    /// Listens on an address. Nothing is answered before [`Server::run`].
    ///
    /// # Errors
    /// Returns the error of bind(2), or of a certificate that cannot be used.
    pub fn bind<S: Store + Send + Sync + 'static>(
        address: SocketAddr,
        config: ServerConfig<S>,
    ) -> io::Result<Self> {
        let api = Api {
            service: Service::new(config.store, config.files),
            callers: Callers::new(config.agents),
            profile: config.profile,
        };
        Self::of(address, config.tls, api, |api| {
            tokio::spawn(sweep(api));
        })
    }

    /// Listens on an address. `begin` starts what goes on aside, once there is a runtime.
    pub(crate) fn of<H: Handler>(
        address: SocketAddr,
        tls: Option<TlsFiles>,
        api: H,
        begin: impl FnOnce(Arc<H>) + Send + 'static,
    ) -> io::Result<Self> {
        let tls = tls.map(|files| files.acceptor()).transpose().map_err(io::Error::other)?;
        let listener = TcpListener::bind(address)?;
        let api = Arc::new(api);
        let run = Box::new(move |listener| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(THREADS)
                .build()?;
            let done = runtime.block_on(async move {
                begin(Arc::clone(&api));
                http::serve(listener, tls, api).await
            });
            runtime.shutdown_background();
            done
        });
        Ok(Self { listener, run })
    }

    /// Returns the address that it listens on.
    ///
    /// # Errors
    /// Returns the error of getsockname(2).
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the process ends. It may be killed at any time: each answer stands for a transaction that is done.
    ///
    /// # Errors
    /// Returns an error if no runtime can be made.
    pub fn run(self) -> io::Result<()> {
        (self.run)(self.listener)
    }
}

async fn sweep<S: Store + Send + Sync + 'static>(api: Arc<Api<S>>) {
    let cleaning = Arc::clone(&api);
    let _ = tokio::task::spawn_blocking(move || cleaning.service.remove_unfinished()).await;
    loop {
        let sweeping = Arc::clone(&api);
        let swept = tokio::task::spawn_blocking(move || sweeping.service.sweep()).await;
        // A store that fails is asked again later.
        if !matches!(swept, Ok(Ok(true))) {
            tokio::time::sleep(SWEEP).await;
        }
    }
}

struct Api<S> {
    service: Service<S>,
    callers: Callers,
    profile: Option<Profile>,
}

/// A request that is to be answered.
struct Admitted {
    route: Route,
    /// None for a request for a token.
    caller: Option<Caller>,
}

impl<S: Store + Send + Sync + 'static> Handler for Api<S> {
    type Admitted = Admitted;

    fn admit(&self, head: &Head) -> Result<Admission<Admitted>, Problem> {
        let route = Route::find(&head.method, &head.path)
            .ok_or_else(|| Problem::not_found("Route not found"))?;
        let Some(scope) = route.scope() else {
            let what = Admitted { route, caller: None };
            let most = LARGEST_FORM;
            return Ok(Admission { what, agent: None, most, answer: most });
        };
        let caller = self.callers.bearer(head.authorization())?;
        self.callers.slow_down(&caller.agent.id, route.cost(&head.method))?;
        caller.check(scope)?;
        check_team(head, &caller)?;
        let most = match route {
            Route::PutArtifact(_) => LARGEST_ARTIFACT,
            Route::PutSession(_) => sessions::LARGEST,
            _ => LARGEST_BODY,
        };
        let answer = match route {
            Route::Artifact(..) => LARGEST_ARTIFACT,
            Route::SessionContent(_) => sessions::LARGEST,
            Route::Messages(_) => messages::MOST_LISTED as usize * NewMessage::LONGEST,
            Route::List | Route::Attempts(_) => LARGEST_LIST,
            _ => LARGEST_ANSWER,
        };
        let agent = Some(caller.agent.id.clone());
        let what = Admitted { route, caller: Some(caller) };
        Ok(Admission { what, agent, most, answer })
    }

    fn answer(&self, head: &Head, admitted: Admitted, body: &[u8]) -> Result<Reply, Problem> {
        let Admitted { route, caller } = admitted;
        match caller {
            None => granted(&self.callers, body),
            Some(caller) => self.operate(head, &route, &caller, body),
        }
    }
}

/// Checks that a team that is named is the caller's. None needs to be: a key is of one team.
fn check_team(head: &Head, caller: &Caller) -> Result<(), Problem> {
    const HEADER: &str = "x-moltnet-team-id";
    if !head.headers.contains_key(HEADER) {
        return Ok(());
    }
    let named = head
        .header(HEADER)
        .and_then(|text| text.parse::<Uuid>().ok())
        .ok_or_else(|| Problem::field(HEADER, "must match format \"uuid\""))?;
    if named.to_string() == caller.agent.team {
        Ok(())
    } else {
        Err(Problem::forbidden("The key is of another team"))
    }
}

/// Answers a request for a token.
pub(crate) fn granted(callers: &Callers, body: &[u8]) -> Result<Reply, Problem> {
    let form = std::str::from_utf8(body).map_err(|_| Problem::field("/", "is not UTF-8"))?;
    let mut reply = match callers.grant(&Query::read(form)?)? {
        Granted::Token(token) => Reply::json(200, &token),
        Granted::Refused(status, error) => {
            Reply::json(status, &Value::object([("error", error.into())]))
        }
    };
    // RFC 6749, 5.1.
    reply.headers.push((CACHE_CONTROL, "no-store".to_owned()));
    Ok(reply)
}

impl<S: Store + Send + Sync + 'static> Api<S> {
    fn operate(
        &self,
        head: &Head,
        route: &Route,
        caller: &Caller,
        body: &[u8],
    ) -> Result<Reply, Problem> {
        let service = &self.service;
        let query = Query::read(&head.query)?;
        let json = || head.json(body);
        let answer = match route {
            Route::Token => Err(Problem::internal()),
            Route::InvalidId => Err(Problem::field("/id", "must match format \"uuid\"")),
            Route::Whoami => Ok(runtime::whoami(caller)),
            Route::Create => {
                let key = head.header("idempotency-key");
                let task = service.create(caller, &json()?, key)?;
                return Ok(Reply::json(201, &task));
            }
            Route::List => service.list(caller, &query),
            Route::Delete => {
                return Ok(Reply::json(202, &service.delete(caller, &json()?)?));
            }
            Route::Schemas => Ok(schemas()),
            Route::Task(id) => service.task(caller, *id),
            Route::Change(id) => service.change(caller, *id, &json()?),
            Route::Claim(id) => service.claim(caller, *id, &json()?),
            Route::Cancel(id) => service.cancel(caller, *id, &json()?),
            Route::Attempts(id) => service.attempts(caller, *id),
            Route::Heartbeat(id) => service.heartbeat(caller, *id, &json()?),
            Route::Append(id) => service.append(caller, *id, &json()?),
            Route::Messages(id) => {
                let after = query.parsed("afterSeq", |text| text.parse().ok())?;
                let limit = query.number("limit", 1, messages::MOST_LISTED)?;
                service.messages(caller, *id, after, limit.unwrap_or(50))
            }
            Route::Complete(id) => service.complete(caller, *id, &json()?),
            Route::Fail(id) => service.fail(caller, *id, &json()?),
            Route::Abort(id) => service.abort(caller, *id, &json()?),
            Route::PutArtifact(id) => service.put_artifact(caller, *id, &query, body),
            Route::Artifacts(id) => service.artifacts(caller, *id, &query),
            Route::Artifact(task, number, cid) => {
                let content = service.artifact(caller, *task, *number, cid)?;
                return Ok(download(content, &ARTIFACT_HEADERS));
            }
            Route::Profiles => Ok(Value::object([("items", self.profiles(caller).collect())])),
            Route::Profile(id) => self.profile(caller, id),
            Route::AllowedTools(id) => {
                self.profile(caller, id)?;
                Ok(Value::object([("items", Value::Array(Vec::new()))]))
            }
            Route::Register => service.register(caller, &json()?),
            Route::BeginSlot => service.begin_slot(caller, &json()?),
            Route::FinishSlot => service.finish_slot(caller, &json()?),
            Route::Slots => service.slots(caller, &query),
            Route::LatestSlot => {
                let task = query.parsed("taskId", |id| id.to_ascii_lowercase().parse().ok())?;
                let number = query.number("attemptN", 1, u32::MAX)?;
                let id = task
                    .zip(number)
                    .map(|(task, number)| AttemptId { task, number })
                    .ok_or_else(|| Problem::field("query/taskId", "is required"))?;
                service.latest_slot(caller, id)
            }
            Route::PutSession(id) => service.put_session(caller, *id, &query, body),
            Route::Session(id) => service.session(caller, *id),
            Route::SessionContent(id) => {
                return Ok(download(service.session_content(caller, *id)?, &SESSION_HEADERS));
            }
        };
        answer.map(|value| Reply::json(200, &value))
    }

    fn profiles(&self, caller: &Caller) -> impl Iterator<Item = Value> {
        self.profile.iter().map(|profile| profile.render(&caller.agent.team))
    }

    fn profile(&self, caller: &Caller, id: &str) -> Result<Value, Problem> {
        let is_it = |profile: &Value| profile.text_of("id").is_some_and(|its| its == id);
        let missing = || Problem::not_found("Runtime profile not found");
        self.profiles(caller).find(is_it).ok_or_else(missing)
    }
}

fn schemas() -> Value {
    let types = TaskType::all();
    let items = types.iter().map(|kind| {
        Value::object([
            ("taskType", kind.name.as_str().into()),
            ("outputKind", kind.output_kind().into()),
            ("inputSchemaCid", kind.schema_cid().into()),
            ("inputSchema", kind.input_schema()),
        ])
    });
    Value::object([("items", items.collect())])
}

/// Headers of a downloaded artifact, with the fields that they have.
const ARTIFACT_HEADERS: [(&str, &str); 4] = [
    ("x-moltnet-task-artifact-id", "id"),
    ("x-moltnet-task-artifact-cid", "cid"),
    ("x-moltnet-task-artifact-content-type", "contentType"),
    ("x-moltnet-task-artifact-content-encoding", "contentEncoding"),
];
/// Headers of a downloaded session, with the fields that they have.
const SESSION_HEADERS: [(&str, &str); 2] =
    [("x-moltnet-runtime-session-id", "id"), ("x-moltnet-runtime-session-sha256", "sha256")];

/// Returns the content of a file. Its type is a header of its own: a browser must not show what an agent made.
fn download(content: artifacts::Content, names: &[(&'static str, &str)]) -> Reply {
    let artifacts::Content { about, bytes } = content;
    let mut headers = vec![(CONTENT_TYPE, "application/octet-stream".to_owned())];
    for (name, field) in names {
        if let Some(value) = about.text_of(field) {
            headers.push((HeaderName::from_static(name), value.into_owned()));
        }
    }
    Reply { status: 200, headers, body: bytes }
}
