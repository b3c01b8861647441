//! Where the time of a run went (`--timings`).

use pinfold_wire::Step;

/// Who did something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// This process.
    Supervisor,
    /// The first process inside.
    Init,
}

/// The end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// When, in monotonic nanoseconds.
    pub at: u64,
    pub who: Who,
    /// What was done, in words.
    pub what: &'static str,
}

/// The ends of all steps, those of both processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline(Vec<Mark>);

impl Timeline {
    /// Notes that this process has done something.
    pub fn done(&mut self, what: &'static str) {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let at = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        self.0.push(Mark { at, who: Who::Supervisor, what });
    }

    /// Adds what init reported. It reports once.
    pub(crate) fn add(&mut self, steps: &[(Step, u64)]) {
        if self.0.iter().any(|mark| mark.who == Who::Init) {
            return;
        }
        let mark = |&(step, at): &(Step, u64)| Mark { at, who: Who::Init, what: step.words() };
        self.0.extend(steps.iter().map(mark));
    }

    /// Returns the marks in the order in which they happened.
    pub fn marks(&self) -> Vec<Mark> {
        let mut marks = self.0.clone();
        marks.sort_by_key(|mark| mark.at);
        marks
    }
}
