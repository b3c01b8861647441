//! Errors as the API answers them (RFC 9457).

use pinfold_tasks::{Refused, StoreError};

use crate::schema::Fault;
use pinfold_content::Value;

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unauthorized,
    Forbidden,
    NotFound,
    Invalid,
    MediaType,
    TooLarge,
    Conflict,
    RateLimit,
    Unavailable,
    Internal,
}

/// An error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    pub(crate) detail: String,
    pub(crate) faults: Vec<Fault>,
    /// After how many seconds the same may succeed.
    pub(crate) retry_after: Option<u32>,
    /// Whether the connection ends with the answer.
    pub(crate) ends_connection: bool,
}

impl Kind {
    /// Returns the status, the last part of the type, the code and the title.
    pub(crate) fn parts(self) -> (u16, &'static str, &'static str, &'static str) {
        match self {
            Self::Unauthorized => (401, "unauthorized", "UNAUTHORIZED", "Unauthorized"),
            Self::Forbidden => (403, "forbidden", "FORBIDDEN", "Forbidden"),
            Self::NotFound => (404, "not-found", "NOT_FOUND", "Not Found"),
            Self::Invalid => (400, "validation-failed", "VALIDATION_FAILED", "Validation Failed"),
            Self::MediaType => {
                (415, "unsupported-media-type", "UNSUPPORTED_MEDIA_TYPE", "Unsupported Media Type")
            }
            Self::TooLarge => (413, "payload-too-large", "PAYLOAD_TOO_LARGE", "Payload Too Large"),
            Self::Conflict => (409, "conflict", "CONFLICT", "Conflict"),
            Self::RateLimit => {
                (429, "rate-limit-exceeded", "RATE_LIMIT_EXCEEDED", "Rate Limit Exceeded")
            }
            Self::Unavailable => {
                (503, "service-unavailable", "SERVICE_UNAVAILABLE", "Service Unavailable")
            }
            Self::Internal => {
                (500, "internal-server-error", "INTERNAL_SERVER_ERROR", "Internal Server Error")
            }
        }
    }
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            faults: Vec::new(),
            retry_after: None,
            ends_connection: false,
        }
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, detail)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(Kind::Forbidden, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, detail)
    }

    /// Returns the error for an input with faults.
    pub(crate) fn invalid(faults: Vec<Fault>) -> Self {
        Self { faults, ..Self::new(Kind::Invalid, "Input validation failed") }
    }

    /// Returns the error for one field.
    pub(crate) fn field(field: &str, message: impl Into<String>) -> Self {
        Self::invalid(vec![Fault { field: field.to_owned(), message: message.into() }])
    }

    /// Returns an error whose cause is nobody's business but this machine's.
    pub(crate) fn internal() -> Self {
        Self::new(Kind::Internal, "An unexpected error occurred")
    }

    /// Returns the error for an agent that has as many connections as one may have.
    pub(crate) fn too_many_connections() -> Self {
        let problem = Self::new(Kind::RateLimit, "The key has too many connections");
        Self { retry_after: Some(1), ends_connection: true, ..problem }
    }

    /// Returns what a task's state does not allow, where `doing` says what was to be done.
    pub(crate) fn refused(refused: &Refused, doing: &str) -> Self {
        match refused {
            Refused::NotQueued => Self::conflict("Task is not queued or is already being claimed"),
            Refused::Ended(status) => {
                Self::conflict(format!("Task is already in terminal state: {status}"))
            }
            Refused::Exhausted => Self::conflict("Task has exhausted all allowed attempts"),
            Refused::NotStarted => Self::conflict(format!(
                "Cannot {doing} an attempt that has not been started; call /heartbeat first"
            )),
            Refused::LeaseExpired => Self::conflict("Task claim lease has expired"),
            Refused::NotHolder => Self::forbidden("Attempt is claimed by another agent"),
            Refused::NoSuchAttempt(_) => Self::not_found("Task attempt not found"),
            other => Self::conflict(other.to_string()),
        }
    }

    /// Returns the status and the body.
    pub(crate) fn body(&self, instance: &str) -> (u16, Value) {
        let (status, slug, code, title) = self.kind.parts();
        let Value::Object(mut body) = Value::object([
            ("type", format!("https://themolt.net/problems/{slug}").into()),
            ("title", title.into()),
            ("status", u32::from(status).into()),
            ("code", code.into()),
            ("detail", self.detail.as_str().into()),
            ("instance", instance.into()),
        ]) else {
            return (status, Value::Null);
        };
        if !self.faults.is_empty() {
            let fault = |fault: &Fault| {
                let (field, message) = (fault.field.as_str(), fault.message.as_str());
                Value::object([("field", field.into()), ("message", message.into())])
            };
            body = body.with("errors", self.faults.iter().map(fault).collect::<Value>());
        }
        if let Some(seconds) = self.retry_after {
            body = body.with("retryAfter", seconds);
        }
        if self.kind == Kind::Conflict {
            body = body.with("conflict", Value::object([]));
        }
        (status, Value::Object(body))
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if error.is_transient() {
            Self {
                retry_after: Some(1),
                ..Self::new(Kind::Unavailable, "the store of tasks cannot be used right now")
            }
        } else {
            Self::internal()
        }
    }
}
