//! Which results may land, and where.

use pinfold_attempt::Output as Outcome;
use pinfold_host::Refusal;
use pinfold_policy::settings::BranchName;
use pinfold_tasks::{Landing, LandingState, QueueError, Task, TaskId, TaskSpec};

use super::{Candidate, Outlook, Run, Unfit};
use crate::exit::Failure;
use crate::task::find::{short, spec_of};
use crate::task::show::outcome;

impl Run<'_> {
    /// Returns the result of a task. An invalid one counts as missing, so that it holds up no others.
    pub(super) fn result(&self, task: &Task) -> Result<Option<Outcome>, Failure> {
        Ok(outcome(&self.queue.attempts(task.id)?, task).unwrap_or_default())
    }

    /// Returns what a task is to land with, or why it cannot.
    pub(super) fn candidate(&self, task: Task) -> Result<Result<Candidate, Unfit>, Failure> {
        let unfit = |outlook, why: &str| Ok(Err(Unfit { outlook, why: why.to_owned() }));
        let Some(outcome) = outcome(&self.queue.attempts(task.id)?, &task)? else {
            let why = format!("has no result that could land: it is {}", task.status);
            return unfit(Outlook::Failed, &why);
        };
        let spec = match spec_of(self.queue, task.id)? {
            Ok(spec) => spec,
            Err(why) => return unfit(Outlook::Failed, &format!("cannot be read: {why}")),
        };
        if !self.is_here(&spec) {
            return unfit(Outlook::Failed, "is for another repository; land it there");
        }
        if !outcome.is_changed() {
            return unfit(Outlook::Landed, "its result changes nothing");
        }
        let spec = match self.admission.as_ref().map_or(Ok(spec.clone()), |it| it.admit(&spec)) {
            Ok(spec) => spec,
            Err(refusal) => {
                let hint = refusal.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                return unfit(Outlook::Attention, &format!("did not land: {refusal}{hint}"));
            }
        };
        let landing = self.queue.landing(task.id)?;
        if landing.as_ref().is_some_and(|landing| landing.state == LandingState::Landed) {
            return unfit(Outlook::Landed, "has landed before");
        }
        if spec.verify.is_empty() || !outcome.is_verified() {
            let why = "was never verified: it names no command; `pinfold task apply` merges it";
            return unfit(Outlook::Attention, why);
        }
        let onto = match self.args.onto.clone().map_or_else(|| self.began_at(&spec, &outcome), Ok) {
            Ok(onto) => onto,
            Err(why) => return unfit(Outlook::Failed, &why.to_string()),
        };
        // A row of somebody else's says where its work began.
        if let Some(admission) = self.admission.as_ref().filter(|_| self.args.onto.is_none())
            && !admission.allows_branch(&onto)
            && self.repository.head().as_ref() != Some(&onto)
        {
            let why = format!(
                "would land on {onto}, which is neither checked out here nor one of `branches` under [tasks]; say --onto {onto}"
            );
            return unfit(Outlook::Attention, &why);
        }
        for needs in &spec.depends {
            if !self.has_landed(*needs)? {
                let why = format!("depends on {}, which has not landed", short(*needs));
                return unfit(Outlook::Blocked, &why);
            }
        }
        let candidate = Candidate { task, spec, outcome, landing, onto };
        match candidate.landing.as_ref().filter(|_| self.args.ids.is_empty()) {
            Some(landing) if self.would_repeat(&candidate, landing) => {
                let why = format!("{}, and {} is where it was", landing.state, landing.onto);
                unfit(Outlook::Attention, &why)
            }
            _ => Ok(Ok(candidate)),
        }
    }

    /// Returns the branch that the work began at. One that was accepted before that was written down began at the only
    /// branch that has its base.
    fn began_at(&self, spec: &TaskSpec, outcome: &Outcome) -> Result<BranchName, Refusal> {
        if let Some(recorded) = &outcome.base_branch {
            return recorded.parse().map_err(Refusal::of);
        }
        let say = "say --onto BRANCH";
        if spec.branch.is_some() {
            return Err(Refusal::new(format!("began at its own branch; {say}")));
        }
        let branches = self.repository.branches_with(&outcome.base)?;
        let is_result = |name: &BranchName| {
            let name = name.as_str();
            name == outcome.branch || ["task/", "spec/"].iter().any(|it| name.starts_with(it))
        };
        let mut others = branches.into_iter().filter(|name| !is_result(name));
        match (others.next(), others.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(Refusal::new(format!("began at no branch; {say}"))),
            (Some(one), Some(other)) => {
                Err(Refusal::new(format!("began at {one}, {other} or another branch; {say}")))
            }
        }
    }

    /// Returns whether nothing has changed since a result could not land.
    fn would_repeat(&self, candidate: &Candidate, landing: &Landing) -> bool {
        let is_settled = match landing.state {
            LandingState::Conflicting | LandingState::Failing | LandingState::Waiting => true,
            LandingState::Landed | LandingState::Mergeable | LandingState::Outdated => false,
        };
        let now = self
            .tips
            .get(&candidate.onto)
            .cloned()
            .or_else(|| self.repository.branch(&candidate.onto));
        is_settled && landing.onto == candidate.onto.as_str() && now.as_ref() == Some(&landing.at)
    }

    /// Returns whether nothing of a task that another one depends on is missing. One that was removed is not waited for.
    fn has_landed(&self, id: TaskId) -> Result<bool, Failure> {
        if self.passed.contains(&id) {
            return Ok(true);
        }
        let task = match self.queue.task(id) {
            Err(QueueError::NotFound(_)) => return Ok(true),
            task => task?,
        };
        let landing = self.queue.landing(id)?;
        let changes = self.result(&task)?.is_none_or(|it| it.is_changed());
        Ok(!changes || landing.is_some_and(|landing| landing.state == LandingState::Landed))
    }

    /// Returns the other results that are to land on the same branch.
    pub(super) fn others(&self, candidate: &Candidate) -> Result<Vec<Candidate>, Failure> {
        if self.args.dry_run {
            return Ok(Vec::new());
        }
        let mut others = Vec::new();
        for task in self.completed()?.into_iter().filter(|task| task.id != candidate.task.id) {
            let landing = self.queue.landing(task.id)?;
            if landing.as_ref().is_some_and(|landing| landing.state == LandingState::Landed) {
                continue;
            }
            let Ok(spec) = spec_of(self.queue, task.id)? else { continue };
            let outcome = self.result(&task)?;
            let Some(outcome) = outcome.filter(|it| it.is_changed() && self.is_here(&spec)) else {
                continue;
            };
            if self.began_at(&spec, &outcome).is_ok_and(|began| began == candidate.onto) {
                let onto = candidate.onto.clone();
                others.push(Candidate { task, spec, outcome, landing, onto });
            }
        }
        Ok(others)
    }
}
