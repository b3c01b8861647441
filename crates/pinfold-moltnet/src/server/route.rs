//! Which request is for what.

use http::Method;
use pinfold_tasks::TaskId;

use super::attempts::AttemptId;
use super::caller::Cost;
use super::query::number;
use crate::scope::Scope;
use pinfold_content::Cid;

/// An operation of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Token,
    Whoami,
    Create,
    List,
    Delete,
    Schemas,
    Task(TaskId),
    Change(TaskId),
    Claim(TaskId),
    Cancel(TaskId),
    Attempts(TaskId),
    Heartbeat(AttemptId),
    Append(AttemptId),
    Messages(AttemptId),
    Complete(AttemptId),
    Fail(AttemptId),
    Abort(AttemptId),
    PutArtifact(AttemptId),
    Artifacts(TaskId),
    Artifact(TaskId, Option<u32>, Cid),
    Profiles,
    Profile(String),
    AllowedTools(String),
    Register,
    BeginSlot,
    FinishSlot,
    Slots,
    LatestSlot,
    PutSession(AttemptId),
    Session(AttemptId),
    SessionContent(AttemptId),
    /// An id that is not one.
    InvalidId,
}

impl Route {
    /// Returns the operation that a method and a path stand for.
    pub(super) fn find(method: &Method, path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let word = method.as_str();
        match (word, &parts[..]) {
            ("POST", ["oauth2", "token"]) => Some(Self::Token),
            ("GET", ["agents", "whoami"]) => Some(Self::Whoami),
            ("POST", ["tasks"]) => Some(Self::Create),
            ("GET", ["tasks"]) => Some(Self::List),
            ("DELETE", ["tasks"]) => Some(Self::Delete),
            ("GET", ["tasks", "schemas"]) => Some(Self::Schemas),
            ("GET", ["runtime-profiles"]) => Some(Self::Profiles),
            ("GET", ["runtime-profiles", id]) => Some(Self::Profile((*id).to_owned())),
            ("GET", ["runtime-profiles", id, "allowed-tools"]) => {
                Some(Self::AllowedTools((*id).to_owned()))
            }
            ("POST", ["executor-manifests", "register"]) => Some(Self::Register),
            ("POST", ["runtime-slots", "begin"]) => Some(Self::BeginSlot),
            ("POST", ["runtime-slots", "finish"]) => Some(Self::FinishSlot),
            ("GET", ["runtime-slots"]) => Some(Self::Slots),
            ("GET", ["runtime-slots", "latest"]) => Some(Self::LatestSlot),
            (_, ["runtime-sessions", id, number, rest @ ..]) => {
                Self::of_session(word, id, number, rest)
            }
            (_, ["tasks", id, rest @ ..]) => Self::of_task(word, id, rest),
            _ => None,
        }
    }

    fn of_task(method: &str, id: &str, rest: &[&str]) -> Option<Self> {
        let Ok(task) = id.to_ascii_lowercase().parse::<TaskId>() else {
            return Some(Self::InvalidId);
        };
        match (method, rest) {
            ("GET", []) => Some(Self::Task(task)),
            ("PATCH", []) => Some(Self::Change(task)),
            ("POST", ["claim"]) => Some(Self::Claim(task)),
            ("POST", ["cancel"]) => Some(Self::Cancel(task)),
            ("GET", ["attempts"]) => Some(Self::Attempts(task)),
            ("GET", ["artifacts"]) => Some(Self::Artifacts(task)),
            ("GET", ["artifacts", cid, "content"]) => {
                Some(Self::Artifact(task, None, cid.parse().ok()?))
            }
            (_, ["attempts", number, rest @ ..]) => {
                Self::of_attempt(method, AttemptId { task, number: number_of(number)? }, rest)
            }
            _ => None,
        }
    }

    fn of_session(method: &str, task: &str, number: &str, rest: &[&str]) -> Option<Self> {
        let Ok(task) = task.to_ascii_lowercase().parse::<TaskId>() else {
            return Some(Self::InvalidId);
        };
        let id = AttemptId { task, number: number_of(number)? };
        match (method, rest) {
            ("GET", []) => Some(Self::Session(id)),
            ("PUT", ["content"]) => Some(Self::PutSession(id)),
            ("GET", ["content"]) => Some(Self::SessionContent(id)),
            _ => None,
        }
    }

    fn of_attempt(method: &str, id: AttemptId, rest: &[&str]) -> Option<Self> {
        match (method, rest) {
            ("POST", ["heartbeat"]) => Some(Self::Heartbeat(id)),
            ("POST", ["messages"]) => Some(Self::Append(id)),
            ("GET", ["messages"]) => Some(Self::Messages(id)),
            ("POST", ["complete"]) => Some(Self::Complete(id)),
            ("POST", ["fail"]) => Some(Self::Fail(id)),
            ("POST", ["abort"]) => Some(Self::Abort(id)),
            ("PUT", ["artifacts"]) => Some(Self::PutArtifact(id)),
            ("GET", ["artifacts", cid, "content"]) => {
                Some(Self::Artifact(id.task, Some(id.number), cid.parse().ok()?))
            }
            _ => None,
        }
    }

    /// Returns what a caller needs for it.
    pub(super) fn scope(&self) -> Option<Scope> {
        match self {
            Self::Token => None,
            Self::Whoami => Some(Scope::AgentProfile),
            Self::Create | Self::Delete | Self::Change(_) | Self::Cancel(_) => {
                Some(Scope::TaskManage)
            }
            Self::List
            | Self::InvalidId
            | Self::Schemas
            | Self::Task(_)
            | Self::Attempts(_)
            | Self::Messages(_)
            | Self::Artifacts(_)
            | Self::Artifact(..) => Some(Scope::TaskRead),
            Self::Claim(_) => Some(Scope::TaskClaim),
            Self::Heartbeat(_)
            | Self::Append(_)
            | Self::Complete(_)
            | Self::Fail(_)
            | Self::Abort(_)
            | Self::PutArtifact(_)
            | Self::BeginSlot
            | Self::FinishSlot
            | Self::Slots
            | Self::LatestSlot
            | Self::PutSession(_)
            | Self::Session(_)
            | Self::SessionContent(_)
            | Self::Register => Some(Scope::TaskExecute),
            Self::Profiles | Self::Profile(_) | Self::AllowedTools(_) => Some(Scope::RuntimeRead),
        }
    }

    /// Returns whether it changes something.
    pub(super) fn cost(&self, method: &Method) -> Cost {
        if *method == Method::GET { Cost::Read } else { Cost::Write }
    }
}

/// Returns the number of an attempt.
fn number_of(text: &str) -> Option<u32> {
    number(text).filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::Route;

    const ID: &str = "44444444-4444-4444-8444-444444444444";

    #[test]
    fn paths_that_are_not_exact_lead_nowhere() {
        let find = |path: &str| Route::find(&Method::POST, path);
        assert!(find(&format!("/tasks/{ID}/attempts/1/heartbeat")).is_some());
        for path in [
            "",
            "/",
            "//tasks",
            "/Tasks",
            "tasks",
            &format!("/tasks/{ID}/attempts/0/heartbeat"),
            &format!("/tasks/{ID}/attempts/+1/heartbeat"),
            &format!("/tasks/{ID}/attempts/01/heartbeat"),
            &format!("/tasks/{ID}/attempts/99999999999/heartbeat"),
            &format!("/tasks/{ID}/claim/"),
            &format!("/tasks/{ID}/../claim"),
        ] {
            assert_eq!(find(path), None, "{path}");
        }
        assert_eq!(find("/tasks/x/claim"), Some(Route::InvalidId));
        let artifact = format!("/tasks/{ID}/artifacts/..%2f..%2fagents.json/content");
        assert_eq!(Route::find(&Method::GET, &artifact), None);
    }
}
