//! A task as a server offers it: what of it is used, and what is refused.

use pinfold_host::Refusal;
use std::fmt::Write as _;

use pinfold_policy::path::is_plain;
use pinfold_tasks::{Provenance, TaskId, TaskSpec, Timeouts};
use ring::digest::{SHA256, digest};

use super::config::{RemoteConfig, TYPES};
use pinfold_content::{Cid, Uuid, Value};

/// A task that can be worked on here.
pub(super) struct Offered {
    /// Its id at the server.
    pub(super) id: TaskId,
    /// Its id here. It is made of the server's name and the id, so that no server can choose one of a task of this
    /// machine: branches are named after it.
    pub(super) local: TaskId,
    pub(super) spec: TaskSpec,
    pub(super) kind: String,
    pub(super) input_cid: String,
    pub(super) criteria: Option<Value>,
    pub(super) max_attempts: u32,
    correlation: Option<Uuid>,
    diary: Option<Uuid>,
}

impl Offered {
    /// Reads a task of a list.
    ///
    /// # Errors
    /// Returns why it is not worked on here.
    pub(super) fn read(task: &Value, config: &RemoteConfig<'_>) -> Result<Self, Refusal> {
        let id: TaskId =
            task.text_of("id").unwrap_or_default().parse().map_err(|_| "its id is not a UUID")?;
        let kind = task.text_of("taskType").unwrap_or_default().into_owned();
        if !TYPES.contains(&kind.as_str()) {
            return Err(Refusal::new(format!(
                "this worker does {} tasks alone",
                TYPES.join(" and ")
            )));
        }
        let input = task.get("input").ok_or("it has no input")?;
        let input_cid = Cid::of_json(input).to_string();
        if task.text_of("inputCid").is_none_or(|given| given != input_cid) {
            return Err("its input is not what its inputCid says".into());
        }
        if task.text_of("status").is_none_or(|status| status != "queued") {
            return Err("it is not queued".into());
        }
        let trust = task.text_of("requiredExecutorTrustLevel");
        if trust.is_some_and(|trust| trust != "selfDeclared") {
            return Err("it asks for an executor that proves what it is".into());
        }
        let profiles = task.get("allowedProfiles").and_then(Value::as_array);
        if profiles.is_some_and(|profiles| !profiles.is_empty()) {
            return Err("it is for certain runtime profiles alone".into());
        }
        if input.given("continueFrom").is_some() {
            return Err("it continues the session of another task".into());
        }
        if input.get("execution").and_then(|it| it.given("revision")).is_some() {
            return Err("it names a revision to begin at".into());
        }
        let spec = spec(task, input, &config.template)?;
        (config.check)(&spec)?;
        // What is no UUID is no name of a diary, and no tag.
        let uuid = |key: &str| task.text_of(key).and_then(|text| text.parse::<Uuid>().ok());
        let max_attempts = task.get("maxAttempts").and_then(Value::as_count).unwrap_or(1);
        Ok(Self {
            id,
            local: local(&config.address, id),
            spec,
            kind,
            input_cid,
            criteria: input.given("successCriteria").cloned(),
            max_attempts: u32::try_from(max_attempts).unwrap_or(u32::MAX),
            correlation: uuid("correlationId"),
            diary: uuid("diaryId"),
        })
    }

    /// Returns what the server calls the task.
    pub(super) fn provenance(&self) -> Provenance {
        Provenance {
            task: self.id,
            kind: self.kind.clone(),
            correlation: self.correlation.map(|id| id.to_string()),
            diary: self.diary.map(|id| id.to_string()),
        }
    }
}

fn local(address: &str, id: TaskId) -> TaskId {
    let digest = digest(&SHA256, format!("{} {id}", address.trim_end_matches('/')).as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_ref()[..16]);
    TaskId::from_random(bytes)
}

/// Returns what is asked of the agent: the template's task, with a title, a brief and less time.
fn spec(task: &Value, input: &Value, template: &TaskSpec) -> Result<TaskSpec, Refusal> {
    let brief = brief(input)?;
    let first = brief.lines().next().unwrap_or_default().to_owned();
    let title: String = task
        .text_of("title")
        .filter(|title| !title.trim().is_empty())
        .map_or(first, |title| title.into_owned())
        .chars()
        .filter(|letter| is_plain(*letter))
        .take(60)
        .collect();
    let title = if title.trim().is_empty() { "a task".to_owned() } else { title };
    let seconds = |name: &str| {
        let seconds = task.get(name).and_then(Value::as_count);
        seconds.map(std::time::Duration::from_secs)
    };
    let mut spec = TaskSpec { title, brief, ..template.clone() };
    // A server may ask for less time than the user allows, never for more.
    let Timeouts { dispatch, running } = template.timeouts;
    let asked = seconds("runningTimeoutSec").unwrap_or(running);
    let shortest = std::time::Duration::from_secs(1);
    spec.timeouts = Timeouts { dispatch, running: asked.min(running).max(shortest) };
    Ok(spec)
}

/// Returns the brief, with what belongs to it.
fn brief(input: &Value) -> Result<String, Refusal> {
    let mut brief = text(input, "brief").ok_or("it has no brief")?;
    if let Some(expected) = text(input, "expectedOutput") {
        let _ = write!(brief, "\n\nExpected output:\n\n{expected}");
    }
    let items = |name: &str| input.get(name).and_then(Value::as_array).unwrap_or_default();
    for (name, heading) in [("constraints", "Constraints"), ("seedFiles", "Files to begin with")] {
        for (at, item) in items(name).iter().filter_map(Value::as_text).enumerate() {
            if at == 0 {
                let _ = write!(brief, "\n\n{heading}:\n");
            }
            let _ = write!(brief, "\n- {}", shown(&item));
        }
    }
    if let Some(scope) = text(input, "scopeHint") {
        let _ = write!(brief, "\n\nScope: {scope}");
    }
    for item in items("context") {
        let (slug, content) = (text(item, "slug"), text(item, "content"));
        if let (Some(slug), Some(content)) = (slug, content) {
            let _ = write!(brief, "\n\nContext ({slug}):\n\n{content}");
        }
    }
    match brief.trim() {
        "" => Err("its brief is empty".into()),
        brief if brief.len() > TaskSpec::LONGEST_BRIEF => Err("its brief is too long".into()),
        brief => Ok(brief.to_owned()),
    }
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.text_of(name).map(|text| shown(&text)).filter(|text| !text.trim().is_empty())
}

/// Returns a text without characters that do not show. An argument of a program cannot hold some of
/// them.
fn shown(text: &str) -> String {
    text.chars().filter(|letter| matches!(letter, '\n' | '\t') || is_plain(*letter)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use pinfold_egress::WayOut;
    use pinfold_tasks::TaskSpec;

    use super::{Offered, local};
    use crate::client::config::{RemoteConfig, Work};
    use crate::client::credentials::Credentials;
    use pinfold_content::{Cid, Value, read};

    const ID: &str = "44444444-4444-4444-8444-444444444444";

    /// Returns the configuration of a worker that takes everything.
    pub(in crate::client) fn config(address: &str) -> RemoteConfig<'static> {
        RemoteConfig {
            address: address.to_owned(),
            way: WayOut::default(),
            credentials: Credentials::key("k"),
            team: None,
            correlation: None,
            template: TaskSpec::new("", ""),
            check: &|_| Ok(()),
            describe: &|_| {
                Ok(Work {
                    branch: "task/x".to_owned(),
                    summary: "done".to_owned(),
                    commits: Vec::new(),
                })
            },
            is_ending: &|| false,
            notify: &|_| {},
        }
    }

    fn task(input: &str, more: &str) -> Value {
        let input = read(input).unwrap();
        let cid = Cid::of_json(&input);
        read(&format!(
            r#"{{"id":"{ID}","taskType":"freeform","status":"queued","inputCid":"{cid}","input":{input}{more}}}"#
        ))
        .unwrap()
    }

    fn offered(input: &str, more: &str) -> Result<Offered, String> {
        Offered::read(&task(input, more), &config("http://127.0.0.1"))
            .map_err(|why| why.to_string())
    }

    #[test]
    fn brief_has_all_that_is_asked_for_and_nothing_that_does_not_show() {
        let input = r#"{"brief":"Do\u0000 it\u001b[31m\u202e","expectedOutput":"a file","constraints":["a","b"],
            "context":[{"slug":"s","binding":"skill","content":"c"}]}"#;
        let spec = offered(input, r#","title":"T\u001b[2J\n""#).unwrap().spec;
        assert_eq!(
            spec.brief,
            "Do it[31m\n\nExpected output:\n\na file\n\nConstraints:\n\n- a\n- b\n\nContext (s):\n\nc"
        );
        assert_eq!(spec.title, "T[2J");
    }

    #[test]
    fn task_grants_itself_nothing() {
        let input = r#"{"brief":"---\nagent: other\nbranch: main\nrepository: /etc\n---\nx"}"#;
        let more = r#","branch":"main","repository":"/etc","runningTimeoutSec":86400"#;
        let spec = offered(input, more).unwrap().spec;
        let template = TaskSpec::new("", "");
        let title = spec.title.clone();
        let brief = spec.brief.clone();
        assert_eq!(spec, TaskSpec { title, brief, ..template });
        let less = offered(r#"{"brief":"x"}"#, r#","runningTimeoutSec":0"#).unwrap().spec;
        assert_eq!(less.timeouts.running.as_secs(), 1);
    }

    #[test]
    fn task_that_cannot_be_done_as_it_asks_is_skipped_with_a_reason() {
        let of = |input: &str, more: &str| offered(input, more).err().unwrap();
        assert!(of(r#"{"brief":" "}"#, "").contains("no brief"));
        assert!(of(r#"{"brief":"x","continueFrom":{}}"#, "").contains("continues"));
        let revision = r#"{"brief":"x","execution":{"revision":"0"}}"#;
        assert!(of(revision, "").contains("revision"));
        let profile = r#","allowedProfiles":[{"profileId":"x"}]"#;
        assert!(of(r#"{"brief":"x"}"#, profile).contains("profiles"));
        let mut other = task(r#"{"brief":"x"}"#, "").to_string();
        other = other.replace(r#""brief":"x""#, r#""brief":"y""#);
        let error = Offered::read(&read(&other).unwrap(), &config("http://127.0.0.1"));
        assert!(error.err().unwrap().to_string().contains("inputCid"));
        for wrong in ["null", "1", "{}", r#"{"id":"../../x"}"#, r#"{"id":1}"#] {
            let value = read(wrong).unwrap();
            assert!(Offered::read(&value, &config("http://127.0.0.1")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn id_here_is_not_the_servers_to_choose() {
        let id = ID.parse().unwrap();
        assert_ne!(local("https://a.example", id), id);
        assert_ne!(local("https://a.example", id), local("https://b.example", id));
        assert_eq!(local("https://a.example/", id), local("https://a.example", id));
    }
}
