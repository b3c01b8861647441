//! Who answers while a run goes on.

use pinfold_policy::settings::{Attendance, BranchName, Settings};

/// How a run is started, as a front end sees it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Circumstances {
    /// Whether the user said that nobody answers (`--unattended`).
    pub is_unattended: bool,
    /// What the run has where it goes on without the process that started it, if it does.
    pub background: Option<Seat>,
    /// Whether an agent runs, and not a command or nothing.
    pub runs_agent: bool,
}

/// What a run in the background has for a user who comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// A terminal that a user can attach to.
    Terminal,
    /// A log of its output.
    Log,
}

/// Who answers while a run goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Presence {
    /// The user who started it.
    #[default]
    Here,
    /// Nobody, while a command does in the background what the user said.
    Command,
    /// A user who attaches to the terminal of an agent in the background.
    Attachable,
    /// Nobody.
    Nobody,
}

impl Presence {
    /// Decides who answers. An agent in the background is never taken for one that is watched: its changes wait in a
    /// view.
    #[must_use]
    pub fn of(circumstances: Circumstances) -> Self {
        let Circumstances { is_unattended, background, runs_agent } = circumstances;
        match background {
            _ if is_unattended => Self::Nobody,
            None => Self::Here,
            Some(_) if !runs_agent => Self::Command,
            Some(Seat::Terminal) => Self::Attachable,
            Some(Seat::Log) => Self::Nobody,
        }
    }

    /// Returns what settings that are not set depend on.
    pub(super) fn attendance(self) -> Attendance {
        match self {
            Self::Here | Self::Command => Attendance::Attended,
            Self::Attachable | Self::Nobody => Attendance::Unattended,
        }
    }

    /// Returns whether an agent may ask for permissions: somebody sees the question.
    pub(super) fn sees_the_agent(self) -> bool {
        match self {
            Self::Here | Self::Command | Self::Attachable => true,
            Self::Nobody => false,
        }
    }

    /// Returns whether pinfold may ask at its own terminal.
    pub(super) fn is_at_the_terminal(self) -> bool {
        match self {
            Self::Here => true,
            Self::Command | Self::Attachable | Self::Nobody => false,
        }
    }
}

impl Presence {
    /// Returns the only branch that a run may move: without a user, the one of the worktree that was made for it.
    pub(super) fn only_branch(self, settings: &Settings) -> Option<BranchName> {
        match self {
            Self::Nobody => Some(settings.scalars.worktree_branch.as_ref()?.value.clone()),
            Self::Here | Self::Command | Self::Attachable => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presence(is_unattended: bool, background: Option<Seat>, runs_agent: bool) -> Presence {
        Presence::of(Circumstances { is_unattended, background, runs_agent })
    }

    #[test]
    fn unattended_runs_are_answered_by_nobody_wherever_they_go_on() {
        for background in [None, Some(Seat::Terminal), Some(Seat::Log)] {
            for runs_agent in [false, true] {
                let nobody = presence(true, background, runs_agent);
                assert_eq!(nobody, Presence::Nobody);
                assert_eq!(nobody.attendance(), Attendance::Unattended);
                assert!(!nobody.sees_the_agent() && !nobody.is_at_the_terminal());
            }
        }
    }

    #[test]
    fn a_run_in_the_foreground_is_answered_by_who_started_it() {
        for runs_agent in [false, true] {
            let here = presence(false, None, runs_agent);
            assert_eq!((here, here.attendance()), (Presence::Here, Attendance::Attended));
            assert!(here.sees_the_agent() && here.is_at_the_terminal());
        }
    }

    #[test]
    fn an_agent_in_the_background_works_in_a_view_and_asks_only_in_a_terminal_of_its_own() {
        let attachable = presence(false, Some(Seat::Terminal), true);
        assert_eq!(attachable.attendance(), Attendance::Unattended);
        assert!(attachable.sees_the_agent() && !attachable.is_at_the_terminal());
        assert_eq!(presence(false, Some(Seat::Log), true), Presence::Nobody);
    }

    #[test]
    fn a_command_in_the_background_changes_the_workspace_and_asks_nothing() {
        for seat in [Seat::Terminal, Seat::Log] {
            let command = presence(false, Some(seat), false);
            assert_eq!(command.attendance(), Attendance::Attended);
            assert!(!command.is_at_the_terminal());
        }
    }
}
