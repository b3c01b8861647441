//! What a misspelt command may have meant.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{Command, Error};
use pinfold_agents::Registry;
use pinfold_policy::document::nearest;

/// Has an error name the command that was meant. clap names several, hidden ones among them, and none for a short one.
pub(crate) fn suggest(mut error: Error, mut root: Command, words: Vec<OsString>) -> Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand).cloned()
    else {
        return error;
    };
    error.remove(ContextKind::SuggestedSubcommand);
    root.build();
    let mut command = &root;
    for name in words.iter().skip(1).map_while(|word| word.to_str()) {
        let Some(next) = command.find_subcommand(name) else { break };
        command = next;
    }
    let is_agent = || Registry::new(Vec::new()).names().contains(&word);
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    if command.get_name() == root.get_name() && is_agent() {
        let tip = StyledStr::from(format!("'pinfold run {word}' starts this agent"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    } else if let Some(near) = nearest(&word, visible.map(Command::get_name)) {
        let near = ContextValue::Strings(vec![near.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, near);
    }
    error
}
