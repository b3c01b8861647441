//! The server of a diary: the part of MoltNet's API by which agents on other machines remember.
//!
//! Who calls, how often, and how much a body may have is decided as for tasks. Packs and renderings are made by the
//! same tools that agents on this machine have ([`MemoryTools`]).

mod entries;
mod operations;
mod route;
mod signing;

use std::fmt;
use std::io;
use std::net::SocketAddr;

use pinfold_memory::MemoryTools;

use crate::agents::Agents;
use crate::problem::{Kind, Problem};
use crate::server::caller::{Caller, Callers};
use crate::server::http::{Admission, Handler, Head, Reply};
use crate::server::query::Query;
use crate::server::{LARGEST_FORM, Server, TlsFiles, granted, runtime};

use route::Route;
use signing::SigningRequests;

/// Bytes of a body: the longest rendering, each character of which JSON may write with six bytes.
const LARGEST_BODY: usize = 4 << 20;
/// Bytes of most answers: a page of the longest entries.
const LARGEST_ANSWER: usize = 10 << 20;

/// Records a request that uses the diary, by the name of what it does. An error refuses the request.
pub type Record = Box<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

/// What a server of a diary needs.
pub struct DiaryConfig {
    /// The diary, with what agents may do.
    pub tools: MemoryTools,
    /// What the diary is called.
    pub name: String,
    /// Who may use it.
    pub agents: Agents,
    /// What records requests.
    pub record: Record,
    /// The certificate; connections are not encrypted without one.
    pub tls: Option<TlsFiles>,
}

impl fmt::Debug for DiaryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiaryConfig").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Answers requests about one diary.
struct DiaryApi {
    tools: MemoryTools,
    name: String,
    callers: Callers,
    record: Record,
    requests: SigningRequests,
}

/// A request that is to be answered.
struct Admitted {
    route: Route,
    /// None for a request for a token.
    caller: Option<Caller>,
}

impl Server {
    /// Listens on an address for requests about a diary. Nothing is answered before [`Server::run`].
    ///
    /// # Errors
    /// Returns the error of bind(2), or of a certificate that cannot be used.
    pub fn bind_diary(address: SocketAddr, config: DiaryConfig) -> io::Result<Self> {
        let DiaryConfig { tools, name, agents, record, tls } = config;
        let api = DiaryApi {
            tools,
            name,
            callers: Callers::new(agents),
            record,
            requests: SigningRequests::default(),
        };
        Self::of(address, tls, api, |_| {})
    }
}

impl Handler for DiaryApi {
    type Admitted = Admitted;

    fn admit(&self, head: &Head) -> Result<Admission<Admitted>, Problem> {
        let route = Route::find(&head.method, &head.path)
            .ok_or_else(|| Problem::not_found("Route not found"))?;
        let Some(scope) = route.scope() else {
            let what = Admitted { route, caller: None };
            return Ok(Admission { what, agent: None, most: LARGEST_FORM, answer: LARGEST_FORM });
        };
        let caller = self.callers.bearer(head.authorization())?;
        self.callers.slow_down(&caller.agent.id, route.cost())?;
        caller.check(scope)?;
        let agent = Some(caller.agent.id.clone());
        let what = Admitted { route, caller: Some(caller) };
        Ok(Admission { what, agent, most: LARGEST_BODY, answer: LARGEST_ANSWER })
    }

    fn answer(&self, head: &Head, admitted: Admitted, body: &[u8]) -> Result<Reply, Problem> {
        let Admitted { route, caller } = admitted;
        let Some(caller) = caller else { return granted(&self.callers, body) };
        if route == Route::Whoami {
            return Ok(Reply::json(200, &runtime::whoami(&caller)));
        }
        // What cannot be recorded does not happen.
        (self.record)(route.name()).map_err(|_| {
            let what = "the request cannot be recorded right now";
            Problem { retry_after: Some(60), ..Problem::new(Kind::Unavailable, what) }
        })?;
        let query = Query::read(&head.query)?;
        let status = route.status();
        let value = self.operate(&route, &caller, &query, || head.json(body))?;
        Ok(Reply::json(status, &value))
    }
}
