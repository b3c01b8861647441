//! What a server's errors mean for a store.

use pinfold_tasks::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::address::plain;

/// Returns what an error means. `said` is what ended the connection, if something did: the error itself only says that it is closed.
pub(crate) fn of(error: &Error, said: Option<&str>) -> StoreError {
    if let Some(database) = error.as_db_error() {
        return of_code(database.code(), &plain(database.message()));
    }
    let text = match said {
        Some(said) => said.to_owned(),
        None => plain(&in_words(error)),
    };
    // Its kinds are not public: a server that asks for a password which nobody gave, or whose proof is wrong.
    if ["authentication error", "invalid configuration"].contains(&error.to_string().as_str()) {
        return StoreError::Denied(text);
    }
    // All that is left is about the connection, or about an answer that this program cannot read.
    StoreError::Unreachable(text)
}

/// Returns an error with its causes: tokio-postgres has the kind alone in the first one.
pub(crate) fn in_words(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Returns what a code of the server means (PostgreSQL's documentation, appendix A).
fn of_code(code: &SqlState, message: &str) -> StoreError {
    let message = || message.to_owned();
    match *code {
        SqlState::LOCK_NOT_AVAILABLE
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::QUERY_CANCELED => StoreError::Busy,
        SqlState::DISK_FULL => StoreError::Full,
        SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly,
        // Another transaction made the same task or token: what was found before is not true any more.
        SqlState::UNIQUE_VIOLATION | SqlState::FOREIGN_KEY_VIOLATION => StoreError::Changed,
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => {
            StoreError::Invalid { what: "page", reason: message() }
        }
        SqlState::INSUFFICIENT_PRIVILEGE | SqlState::UNDEFINED_DATABASE => {
            StoreError::Denied(message())
        }
        _ => match code.code().get(..2) {
            // Who may log in.
            Some("28") => StoreError::Denied(message()),
            // The connection, its server's memory or connections, an administrator, the operating system, and what the server
            // did not expect itself, such as a full disk while somebody logs in.
            Some("08" | "53" | "57" | "58" | "XX") => StoreError::Unreachable(message()),
            Some("25") if *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => {
                StoreError::Unreachable(message())
            }
            _ => {
                StoreError::Database(format!("{} (code {})", message(), plain(code.code())).into())
            }
        },
    }
}
