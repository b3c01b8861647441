//! `pinfold setup systemd`: what an administrator has to change on a machine so that its users can run sessions as a
//! user of their own, and taking it back.
//!
//! [`install`] and [`remove`] compare the machine with what is wanted and return a [`Plan`]: what is left to do, as
//! lines for people and as [`Plan::apply`]. A plan for a machine that is as wanted is empty. What was made is
//! on record before it is made, so removal takes back this and nothing else, also after a set-up that was interrupted.

mod install;
mod machine;
mod policy;
mod prepared;
mod record;
mod remove;
mod step;

use std::fmt;

pub use install::{RUNNER, Wanted, install};
pub use machine::Machine;
pub use pinfold_runner::Refusal;
pub use remove::remove;

use record::Record;
use step::Step;

/// What is left to do on a machine.
#[derive(Debug)]
pub struct Plan {
    steps: Vec<Step>,
    /// What will have been made by set-ups, if this is one, as it is recorded until the end.
    record: Option<Record>,
}

impl Plan {
    /// Returns whether nothing is left to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Carries it out, in order. What was done before an error stays, and the next plan goes on from there.
    ///
    /// # Errors
    /// Returns the step that failed, and why.
    pub fn apply(&self, machine: &Machine) -> Result<(), Refusal> {
        if self.is_empty() {
            return Ok(());
        }
        if let Some(record) = &self.record {
            record.write(machine)?;
        }
        self.steps.iter().try_for_each(|step| step.apply(machine))?;
        let done = self.record.clone().map(|record| Record { is_unfinished: false, ..record });
        done.map_or(Ok(()), |record| record.write(machine))
    }
}

/// One line for each step.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}

#[cfg(test)]
mod tests;
