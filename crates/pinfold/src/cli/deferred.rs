//! Commands that are described to clap only when they are used.

use clap::{ArgMatches, Args, FromArgMatches, Subcommand};

/// Arguments that are described to clap only once their subcommand was given: describing all of them
/// takes a fifth of a millisecond of every start.
#[derive(Debug)]
pub(crate) struct Deferred<T>(pub(crate) T);

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(T::augment_args)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command.defer(T::augment_args_for_update)
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// The same for subcommands of a subcommand.
#[derive(Debug)]
pub(crate) struct DeferredCommands<T>(pub(crate) T);

impl<T: Subcommand> Args for DeferredCommands<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        let required = command.subcommand_required(true).arg_required_else_help(true);
        required.defer(T::augment_subcommands)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command.defer(T::augment_subcommands_for_update)
    }
}

impl<T: FromArgMatches> FromArgMatches for DeferredCommands<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}
