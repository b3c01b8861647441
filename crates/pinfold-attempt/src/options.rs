//! The options of `pinfold run` that a task asks for.

use std::ffi::OsString;
use std::time::Duration;

use pinfold_policy::limits::WallTime;
use pinfold_policy::settings::{BranchName, FlagLimits, WorkspaceMode};
use pinfold_tasks::TaskSpec;

/// Returns the options of the sandbox that an agent works in.
pub(crate) fn of_work(spec: &TaskSpec, branch: &BranchName, longest: Duration) -> Vec<OsString> {
    let mut options = narrowed(spec, longest);
    match spec.workspace {
        // There is no other way than its log by which something of it comes out.
        Some(WorkspaceMode::ScratchMount) => {
            options.set("--workspace", Some(WorkspaceMode::ScratchMount));
        }
        _ => options.on(branch),
    }
    options.0
}

/// Returns the options of every other sandbox on a branch of a task: where it works, and what it may use of the machine.
pub(crate) fn of_sandbox(spec: &TaskSpec, branch: &BranchName, longest: Duration) -> Vec<OsString> {
    let mut options = narrowed(spec, longest);
    options.on(branch);
    options.without_diary()
}

/// Returns the options of a sandbox in which nobody answers: what it may use of the machine.
pub(crate) fn of_command(spec: &TaskSpec, longest: Duration) -> Vec<OsString> {
    narrowed(spec, longest).without_diary()
}

fn narrowed(spec: &TaskSpec, longest: Duration) -> Options {
    let mut options = Options::default();
    options.0.push("--unattended".into());
    let limits = &spec.limits;
    options.set("--cpus", limits.cpus.map(|cpus| f64::from(cpus.thousandths()) / 1000.0));
    options.set("--memory", limits.memory);
    options.set("--pids", limits.pids);
    options.set("--disk", limits.disk);
    options.set("--timeout", limits.time);
    // What is left of the attempt is no reason to go on for longer than the user's settings let a run take.
    let mut policy = spec.policy.clone().unwrap_or_default();
    policy.cap(FlagLimits { timeout: Some(WallTime::new(longest)), ..FlagLimits::default() });
    options.set("--narrow", Some(policy.to_json()));
    options
}

/// Returns the options of the agent's sandbox. `spent` is what the attempt used before.
pub(crate) fn of_agent(spec: &TaskSpec, spent: &Spent) -> Vec<OsString> {
    let mut options = Options::default();
    options.set("--state", Some("ephemeral"));
    options.set("--model", spec.model.as_ref());
    options.set("--provider", spec.provider.as_ref());
    options.set("--identity", spec.identity.as_ref());
    options.set("--group", spec.group.as_ref());
    options.0.push("--task-budget".into());
    let usd = spec.budget.usd.map(|usd| usd.0.saturating_sub(spent.nano_usd) as f64 / 1e9);
    options.set("--budget-usd", usd);
    let tokens = spec.budget.tokens.map(|tokens| tokens.saturating_sub(spent.tokens));
    options.set("--budget-tokens", tokens);
    let requests = spec.budget.requests.map(|requests| requests.saturating_sub(spent.requests));
    options.set("--budget-requests", requests);
    options.0
}

/// What the attempt used of models so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) nano_usd: u64,
    pub(crate) tokens: u64,
    pub(crate) requests: u64,
}

impl Spent {
    /// Returns what of a budget is used up, if anything is.
    pub(crate) fn exhausts(&self, spec: &TaskSpec) -> Option<&'static str> {
        let budget = &spec.budget;
        let is_over = |most: Option<u64>, used| most.is_some_and(|most| used >= most);
        match () {
            () if is_over(budget.usd.map(|usd| usd.0), self.nano_usd) => Some("usd"),
            () if is_over(budget.tokens, self.tokens) => Some("tokens"),
            () if is_over(budget.requests, self.requests) => Some("requests"),
            () => None,
        }
    }
}

#[derive(Default)]
struct Options(Vec<OsString>);

impl Options {
    /// Has the sandbox work on a branch. No branch moves but this one.
    fn on(&mut self, branch: &BranchName) {
        self.set("--workspace", Some("dedicated_worktree"));
        self.set("--worktree-branch", Some(branch));
    }

    /// Takes the tools of a diary away: what an agent made must not write as the agent.
    fn without_diary(mut self) -> Vec<OsString> {
        self.set("--memory-grant", Some("none"));
        self.0
    }

    fn set(&mut self, name: &str, value: Option<impl ToString>) {
        // In one word: a value that begins with a dash is no option.
        self.0.extend(value.map(|value| format!("{name}={}", value.to_string()).into()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pinfold_tasks::TaskSpec;

    use super::{Spent, of_agent, of_command, of_sandbox, of_work};

    #[test]
    fn later_iteration_has_what_is_left_of_the_budget() {
        let mut spec = TaskSpec::new("t", "b");
        spec.budget.usd = Some("2".parse().unwrap());
        spec.budget.requests = Some(10);
        let spent = Spent { nano_usd: 500_000_000, tokens: 7, requests: 4 };
        let options = of_agent(&spec, &spent);
        assert!(options.contains(&"--budget-usd=1.5".into()), "{options:?}");
        assert!(options.contains(&"--budget-requests=6".into()), "{options:?}");
        assert!(options.contains(&"--task-budget".into()), "{options:?}");
        assert_eq!(spent.exhausts(&spec), None);
        assert_eq!(Spent { requests: 10, ..spent }.exhausts(&spec), Some("requests"));
    }

    #[test]
    fn every_sandbox_of_a_task_is_narrowed_by_its_policy() {
        let mut spec = TaskSpec::new("t", "b");
        let policy = r#"{"network":{"hosts":[]},"resources":{"pids":9}}"#;
        spec.policy = Some(pinfold_policy::settings::Narrowing::from_json(policy).unwrap());
        let (branch, minute) = ("b".parse().unwrap(), Duration::from_secs(60));
        let narrowed = r#"--narrow={"network":{"hosts":[]},"resources":{"pids":9,"timeout":"1m"}}"#;
        let of_work = of_work(&spec, &branch, minute);
        for options in [of_command(&spec, minute), of_sandbox(&spec, &branch, minute), of_work] {
            assert!(options.contains(&narrowed.into()), "{options:?}");
        }
    }

    #[test]
    fn sandbox_of_an_agent_alone_has_a_diary() {
        let spec = TaskSpec::new("t", "b");
        let (branch, minute) = ("b".parse().unwrap(), Duration::from_secs(60));
        let none = "--memory-grant=none".into();
        assert!(!of_work(&spec, &branch, minute).contains(&none));
        assert!(of_command(&spec, minute).contains(&none));
        assert!(of_sandbox(&spec, &branch, minute).contains(&none));
    }

    #[test]
    fn run_is_never_longer_than_what_is_left_of_the_attempt() {
        let mut spec = TaskSpec::new("t", "b");
        spec.limits.time = Some("30m".parse().unwrap());
        let branch = "b".parse().unwrap();
        let options = of_sandbox(&spec, &branch, Duration::from_secs(60));
        assert!(options.contains(&"--timeout=30m".into()), "{options:?}");
        let capped = r#"--narrow={"resources":{"timeout":"1m"}}"#;
        assert!(options.contains(&capped.into()), "{options:?}");
    }
}
