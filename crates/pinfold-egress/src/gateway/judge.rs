//! What a session may ask a model for: the list of its models, and what its budgets can count.
//!
//! What is judged is what is sent: a path in its one form, and a body that was read strictly and
//! rewritten.

use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, TRAILER, TRANSFER_ENCODING,
};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method};
use http_body::Body as _;
use hyper::body::Incoming;
use pinfold_policy::prices::Tokens;

use super::body::Outbound;
use super::budget::Budget;
use super::cloud;
use super::config::{Api, Route};
use super::journal::shortened;
use super::json;
use super::model::lists;
use super::path::{self, Gemini, Kind};
use super::refusal::Refusal;
use super::request::Request;
use super::tunnel;
use super::usage::CHARACTERS;
use crate::held::HeldBytes;

/// The largest body that is judged, in bytes: what Anthropic's API takes, too
/// (docs.anthropic.com/en/api/errors, "Request size limits").
const LARGEST_BODY: usize = 32 * 1024 * 1024;

/// Headers that say something about the bytes of a body, which are others when it is rewritten.
const OF_BYTES: [HeaderName; 4] = [
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// What was decided about a request.
pub(super) struct Judged {
    pub(super) body: Outbound,
    pub(super) path: PathAndQuery,
    /// Whether it counts as a request to a model.
    pub(super) counts: bool,
    /// The model, where it is known.
    pub(super) model: Option<String>,
    /// What it may use, where that has to be known.
    pub(super) reserved: Tokens,
}

/// What judges the requests of one route.
pub(super) struct Judge<'g> {
    pub(super) route: &'g Route,
    pub(super) budget: &'g dyn Budget,
    pub(super) held: &'g HeldBytes,
}

impl Judge<'_> {
    /// Sees to it that a request asks only for what it may, in a way that can be counted. The headers
    /// of a rewritten body are made to fit it.
    pub(super) async fn judge(
        &self,
        head: &mut Parts,
        body: Incoming,
        path: PathAndQuery,
    ) -> Result<Judged, Refusal> {
        let counts = !is_safe(&head.method) || !body.is_end_stream();
        if tunnel::wanted(head) {
            // What passes in a WebSocket is neither checked against a list nor counted.
            if self.is_limited() || path.path().ends_with("/responses") {
                return Err(Refusal::NoWebSocket);
            }
            if self.route.cloud.is_some() {
                return Err(Refusal::NoWebSocket);
            }
            let body = Outbound::passing(body);
            return Ok(Judged {
                body,
                path,
                counts: true,
                model: None,
                reserved: Tokens::default(),
            });
        }
        if !counts || !self.is_limited() {
            let body = self.unread(head, body).await?;
            return Ok(Judged { body, path, counts, model: None, reserved: Tokens::default() });
        }
        let (path, own) = self.in_plain_form(&path)?;
        let kind = match self.route.cloud {
            Some(_) if cloud::counts_tokens(&own) => Kind::Counting,
            Some(_) => Kind::Usual,
            None => path::kind(&own),
        };
        let is_judged = self.route.models.is_some() || self.budget.limits_answers();
        match kind {
            Kind::Batch => {
                return Err(Refusal::NotCountable { what: "a batch of requests".to_owned() });
            }
            Kind::Deferred if is_judged => {
                return Err(Refusal::NotCountable {
                    what: "work that goes on after its answer".to_owned(),
                });
            }
            Kind::Deferred | Kind::Usual | Kind::Counting | Kind::Embedding => {}
        }
        if !is_judged {
            let body = self.unread(head, body).await?;
            return Ok(Judged { body, path, counts, model: None, reserved: Tokens::default() });
        }
        let (body, request) = self.body(head, body).await?;
        let model = self.model(request.as_ref(), &own)?;
        let reserved = reserved(request.as_ref(), kind, &body);
        Ok(Judged { body, path, counts, model, reserved })
    }

    /// Returns the path in its one form, with the query and as a whole, and its part below the
    /// upstream's own prefix.
    fn in_plain_form(&self, path: &PathAndQuery) -> Result<(PathAndQuery, String), Refusal> {
        let unclear = || Refusal::UnclearPath { path: shortened(path.path()).to_owned() };
        let prefix = self.route.upstream.prefix.as_str();
        if self.route.cloud.is_some() {
            // The gateway wrote it when it admitted the request.
            let own = path.path().strip_prefix(prefix).ok_or_else(unclear)?.to_owned();
            return Ok((path.clone(), own));
        }
        let own = path.path().strip_prefix(prefix).and_then(path::plain).ok_or_else(unclear)?;
        let query = path.query().map(|query| format!("?{query}")).unwrap_or_default();
        let whole = PathAndQuery::try_from(format!("{prefix}{own}{query}"));
        Ok((whole.map_err(|_| unclear())?, own))
    }

    /// Returns a body that is not looked at. One that may be signed is whole before it goes out.
    async fn unread(&self, head: &mut Parts, body: Incoming) -> Result<Outbound, Refusal> {
        if self.route.api != Api::Bedrock {
            return Ok(Outbound::passing(body));
        }
        let held = self.held.collect(body, LARGEST_BODY).await?;
        for name in [CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER] {
            head.headers.remove(name);
        }
        Ok(Outbound::whole(held.into_bytes()))
    }

    /// Returns whether anything is limited.
    fn is_limited(&self) -> bool {
        self.route.models.is_some() || self.budget.limits_requests() || self.budget.limits_answers()
    }

    /// Holds a body until it is whole, and rewrites it. Nothing is known of one that is empty.
    async fn body(
        &self,
        head: &mut Parts,
        body: Incoming,
    ) -> Result<(Outbound, Option<Request>), Refusal> {
        if body.is_end_stream() {
            return Ok((Outbound::passing(body), None));
        }
        if is_encoded(&head.headers) {
            return Err(self.unknown("its body is compressed; send it as it is"));
        }
        let mut held = self.held.collect(body, LARGEST_BODY).await?;
        if held.bytes.is_empty() {
            return Ok((Outbound::empty(), None));
        }
        let read = json::rewrite(&mut held.bytes);
        let request = read.map_err(|why| self.unknown(&why.to_string()))?;
        for name in [CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER] {
            head.headers.remove(name);
        }
        for name in &OF_BYTES {
            head.headers.remove(name);
        }
        // A server that goes by another type would read another body.
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok((Outbound::whole(held.into_bytes()), Some(request)))
    }

    /// Returns the model that is asked for, after all that are named were checked against the list.
    fn model(&self, request: Option<&Request>, path: &str) -> Result<Option<String>, Refusal> {
        if let Some(key) = request.and_then(|request| request.unclear) {
            return Err(
                self.unknown(&format!("`{key}` in its body has a form that is not understood"))
            );
        }
        if self.budget.limits_answers() && request.is_some_and(|request| request.is_deferred) {
            return Err(Refusal::NotCountable { what: "an answer in the background".to_owned() });
        }
        let in_path = match self.route.api {
            Api::Gemini => path::of_gemini(path),
            Api::Bedrock | Api::Vertex => self.of_cloud(path),
            Api::Anthropic | Api::OpenAi => Gemini::InBody,
        };
        let must_be_known = self.route.models.is_some() || self.budget.needs_model();
        let in_body = request.map_or(&[][..], |request| &request.models);
        let of_parts = request.map_or(&[][..], |request| &request.of_parts);
        let in_path = match &in_path {
            Gemini::Model(model) => Some(model),
            Gemini::InBody => None,
            Gemini::Unknown if must_be_known => {
                return Err(
                    self.unknown("its path has another shape than /v1beta/models/NAME:METHOD")
                );
            }
            Gemini::Unknown => None,
        };
        if must_be_known && request.is_some() && in_path.is_none() && in_body.is_empty() {
            return Err(self.unknown("its body names no model"));
        }
        let named: Vec<&String> = in_path.into_iter().chain(in_body).chain(of_parts).collect();
        if let Some(models) = &self.route.models
            && let Some(model) = named.iter().find(|model| !lists(models, model))
        {
            return Err(Refusal::ForeignModel {
                provider: self.route.provider.clone(),
                model: shortened(model).to_owned(),
                allowed: models.join(", "),
            });
        }
        let bare = |model: &&String| model.strip_prefix("models/").unwrap_or(model).to_owned();
        let first = named.first().map(bare);
        if self.budget.needs_model() && named.iter().any(|model| Some(bare(model)) != first) {
            return Err(self.unknown("it names several models, and their prices differ"));
        }
        Ok(first)
    }

    /// Returns the model in a path of a cloud.
    fn of_cloud(&self, path: &str) -> Gemini {
        let read = match &self.route.cloud {
            Some(place) if self.route.api == Api::Vertex => cloud::vertex(path, place),
            Some(_) => cloud::bedrock(path),
            None => None,
        };
        read.map_or(Gemini::Unknown, |read| Gemini::Model(read.model))
    }

    fn unknown(&self, why: &str) -> Refusal {
        let allowed = match &self.route.models {
            Some(models) => models.join(", "),
            None if self.budget.needs_model() => "those with a price".to_owned(),
            None => return Refusal::NotCountable { what: format!("this request ({why})") },
        };
        Refusal::UnknownModel { why: why.to_owned(), allowed }
    }
}

/// Returns whether a method asks for nothing to be done.
fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE)
}

fn is_encoded(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONTENT_ENCODING).iter();
    values.any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Returns what a request may use at most.
fn reserved(request: Option<&Request>, kind: Kind, body: &Outbound) -> Tokens {
    let sent = http_body::Body::size_hint(body).exact().unwrap_or(0);
    let output = match kind {
        Kind::Counting => return Tokens::default(),
        Kind::Embedding => 0,
        Kind::Usual | Kind::Batch | Kind::Deferred => request.map_or(0, Request::most_output),
    };
    Tokens { input: sent / CHARACTERS, output, ..Tokens::default() }
}
