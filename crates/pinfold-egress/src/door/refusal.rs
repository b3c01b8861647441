//! What a client gets when it cannot have what it asked for.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use hyper::ext::ReasonPhrase;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use pinfold_policy::network::{Hint, Refused};

use crate::held::HoldError;

/// Tells programs that the answer is pinfold's and not the server's.
const REFUSAL: HeaderName = HeaderName::from_static("x-pinfold-refusal");

/// Why a client gets no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoWay {
    /// The policy says so.
    #[error("pinfold: {0}. {hint}", hint = hint(.0))]
    Refused(Refused),
    /// No rule allows it, and the user refused or did not answer.
    #[error("pinfold: {0}")]
    Denied(String),
    /// The client's request cannot be taken at its word.
    #[error("pinfold: the request is not well formed: {0}")]
    Malformed(&'static str),
    /// The request's body cannot be held.
    #[error("pinfold: {0}")]
    NotHeld(HoldError),
    /// The connection cannot be recorded.
    #[error(
        "pinfold: this connection cannot be recorded, so it is not made; see to the audit log on \
         the host (is its disk full?)"
    )]
    NotRecorded,
    /// The request holds the placeholder of a secret that is not there, or not any more.
    #[error(
        "pinfold: no usable value for the secret `{0}`: on the host, set one with `pinfold secret \
         set {0}`; `pinfold secret check {0}` says what was looked at"
    )]
    NoSecret(String),
    /// The server could not be reached.
    #[error("pinfold: {0}")]
    Unreachable(String),
}

/// What gRPC encodes in a message in a header ("Percent-Encoded"), next to what is not ASCII.
const GRPC: &AsciiSet = &CONTROLS.add(b'%');

fn hint(refused: &Refused) -> String {
    match refused.hint() {
        Some(Hint::Flag(flag)) => format!(
            "If the work needs it, the user who started this session can allow it with \
             `pinfold run {flag}` or under [network] in config.toml"
        ),
        Some(Hint::Setting(words)) => format!(
            "If the work needs it, the user who started this session can allow it with {words} \
             in config.toml"
        ),
        None => "Nothing allows this".to_owned(),
    }
}

impl NoWay {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            // A client that reuses a connection for another host opens a new one when it sees this
            // (RFC 9110, 15.5.20).
            Self::Refused(Refused::OtherName { .. }) => StatusCode::MISDIRECTED_REQUEST,
            Self::Refused(_) | Self::Denied(_) | Self::NoSecret(_) => StatusCode::FORBIDDEN,
            Self::Malformed(_) | Self::NotHeld(HoldError::Broken) => StatusCode::BAD_REQUEST,
            Self::NotHeld(HoldError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotHeld(HoldError::TooSlow) => StatusCode::REQUEST_TIMEOUT,
            Self::NotRecorded => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable(_) => StatusCode::BAD_GATEWAY,
        }
    }

    /// Returns the whole answer, after which the connection is closed.
    pub(super) fn response(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(format!("{self}\n"))));
        *response.status_mut() = self.status();
        if let Ok(reason) = ReasonPhrase::try_from(self.reason()) {
            response.extensions_mut().insert(reason);
        }
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if let Self::Refused(_) | Self::Denied(_) = self {
            headers.insert(REFUSAL, HeaderValue::from_static("network"));
        }
        response
    }

    /// Returns the answer to a request of this content type: to one of gRPC as its libraries show it
    /// (gRPC over HTTP/2, "Responses", Trailers-Only).
    pub(super) fn response_to(&self, kind: Option<&HeaderValue>) -> Response<Full<Bytes>> {
        let kind = kind.map(HeaderValue::as_bytes).unwrap_or_default();
        let message =
            HeaderValue::try_from(utf8_percent_encode(&self.to_string(), GRPC).to_string());
        let (true, Ok(message)) = (kind.starts_with(b"application/grpc"), message) else {
            return self.response();
        };
        const PERMISSION_DENIED: u16 = 7;
        const INTERNAL: u16 = 13;
        const UNAVAILABLE: u16 = 14;
        let status = match self {
            Self::Refused(_) | Self::Denied(_) | Self::NoSecret(_) => PERMISSION_DENIED,
            Self::Malformed(_) => INTERNAL,
            Self::NotRecorded | Self::Unreachable(_) | Self::NotHeld(_) => UNAVAILABLE,
        };
        let mut response = Response::new(Full::default());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(HeaderName::from_static("grpc-status"), status.into());
        headers.insert(HeaderName::from_static("grpc-message"), message);
        response
    }

    /// Returns the reason in one line, for the status line (RFC 9112, 4): of an answer to `CONNECT` many
    /// clients show nothing else.
    fn reason(&self) -> String {
        const LONGEST: usize = 300;
        let text = match self {
            Self::Refused(refused) => match refused.hint() {
                Some(hint) => format!("pinfold: {refused} ({hint})"),
                None => format!("pinfold: {refused}"),
            },
            other => other.to_string(),
        };
        let shown = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
        text.chars().take(LONGEST).map(shown).collect()
    }

    /// Returns the same as bytes of HTTP/1.1, for a client whose request was read by hand.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let (status, reason, body) = (self.status().as_u16(), self.reason(), format!("{self}\n"));
        let refusal = match self {
            Self::Refused(_) | Self::Denied(_) => format!("{REFUSAL}: network\r\n"),
            _ => String::new(),
        };
        format!(
            "HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain; charset=utf-8\r\n{refusal}\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}
