//! Requests for signatures: an agent has its client's key sign the address of an entry, and then adds the entry.
//!
//! The server chooses the nonce, so a signature is of one request. Requests live in memory: who loses one to a restart asks again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pinfold_content::{Cid, Clock as _, SystemClock, Timestamp, Uuid, Value, times};
use pinfold_memory::{Signature, signing_bytes};
use ring::signature::{ED25519, UnparsedPublicKey};

use crate::problem::{Kind, Problem};
use crate::server::caller::Caller;
use crate::server::query::Query;
use crate::server::runtime::fingerprint;

/// How long a request waits for its signature, and its signature for an entry.
const LIFETIME: Duration = Duration::from_secs(300);
/// Requests of an agent at most that wait for their signature, and those that have one.
const MOST: usize = 16;
const MOST_SIGNED: usize = 64;
/// Characters of what is signed at most.
const LONGEST: usize = 100_000;
/// Requests of a page.
const PAGE: u32 = 20;
const LARGEST_PAGE: u32 = 100;

/// The requests of all agents.
#[derive(Default)]
pub(super) struct SigningRequests(Mutex<HashMap<Uuid, Request>>);

struct Request {
    agent: String,
    message: String,
    nonce: Uuid,
    created: Timestamp,
    /// Until when it waits. Clocks that are set do not change that.
    until: Instant,
    /// The signature, whether it is valid, and when it came.
    signed: Option<(String, bool, Timestamp)>,
}

impl SigningRequests {
    /// Makes a request.
    pub(super) fn ask(&self, caller: &Caller, body: &Value) -> Result<Value, Problem> {
        public_key(caller)?;
        let message = body.text_of("message").unwrap_or_default().into_owned();
        if message.is_empty() || message.chars().count() > LONGEST {
            return Err(Problem::field("/message", "must have 1 to 100000 characters"));
        }
        if body.text_of("verificationMethod").is_some_and(|method| method != "agent-ed25519") {
            return Err(Problem::field("/verificationMethod", "must be agent-ed25519"));
        }
        let new = || Uuid::generate().map_err(|_| Problem::internal());
        let (id, nonce, now) = (new()?, new()?, SystemClock.now());
        let mut requests = self.0.lock();
        requests.retain(|_, request| Instant::now() < request.until);
        let is_own = |request: &&Request| request.agent == caller.agent.id;
        let waiting = requests.values().filter(is_own).filter(|request| request.signed.is_none());
        if waiting.count() >= MOST {
            let what =
                format!("At most {MOST} signing requests are allowed; retry after one expires");
            let retry_after = u32::try_from(LIFETIME.as_secs()).ok();
            return Err(Problem { retry_after, ..Problem::new(Kind::RateLimit, what) });
        }
        let agent = caller.agent.id.clone();
        let until = Instant::now() + LIFETIME;
        let request = Request { agent, message, nonce, created: now, until, signed: None };
        let answer = request.json(id);
        requests.insert(id, request);
        Ok(answer)
    }

    /// Returns a request of the caller's.
    pub(super) fn get(&self, caller: &Caller, id: Uuid) -> Result<Value, Problem> {
        self.with(caller, id, |request| Ok(request.json(id)))
    }

    /// Returns the caller's requests, the newest first.
    pub(super) fn list(&self, caller: &Caller, query: &Query) -> Result<Value, Problem> {
        let limit = query.number("limit", 1, LARGEST_PAGE)?.unwrap_or(PAGE);
        let offset = query.number("offset", 0, u32::MAX)?.unwrap_or_default();
        let statuses: Vec<&str> = query.all("status").collect();
        let requests = self.0.lock();
        let is_meant = |request: &Request| {
            let status = request.status();
            request.agent == caller.agent.id && (statuses.is_empty() || statuses.contains(&status))
        };
        let mut own: Vec<_> = requests.iter().filter(|(_, request)| is_meant(request)).collect();
        own.sort_by_key(|(id, request)| (std::cmp::Reverse(request.created), **id));
        let page = own.iter().skip(offset as usize).take(limit as usize);
        Ok(Value::object([
            ("items", page.map(|(id, request)| request.json(**id)).collect()),
            ("total", (own.len() as u64).into()),
            ("limit", limit.into()),
            ("offset", offset.into()),
        ]))
    }

    /// Takes the signature for a request. One that is not valid ends the request.
    pub(super) fn sign(&self, caller: &Caller, id: Uuid, body: &Value) -> Result<Value, Problem> {
        let key = public_key(caller)?;
        let signature = body.text_of("signature");
        let signature = signature.ok_or_else(|| Problem::field("/signature", "is required"))?;
        let now = SystemClock.now();
        let answer = self.with(caller, id, |request| {
            let status = request.status();
            if status != "pending" {
                return Err(Problem::conflict(format!("Signing request is already {status}")));
            }
            let bytes = signing_bytes(&request.message, &request.nonce.to_string());
            let is_valid = data_encoding::BASE64.decode(signature.as_bytes()).is_ok_and(|sent| {
                UnparsedPublicKey::new(&ED25519, &key).verify(&bytes, &sent).is_ok()
            });
            request.signed = Some((signature.into_owned(), is_valid, now));
            Ok(request.json(id))
        })?;
        self.forget_oldest_signed(&caller.agent.id);
        Ok(answer)
    }

    fn forget_oldest_signed(&self, agent: &str) {
        let mut requests = self.0.lock();
        let is_signed = |request: &Request| request.agent == agent && request.signed.is_some();
        let signed = requests.iter().filter(|(_, request)| is_signed(request));
        let mut signed: Vec<(Instant, Uuid)> =
            signed.map(|(id, request)| (request.until, *id)).collect();
        signed.sort_unstable();
        for (_, oldest) in signed.iter().take(signed.len().saturating_sub(MOST_SIGNED)) {
            requests.remove(oldest);
        }
    }

    /// Returns the signature of an entry's address that a request has.
    pub(super) fn signature(
        &self,
        caller: &Caller,
        id: Uuid,
        cid: &Cid,
    ) -> Result<Signature, Problem> {
        let invalid = |what: String| Problem::new(Kind::Invalid, what);
        let public_key = caller.agent.public_key.clone().unwrap_or_default();
        self.with(caller, id, |request| {
            let status = request.status();
            let Some((signature, is_valid, _)) = &request.signed else {
                return Err(invalid(format!("Signing request is {status}, expected completed")));
            };
            if !is_valid {
                let what = "Signing request signature was not verified as valid";
                return Err(invalid(what.to_owned()));
            }
            if request.message != cid.as_str() {
                let what = "Signing request message does not match content hash";
                return Err(invalid(what.to_owned()));
            }
            Ok(Signature {
                identity: request.agent.clone(),
                public_key,
                signature: signature.clone(),
                nonce: Some(request.nonce.to_string()),
            })
        })
    }

    /// Calls a function with a request of the caller's.
    fn with<T>(
        &self,
        caller: &Caller,
        id: Uuid,
        work: impl FnOnce(&mut Request) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let mut requests = self.0.lock();
        let request = requests.get_mut(&id).filter(|request| request.agent == caller.agent.id);
        work(request.ok_or_else(|| Problem::not_found("Signing request not found"))?)
    }
}

impl Request {
    fn status(&self) -> &'static str {
        match &self.signed {
            Some(_) => "completed",
            None if Instant::now() < self.until => "pending",
            None => "expired",
        }
    }

    fn json(&self, id: Uuid) -> Value {
        let nonce = self.nonce.to_string();
        let input = data_encoding::BASE64.encode(&signing_bytes(&self.message, &nonce));
        let signed = self.signed.as_ref();
        let requester =
            Value::object([("id", self.agent.as_str().into()), ("type", "agent".into())]);
        Value::object([
            ("id", id.to_string().into()),
            ("agentId", self.agent.as_str().into()),
            ("verificationMethod", "agent-ed25519".into()),
            ("requestedBy", requester),
            ("message", self.message.as_str().into()),
            ("nonce", nonce.into()),
            ("signingInput", input.into()),
            ("status", self.status().into()),
            ("signature", signed.map(|(signature, ..)| signature.as_str()).into()),
            ("valid", signed.map_or(Value::Null, |(_, is_valid, _)| (*is_valid).into())),
            ("createdAt", times::write(self.created).into()),
            ("expiresAt", times::write(self.created + LIFETIME).into()),
            ("completedAt", times::value(signed.map(|(.., at)| *at))),
        ])
    }
}

/// Returns the public key of the caller's client.
fn public_key(caller: &Caller) -> Result<Vec<u8>, Problem> {
    let what = "the agent has no public key here, so it cannot sign";
    caller.agent.public_bytes().ok_or_else(|| Problem::new(Kind::Invalid, what))
}

/// Returns who the caller is as a signer.
pub(super) fn identity(caller: &Caller) -> Result<Value, Problem> {
    let key = public_key(caller)?;
    Ok(Value::object([
        ("identityId", caller.agent.id.as_str().into()),
        ("publicKey", caller.agent.public_key.as_deref().into()),
        ("fingerprint", fingerprint(&key).into()),
    ]))
}
