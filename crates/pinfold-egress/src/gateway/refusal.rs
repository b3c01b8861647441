//! Every way a request can be refused, and what the client gets.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use pinfold_policy::path::cut;
use serde_json::json;

use super::budget::Over;
use super::config::{Api, ProviderId};
use super::event_stream;
use super::form::{Dialect, Form};
use crate::held::HoldError;

/// What shows the clients of both APIs that trying again is of no use; they look at it before they
/// look at the status.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Bytes of a model's name in a message, which is shown on the user's screen.
const MOST_MODEL: usize = 128;

/// Seconds to wait before another attempt (RFC 9110, 10.2.3).
const RETRY_NOW: &str = "0";
const RETRY_SOON: &str = "5";

/// Why a request does not go through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("pinfold: the request is not well formed: {0}")]
    Malformed(&'static str),
    /// Answered by the library that reads requests.
    #[error("pinfold: malformed request: {what}")]
    Unreadable { too_large: bool, what: String },
    #[error(
        "pinfold: the key is not this session's. Only the key that pinfold put into the \
         environment opens this gateway; a real key does not belong inside"
    )]
    BadKey,
    #[error(
        "pinfold: {host} cannot be reached from this session: only the session's model providers \
         can. If the command needs it, run that step outside, or ask the user who started the \
         session to allow the host in its policy"
    )]
    ForeignHost { host: String },
    #[error(
        "pinfold: provider `{provider}` is not allowed in this session (allowed: {known}); start \
         the session with --provider {provider}"
    )]
    ForeignProvider { provider: String, known: String },
    #[error(
        "pinfold: the gateway has no {path}; a base URL for it ends before /v1, and requests go \
         to /v1/… or /p/<provider>/v1/…"
    )]
    UnknownPath { path: String },
    #[error(
        "pinfold: no usable credential for provider `{provider}`: on the host, set one with \
         `pinfold secret set {id}`; `pinfold secret check {id}` says what was looked at"
    )]
    NoCredential { provider: ProviderId, id: String },
    #[error(
        "pinfold: the model `{model}` is not allowed in this session (allowed: {allowed}); choose one \
         of these, or ask the user who started the session to add it to `models` of provider \
         `{provider}` in config.toml"
    )]
    ForeignModel { provider: ProviderId, model: String, allowed: String },
    #[error(
        "pinfold: it is not known which model this request asks for: {why}. Only these are allowed \
         in this session: {allowed}"
    )]
    UnknownModel { why: String, allowed: String },
    #[error(
        "pinfold: the path {path} can be read in two ways, and this session limits what may be asked; \
         send it in its plain form"
    )]
    UnclearPath { path: String },
    #[error(
        "pinfold: {what} cannot be counted, and this session limits what may be used; send single \
         requests and read their answers"
    )]
    NotCountable { what: String },
    #[error("pinfold: {0}")]
    NotHeld(HoldError),
    #[error(
        "pinfold: what is left of {what} is reserved by requests that are under way or were broken \
         off; try again when they have ended"
    )]
    Reserved { what: String },
    #[error("pinfold: {what} is spent; {reset}")]
    OverBudget { what: String, reset: String, seconds: Option<u64> },
    #[error(
        "pinfold: money is limited in this session, and no price of the model `{model}` is known; choose \
         another model, or ask the user who started the session to set [prices.\"{model}\"] in \
         config.toml or to limit tokens instead (--budget-tokens)"
    )]
    Unpriced { model: String },
    #[error(
        "pinfold: what this session uses cannot be counted, so nothing is sent; see to the state \
         directory on the host: {cause}"
    )]
    NotCounted { cause: String },
    #[error(
        "pinfold: this request cannot be a WebSocket, because what passes there is neither limited \
         nor counted; send it over plain HTTP"
    )]
    NoWebSocket,
    #[error(
        "pinfold: the login for provider `{provider}` has ended: its server gives no more tokens for \
         it. On the host, log in again and take the login over with `pinfold secret import`; this \
         session uses it at once"
    )]
    LoginEnded { provider: ProviderId },
    #[error(
        "pinfold: the login for provider `{provider}` cannot be refreshed now: {cause}; it is tried \
         again with the next request"
    )]
    LoginNotNow { provider: ProviderId, cause: String },
    #[error(
        "pinfold: the login for provider `{provider}` was refreshed just now; send the request again"
    )]
    LoginRenewed { provider: ProviderId },
    #[error(
        "pinfold: the secret `{id}` for provider `{provider}` is of another kind than when this \
         session began; start a new session to use it"
    )]
    OtherKind { provider: ProviderId, id: String },
    #[error(
        "pinfold: this request cannot be recorded, so it is not sent; see to the audit log on \
         the host (is its disk full?)"
    )]
    NotRecorded,
    #[error("pinfold: this request cannot be signed for {host}")]
    NotSigned { host: String },
    #[error("pinfold: provider `{provider}` at {host} did not answer: {cause}")]
    Upstream { provider: ProviderId, host: String, cause: String },
}

impl From<Over> for Refusal {
    fn from(over: Over) -> Self {
        match over {
            Over::Spent { what, reset, after } => {
                Self::OverBudget { what, reset, seconds: after.map(|after| after.as_secs()) }
            }
            Over::Reserved { what } => Self::Reserved { what },
            Over::Unpriced { model } => Self::Unpriced { model: cut(&model, MOST_MODEL).into() },
            Over::Broken { cause } => Self::NotCounted { cause },
        }
    }
}

impl From<HoldError> for Refusal {
    fn from(error: HoldError) -> Self {
        Self::NotHeld(error)
    }
}

impl Refusal {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Unreadable { too_large: true, .. } => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Malformed(_) | Self::Unreadable { .. } => StatusCode::BAD_REQUEST,
            Self::BadKey => StatusCode::UNAUTHORIZED,
            Self::ForeignHost { .. }
            | Self::ForeignProvider { .. }
            | Self::ForeignModel { .. }
            | Self::UnknownModel { .. }
            | Self::UnclearPath { .. }
            | Self::NotCountable { .. }
            | Self::Unpriced { .. } => StatusCode::FORBIDDEN,
            Self::OverBudget { .. } | Self::Reserved { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::NotHeld(HoldError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotHeld(HoldError::TooSlow) => StatusCode::REQUEST_TIMEOUT,
            Self::NotHeld(HoldError::Broken) => StatusCode::BAD_REQUEST,
            Self::NoWebSocket => StatusCode::UPGRADE_REQUIRED,
            Self::UnknownPath { .. } => StatusCode::NOT_FOUND,
            Self::NoCredential { .. }
            | Self::LoginEnded { .. }
            | Self::LoginNotNow { .. }
            | Self::LoginRenewed { .. }
            | Self::OtherKind { .. }
            | Self::NotCounted { .. }
            | Self::NotSigned { .. }
            | Self::NotRecorded => StatusCode::SERVICE_UNAVAILABLE,
            Self::Upstream { .. } => StatusCode::BAD_GATEWAY,
        }
    }

    /// Returns whether the user should know at once: without the host, no request of this kind succeeds.
    pub(super) fn is_for_user(&self) -> bool {
        match self {
            Self::Upstream { .. }
            | Self::NoCredential { .. }
            | Self::LoginEnded { .. }
            | Self::LoginNotNow { .. }
            | Self::OtherKind { .. }
            | Self::NotSigned { .. }
            | Self::NotCounted { .. }
            | Self::Unpriced { .. } => true,
            Self::Malformed(_)
            | Self::Unreadable { .. }
            | Self::BadKey
            | Self::ForeignHost { .. }
            | Self::ForeignProvider { .. }
            | Self::UnknownPath { .. }
            | Self::ForeignModel { .. }
            | Self::UnknownModel { .. }
            | Self::UnclearPath { .. }
            | Self::NotCountable { .. }
            | Self::NotHeld(_)
            | Self::Reserved { .. }
            | Self::OverBudget { .. }
            | Self::NoWebSocket
            | Self::LoginRenewed { .. }
            | Self::NotRecorded => false,
        }
    }

    /// Answers the client. The connection is closed after what was no sound request.
    pub(super) fn response(&self, form: Form) -> Response<Full<Bytes>> {
        let (content_type, body) = match form {
            Form::Api(api) => ("application/json", self.json(api)),
            Form::Text => ("text/plain; charset=utf-8", format!("{self}\n")),
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        match self {
            Self::Upstream { .. } => {}
            Self::OverBudget { seconds, .. } => {
                headers.extend(seconds.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
            Self::LoginNotNow { .. } | Self::LoginRenewed { .. } => {
                let renewed = matches!(self, Self::LoginRenewed { .. });
                let seconds = if renewed { RETRY_NOW } else { RETRY_SOON };
                headers.insert(RETRY_AFTER, HeaderValue::from_static(seconds));
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("true"));
            }
            Self::Reserved { .. } => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SOON));
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("true"));
            }
            Self::NotHeld(error) => {
                let again = if *error == HoldError::TooSlow { "true" } else { "false" };
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
                headers.insert(SHOULD_RETRY, HeaderValue::from_static(again));
            }
            Self::Malformed(_) | Self::Unreadable { .. } | Self::ForeignHost { .. } => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
            Self::BadKey
            | Self::ForeignProvider { .. }
            | Self::ForeignModel { .. }
            | Self::UnknownModel { .. }
            | Self::UnclearPath { .. }
            | Self::NotCountable { .. }
            | Self::NoWebSocket
            | Self::Unpriced { .. }
            | Self::NotCounted { .. }
            | Self::UnknownPath { .. }
            | Self::NoCredential { .. }
            | Self::LoginEnded { .. }
            | Self::OtherKind { .. }
            | Self::NotSigned { .. }
            | Self::NotRecorded => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
        }
        response
    }

    /// Returns the error as the last event of a stream, after a whole event or line.
    pub(super) fn event(&self, dialect: Dialect) -> Vec<u8> {
        let message = self.to_string();
        let event = match dialect {
            Dialect::EventStream => {
                let kind = match self.status() {
                    StatusCode::TOO_MANY_REQUESTS => "throttlingException",
                    _ => "validationException",
                };
                let headers = [
                    (":exception-type", kind),
                    (":content-type", "application/json"),
                    (":message-type", "exception"),
                ];
                return event_stream::message(&headers, self.json(Api::Bedrock).as_bytes());
            }
            Dialect::Messages => format!("event: error\ndata: {}\n\n", self.json(Api::Anthropic)),
            Dialect::Chat => format!("data: {}\n\ndata: [DONE]\n\n", self.json(Api::OpenAi)),
            Dialect::Gemini => format!("data: {}\n\n", self.json(Api::Gemini)),
            Dialect::Responses => {
                let error = json!({"code": self.code(), "message": message});
                let response = json!({"id": "resp_pinfold", "object": "response",
                    "status": "failed", "output": [], "error": error});
                let data = json!({"type": "response.failed", "response": response});
                format!("event: response.failed\ndata: {data}\n\n")
            }
        };
        format!("\n{event}").into_bytes()
    }

    fn json(&self, api: Api) -> String {
        let kind = self.kind(api);
        let message = self.to_string();
        match api {
            // Clients of Bedrock read `message`, those of Anthropic's models in Vertex AI the rest.
            Api::Bedrock => json!({"message": message}),
            Api::Anthropic | Api::Vertex => json!({"type": "error", "error": {"type": kind, "message": message}}),
            Api::OpenAi => {
                json!({"error": {"message": message, "type": kind, "param": null, "code": self.code()}})
            }
            Api::Gemini => {
                let code = self.status().as_u16();
                json!({"error": {"code": code, "message": message, "status": kind}})
            }
        }
        .to_string()
    }

    /// Returns the type by the words of each API's own documentation of errors.
    fn kind(&self, api: Api) -> &'static str {
        match api {
            Api::Anthropic | Api::Bedrock | Api::Vertex => match self.status().as_u16() {
                401 => "authentication_error",
                403 => "permission_error",
                404 => "not_found_error",
                429 => "rate_limit_error",
                502 | 503 => "api_error",
                _ => "invalid_request_error",
            },
            Api::OpenAi => match self.status().as_u16() {
                429 => "insufficient_quota",
                502 | 503 => "server_error",
                _ => "invalid_request_error",
            },
            Api::Gemini => match self.status().as_u16() {
                401 => "UNAUTHENTICATED",
                403 => "PERMISSION_DENIED",
                404 => "NOT_FOUND",
                429 => "RESOURCE_EXHAUSTED",
                502 | 503 => "UNAVAILABLE",
                _ => "INVALID_ARGUMENT",
            },
        }
    }

    /// Returns a word for programs.
    fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) | Self::Unreadable { .. } => "malformed",
            Self::BadKey => "invalid_api_key",
            Self::ForeignHost { .. } => "host_not_allowed",
            Self::ForeignProvider { .. } => "provider_not_allowed",
            Self::ForeignModel { .. } | Self::UnknownModel { .. } => "model_not_allowed",
            Self::NoWebSocket => "upgrade_unsupported",
            Self::UnclearPath { .. } => "path_not_plain",
            Self::NotCountable { .. } => "not_countable",
            Self::NotHeld(_) => "body_not_read",
            Self::Reserved { .. } => "quota_reserved",
            Self::OverBudget { .. } => "insufficient_quota",
            Self::Unpriced { .. } => "price_not_known",
            Self::NotCounted { .. } => "not_counted",
            Self::UnknownPath { .. } => "unknown_path",
            Self::NoCredential { .. } => "no_credential",
            Self::LoginEnded { .. } => "login_ended",
            Self::LoginNotNow { .. } => "login_not_refreshed",
            Self::LoginRenewed { .. } => "login_refreshed",
            Self::OtherKind { .. } => "credential_changed",
            Self::NotRecorded => "not_recorded",
            Self::NotSigned { .. } => "not_signed",
            Self::Upstream { .. } => "upstream_failed",
        }
    }
}
