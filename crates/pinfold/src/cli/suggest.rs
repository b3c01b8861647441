//! What a misspelt command may have meant.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use pinfold_agents::Registry;
use pinfold_policy::document::nearest;

/// Has an error name the command that was meant. clap names several, hidden ones among them, and none for a short one.
pub(crate) fn suggest(mut error: Error, mut root: Command, words: Vec<OsString>) -> Error {
    if error.kind() == ErrorKind::UnknownArgument {
        return separate(error, &words);
    }
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
    if command.get_name() == root.get_name() && word == "version" {
        insert_tip(&mut error, "'pinfold --version' prints it");
    } else if command.get_name() == root.get_name() && is_agent() {
        insert_tip(&mut error, format!("'pinfold run {word}' starts this agent"));
    } else if let Some(near) = nearest(&word, visible.map(Command::get_name)) {
        let near = ContextValue::Strings(vec![near.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, near);
    }
    error
}

/// Has an error about an option of the command or the agent itself say where `--` goes. clap puts it behind the command's name.
fn separate(mut error: Error, words: &[OsString]) -> Error {
    let runs = words.get(1).is_some_and(|word| word == "run" || word == "learn");
    let is_misspelt = error.get(ContextKind::SuggestedArg).is_some();
    if runs && error.remove(ContextKind::Suggested).is_some() && !is_misspelt {
        let tip = "arguments of an agent go after `--`, and so does a command: 'pinfold run AGENT -- -x', \
                   'pinfold run -- ls -la'";
        insert_tip(&mut error, tip);
    }
    error
}

fn insert_tip(error: &mut Error, tip: impl Into<StyledStr>) {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
}
