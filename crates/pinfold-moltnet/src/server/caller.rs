//! Who calls: agent keys, tokens of clients, and how often.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pinfold_host::digest::name_of;

use crate::agents::{Agent, Agents, AgentsError, random_word};
use crate::problem::{Kind, Problem};
use crate::scope::Scope;
use crate::server::query::Query;
use pinfold_content::Value;

/// How long a token lasts.
const LIFETIME: Duration = Duration::from_secs(3_600);
/// The most tokens of one agent. The oldest one ends when there are more.
const MOST_TOKENS: usize = 32;
/// Requests in a minute: those that change something, those that only read, and those of nobody.
const WRITES: f64 = 600.0;
const READS: f64 = 900.0;
const REFUSALS: f64 = 60.0;

/// An agent that makes a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) agent: Agent,
    pub(crate) scopes: Vec<Scope>,
}

impl Caller {
    /// Checks that the caller may do something.
    pub(crate) fn check(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.contains(&scope) {
            Ok(())
        } else {
            Err(Problem::forbidden(format!("Missing scope: {scope}")))
        }
    }
}

/// Knows who calls.
pub(crate) struct Callers {
    agents: Agents,
    /// By the digests of tokens: who reads this process's memory by a fault finds none.
    tokens: Mutex<HashMap<String, Token>>,
    paces: Mutex<HashMap<String, Pace>>,
}

struct Token {
    agent: String,
    scopes: Vec<Scope>,
    ends: Instant,
}

/// How many requests are left to an agent.
struct Pace {
    reads: f64,
    writes: f64,
    refusals: f64,
    at: Instant,
}

/// What a client gets for its secret, or the error of OAuth (RFC 6749, 5.2).
pub(crate) enum Granted {
    Token(Value),
    Refused(u16, &'static str),
}

impl Callers {
    pub(crate) fn new(agents: Agents) -> Self {
        Self { agents, tokens: Mutex::default(), paces: Mutex::default() }
    }

    /// Returns who a bearer is.
    pub(crate) fn bearer(&self, authorization: Option<&str>) -> Result<Caller, Problem> {
        let bearer = authorization.and_then(|value| {
            let (scheme, bearer) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| bearer.trim())
        });
        let found = match bearer {
            Some(bearer) => self.find(bearer).map_err(|_| Problem::internal())?,
            None => None,
        };
        match found {
            Some(caller) => Ok(caller),
            None => {
                self.slow_down("", Cost::Refusal)?;
                Err(Problem::new(Kind::Unauthorized, "Authentication required"))
            }
        }
    }

    fn find(&self, bearer: &str) -> Result<Option<Caller>, AgentsError> {
        if let Some(agent) = self.agents.with_key(bearer)? {
            let scopes = agent.scopes.clone();
            return Ok(Some(Caller { agent, scopes }));
        }
        let token = {
            let tokens = self.tokens.lock();
            let token =
                tokens.get(&name_of(bearer.as_bytes())).filter(|token| Instant::now() < token.ends);
            token.map(|token| (token.agent.clone(), token.scopes.clone()))
        };
        let Some((id, mut scopes)) = token else { return Ok(None) };
        // An agent that was removed since has no tokens.
        let Some(agent) = self.agents.with_id(&id)? else { return Ok(None) };
        scopes.retain(|scope| agent.scopes.contains(scope));
        Ok(Some(Caller { agent, scopes }))
    }

    /// Takes one request from what is left to an agent.
    pub(crate) fn slow_down(&self, agent: &str, cost: Cost) -> Result<(), Problem> {
        let now = Instant::now();
        let mut paces = self.paces.lock();
        let begin = Pace { reads: READS, writes: WRITES, refusals: REFUSALS, at: now };
        let pace = paces.entry(agent.to_owned()).or_insert(begin);
        let minutes = now.duration_since(pace.at).as_secs_f64() / 60.0;
        pace.at = now;
        for (left, most) in
            [(&mut pace.reads, READS), (&mut pace.writes, WRITES), (&mut pace.refusals, REFUSALS)]
        {
            *left = (*left + minutes * most).min(most);
        }
        let left = match cost {
            Cost::Read => &mut pace.reads,
            Cost::Write => &mut pace.writes,
            Cost::Refusal => &mut pace.refusals,
        };
        if *left < 1.0 {
            let problem = Problem::new(Kind::RateLimit, "Too many requests");
            return Err(Problem { retry_after: Some(1), ..problem });
        }
        *left -= 1.0;
        Ok(())
    }

    /// Gives a client a token for its secret (RFC 6749, 4.4).
    pub(crate) fn grant(&self, form: &Query) -> Result<Granted, Problem> {
        // RFC 6749, 3.2.
        let given = ["grant_type", "client_id", "client_secret", "scope"];
        if given.iter().any(|name| form.only(name).is_err()) {
            return Ok(Granted::Refused(400, "invalid_request"));
        }
        if form.one("grant_type") != Some("client_credentials") {
            return Ok(Granted::Refused(400, "unsupported_grant_type"));
        }
        let secret = form.one("client_secret").unwrap_or_default();
        let agent = self
            .agents
            .with_key(secret)
            .map_err(|_| Problem::internal())?
            .filter(|agent| form.one("client_id") == Some(&agent.id));
        let Some(agent) = agent else {
            self.slow_down("", Cost::Refusal)?;
            return Ok(Granted::Refused(401, "invalid_client"));
        };
        self.slow_down(&agent.id, Cost::Write)?;
        let asked: Option<Vec<&str>> = form.one("scope").map(|all| all.split(' ').collect());
        let is_asked = |scope: &Scope| match &asked {
            Some(asked) => asked.contains(&scope.word()),
            // Clients of June 2026 name none.
            None => true,
        };
        let scopes: Vec<Scope> = agent.scopes.iter().copied().filter(is_asked).collect();
        let token = random_word("pinfold_at_").map_err(|_| Problem::internal())?;
        let words: Vec<&str> = scopes.iter().map(|scope| scope.word()).collect();
        let answer = Value::object([
            ("access_token", token.as_str().into()),
            ("token_type", "bearer".into()),
            ("expires_in", LIFETIME.as_secs().into()),
            ("scope", words.join(" ").into()),
        ]);
        let kept = Token { agent: agent.id, scopes, ends: Instant::now() + LIFETIME };
        self.keep(name_of(token.as_bytes()), kept);
        Ok(Granted::Token(answer))
    }

    fn keep(&self, name: String, token: Token) {
        let mut tokens = self.tokens.lock();
        let now = Instant::now();
        tokens.retain(|_, token| now < token.ends);
        let mut own: Vec<(Instant, String)> = tokens
            .iter()
            .filter(|(_, it)| it.agent == token.agent)
            .map(|(name, it)| (it.ends, name.clone()))
            .collect();
        own.sort();
        for (_, oldest) in own.iter().take((own.len() + 1).saturating_sub(MOST_TOKENS)) {
            tokens.remove(oldest);
        }
        tokens.insert(name, token);
    }
}

/// What a request is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    Read,
    Write,
    /// It has no valid key.
    Refusal,
}
