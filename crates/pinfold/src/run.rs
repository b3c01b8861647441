//! `pinfold run`.

use std::process::ExitCode;

use pinfold_policy::authority::Subject;
use pinfold_session::places::Places;
use pinfold_session::workspace::Workspace;
use pinfold_session::{Outcome, Request};

use crate::cli::RunArgs;
use crate::environment::environment;
use crate::exit::Failure;
use crate::policy;

pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(Failure::own)?;
    let workspace = Workspace::find(&places.home).map_err(|error| {
        let hint = error.hint();
        Failure::own(error).hint(hint)
    })?;
    let settings = policy::settings(&args.policy, args.agent.as_deref(), &places, &workspace)?;
    let program = args.rest.first().ok_or_else(|| {
        Failure::own("nothing to run")
            .hint(Some("say `pinfold run AGENT` or `pinfold run -- COMMAND`".to_owned()))
    })?;
    let subject = Subject::AgentSession { agent: program.to_string_lossy().into() };
    let request = Request {
        subject,
        env: environment(&settings, &workspace, Vec::new(), None),
        argv: args.rest,
        settings,
        workspace,
        extra: Vec::new(),
        places,
    };
    let outcome = pinfold_session::run(request)?;
    report(&outcome, args.timings);
    Ok(ExitCode::from(outcome.status))
}

fn report(outcome: &Outcome, timings: bool) {
    if let Some(limit) = outcome.limit {
        let what = if limit.ended_the_run() { "ended the run" } else { "was reached" };
        eprintln!("pinfold: the {} limit {what}", limit.name());
    }
    if timings {
        let mut before = outcome.times.first().map_or(0, |(_, at)| *at);
        for (step, at) in &outcome.times {
            eprintln!("{:>8.3} ms  {}", (at - before) as f64 / 1e6, step.words());
            before = *at;
        }
    }
}
