//! One request, from what a client inside says to its end.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Instant;

use pinfold_git::known::closed;
use pinfold_host::audit::Event;
use pinfold_host::beneath::open_directory;
use pinfold_host::launcher::start_for_inside;
use pinfold_policy::settings::HostExecVerdict;
use pinfold_wire::{Ended, Frames, Reply};

use crate::client::Client;
use crate::context::Context;
use crate::refusal::Refusal;
use crate::relay::{Relayed, relay};
use crate::request::{Job, Request};
use crate::same::Same;
use crate::saved_rules::{SavedRule, SavedRules};
use pinfold_ask::display::line;
use pinfold_ask::{Answer, Answered, NoAnswer, Terms};

/// Serves a client to its end.
pub(crate) fn converse(context: &Context, client: &Client) {
    let mut frames = Frames::default();
    let Ok(command) = client.command(&mut frames) else { return client.part() };
    if !context.may_go_on() {
        let refusal = Refusal::new("more is asked of the host than is recorded one by one");
        return refuse(client, refusal.hint("wait a moment"));
    }
    let id = context.desk.approvals().number();
    let asked = Event::HostExecRequest {
        id,
        executable: line(&command.executable),
        args: command.args.iter().map(|arg| line(arg)).collect(),
        cwd: line(&command.cwd),
    };
    if let Err(error) = context.audit.record(&asked) {
        return refuse(client, Refusal::new(format!("it cannot be recorded: {error}")));
    }
    let conversation = Conversation { context, client, id };
    match Request::examine(&command, id, context, client) {
        Err(refusal) => conversation.deny("pinfold", refusal),
        Ok(request) => match conversation.decide(&request) {
            Err((by, refusal)) => conversation.deny(&by, refusal),
            Ok(allowed) => conversation.run(request, frames, allowed),
        },
    }
    context.clear(id);
}

fn refuse(client: &Client, refusal: Refusal) {
    let Refusal { why, hint } = refusal;
    client.conclude(&Reply::Refused { why, hint: hint.unwrap_or_default() });
}

fn ours(error: io::Error) -> Denied {
    ("pinfold".to_owned(), Refusal::new(error))
}

struct Conversation<'a> {
    context: &'a Context,
    client: &'a Client,
    id: u64,
}

/// Who allowed it, and for how long.
struct Allowed {
    by: String,
    /// By which rule, in words.
    rule: Option<String>,
    lasting: Lasting,
}

/// What an answer is for, apart from this request.
enum Lasting {
    Nothing,
    Session(Same),
    Always(SavedRule),
}

/// Who denies it, and why.
type Denied = (String, Refusal);

impl Conversation<'_> {
    fn deny(&self, by: &str, refusal: Refusal) {
        let decision = Event::HostExecDecision {
            id: self.id,
            outcome: "deny",
            by,
            rule: None,
            reason: Some(refusal.why.clone()),
        };
        // It is not run in any case.
        let _ = self.context.audit.record(&decision);
        refuse(self.client, refusal);
    }

    /// Returns whether it may run, by whom.
    ///
    /// # Errors
    /// Returns who denies it, and why.
    fn decide(&self, request: &Request) -> Result<Allowed, Denied> {
        let rule = request.rule(&self.context.repository);
        match self.by_rule(request, rule.as_ref())? {
            Some(allowed) => Ok(allowed),
            None => self.by_user(request, rule),
        }
    }

    /// Returns whether the settings, an answer for the session, or one for always allows it.
    fn by_rule(
        &self,
        request: &Request,
        rule: Option<&SavedRule>,
    ) -> Result<Option<Allowed>, Denied> {
        let context = self.context;
        let allowed = |by: String, rule| Some(Allowed { by, rule, lasting: Lasting::Nothing });
        let (name, amounts_to) = (request.name.as_bytes(), request.amounts_to());
        let verdict = context.settings.host_exec_verdict(name, &request.args, &amounts_to);
        if let HostExecVerdict::Allowed(rule) = verdict {
            return Ok(allowed(rule.origin.to_string(), Some(rule.value.to_string())));
        }
        if context.is_approved(&request.same()) {
            return Ok(allowed("session".to_owned(), None));
        }
        // Read each time: what was taken away counts no more.
        let kept = SavedRules::new(&context.places).all().map_err(ours)?;
        let is_kept = |rule: &&SavedRule| kept.iter().any(|known| known.covers(rule));
        let kept = rule.filter(is_kept);
        Ok(kept.and_then(|rule| allowed("approvals.json".to_owned(), Some(rule.to_string()))))
    }

    /// Asks a user.
    fn by_user(&self, request: &Request, rule: Option<SavedRule>) -> Result<Allowed, Denied> {
        let context = self.context;
        let pending = request
            .question(self.id, rule.as_ref())
            .map_err(|refusal| ("pinfold".to_owned(), refusal))?;
        if !context.may_ask() {
            let why = "denied: this session has asked for too much that was not approved";
            return Err(("pinfold".to_owned(), Refusal::new(why)));
        }
        let host_exec = &context.settings.host_exec;
        let patience = host_exec.patience.value.duration();
        let terms = Terms { patience, waits: host_exec.waits.value };
        // One that has gone is noticed while it is waited for.
        let _ = self.client.say(&Reply::Waiting, Instant::now() + patience);
        let answered = context.desk.ask(pending, terms, || self.client.has_gone());
        match &answered {
            Ok(Answered { answer: Answer::Deny { .. }, .. })
            | Err(NoAnswer::Late | NoAnswer::Crowded | NoAnswer::Withdrawn) => {
                context.count_unapproved();
            }
            Ok(_) | Err(NoAnswer::Nobody | NoAnswer::Over) => {}
        }
        let answered = answered.map_err(|no_answer| self.unanswered(no_answer, request))?;
        let by = answered.by;
        match (answered.answer, rule) {
            (Answer::Once, _) => Ok(Allowed { by, rule: None, lasting: Lasting::Nothing }),
            (Answer::Session, _) => {
                let lasting = Lasting::Session(request.same());
                Ok(Allowed { by, rule: Some("for this session".to_owned()), lasting })
            }
            (Answer::Always, Some(rule)) => {
                let words = Some(format!("always: {rule}"));
                Ok(Allowed { by, rule: words, lasting: Lasting::Always(rule) })
            }
            (Answer::Always, None) => Err((by, Refusal::new("no rule can allow this"))),
            (Answer::Deny { reason }, _) => {
                let reason =
                    reason.map_or(String::new(), |why| format!(": {}", line(why.as_bytes())));
                Err((by, Refusal::new(format!("denied by its user{reason}"))))
            }
        }
    }

    fn unanswered(&self, no_answer: NoAnswer, request: &Request) -> (String, Refusal) {
        let patience = &self.context.settings.host_exec.patience.value;
        let why = match no_answer {
            NoAnswer::Nobody => "denied: no user can be asked".to_owned(),
            NoAnswer::Late => format!("denied: nobody answered within {patience}"),
            NoAnswer::Crowded => "denied: too many requests came after it".to_owned(),
            NoAnswer::Withdrawn => "withdrawn: who asked has gone".to_owned(),
            NoAnswer::Over => "denied: the session ends".to_owned(),
        };
        let rule = request.setting().map_or(String::new(), |rule| {
            format!("this allows it, under [hostExec] in config.toml: {rule}; or ")
        });
        let hint = format!(
            "{rule}start the session with --wait-for-approvals and answer with `pinfold approvals`"
        );
        ("pinfold".to_owned(), Refusal::new(why).hint(hint))
    }

    /// Runs what was allowed, once that is recorded.
    fn run(&self, request: Request, frames: Frames, Allowed { by, rule, lasting }: Allowed) {
        let by = by.as_str();
        let decision =
            Event::HostExecDecision { id: self.id, outcome: "allow", by, rule, reason: None };
        if let Err(error) = self.context.audit.record(&decision) {
            return refuse(self.client, Refusal::new(format!("it cannot be recorded: {error}")));
        }
        let lasts = match lasting {
            Lasting::Nothing => Ok(()),
            Lasting::Session(same) => {
                self.context.approve(same);
                Ok(())
            }
            Lasting::Always(rule) => SavedRules::new(&self.context.places).add(&rule),
        };
        if let Err(error) = lasts {
            return refuse(
                self.client,
                Refusal::new(format!("the rule cannot be written: {error}")),
            );
        }
        let timeout = self.context.settings.host_exec.timeout.value;
        let deadline = Instant::now() + timeout.duration();
        let name = request.name.clone();
        let carried =
            self.start(&request).and_then(|child| relay(child, self.client, frames, deadline));
        let (ended, how) = match &carried {
            Ok(Relayed::Ended(ended)) => (Some(*ended), None),
            Ok(Relayed::TimedOut) => {
                (None, Some(format!("{name} ran longer than {timeout}, and was ended")))
            }
            Ok(Relayed::Left) => (None, Some("who asked for it has gone".to_owned())),
            Err(error) => (None, Some(format!("{name} cannot be run on the host: {error}"))),
        };
        let status = ended.map(|ended| match ended {
            Ended::Code(code) => code,
            Ended::Signal(signal) => 128_u8.saturating_add(signal),
        });
        let end = Event::HostExecEnd { id: self.id, status, reason: how.clone() };
        // It has happened; the next request reports that the log cannot be written.
        let _ = self.context.audit.record(&end);
        if let Job::Git(task) = &request.job
            && ended == Some(Ended::Code(0))
        {
            task.report(self.client, deadline);
        }
        match (ended, how) {
            (Some(ended), _) => self.client.conclude(&Reply::Ended(ended)),
            (None, Some(how)) => refuse(self.client, Refusal::new(how)),
            (None, None) => self.client.part(),
        }
    }

    fn start(&self, request: &Request) -> io::Result<std::process::Child> {
        let mut variables = Vec::new();
        let parent = std::process::id().to_string();
        let directory = request.directory.descriptor.as_fd();
        let program = match &request.job {
            Job::Program(program) => program,
            Job::Git(task) => {
                // The wrappers handle git where it is started.
                let words = ["host-git", &parent, "run"].map(OsString::from);
                let words = [&words[..], &[task.place.clone().into()]].concat();
                variables.extend(task.login(self.context)?);
                let env = self.context.launcher.environment_with(variables);
                return start_for_inside(&words, env, directory);
            }
        };
        let repository = self.context.bare(self.id, &request.directory.path)?;
        // Git that it runs has the repository's name and remotes, and nothing that the sandbox
        // wrote: no configuration, no hooks, no objects.
        variables.extend(closed(&repository));
        if request.name == "gh" {
            variables.extend(crate::gh::closed());
        }
        let argv = std::iter::once(program.clone().into()).chain(request.words()).collect();
        let launch = self.context.launcher.for_inside(argv, &request.directory.path, variables)?;
        let (first, args) =
            launch.argv.split_first().ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        let is_itself = first.as_os_str() == program.as_os_str();
        let name = if is_itself { OsString::from(&request.name) } else { first.clone() };
        // A wrapper may answer with another name, and PATH may lead to where the sandbox writes.
        let file = self.context.launcher.path_of(first)?;
        let mut words: Vec<OsString> = vec!["host-run".into(), parent.into(), file.into()];
        words.extend([name, "--".into()]);
        words.extend_from_slice(args);
        // A wrapper that names another directory has it looked up; the one that was shown is held.
        let other = (launch.cwd != request.directory.path).then(|| open_directory(&launch.cwd));
        let other = other.transpose()?;
        let directory = other.as_ref().map_or(directory, OwnedFd::as_fd);
        start_for_inside(&words, launch.env, directory)
    }
}
