//! What an agent does about permissions in a run, as its user is to know it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use pinfold_agents::AgentProfile;
use pinfold_terminal::notify;

/// Says that an agent asks nobody for permissions: in an unattended run by options of its own, or by
/// one that makes it skip what needs a permission. `asks` says whether somebody sees its questions.
pub(super) fn say_who_is_asked(agent: &AgentProfile, args: &[OsString], asks: bool) {
    let AgentProfile { name, unattended_flags, .. } = agent;
    if !asks && !unattended_flags.is_empty() {
        let flags = unattended_flags.join(" ");
        notify!(
            "pinfold: note: {name} asks for no permissions in this run ({flags}); the sandbox bounds it"
        );
    }
    if let Some(word) = skips(agent, args).filter(|_| asks) {
        notify!(
            "pinfold: note: with {word} {name} asks nobody, and skips what needs a permission, such as changes of \
             files; `pinfold run --unattended` lets it do that"
        );
    }
}

/// Returns the argument with which the agent skips what needs a permission, if no other one gives it some.
fn skips<'a>(agent: &'a AgentProfile, args: &[OsString]) -> Option<&'a str> {
    let is_given = |word: &&String| {
        args.iter().any(|arg| {
            let rest = arg.as_bytes().strip_prefix(word.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"="))
        })
    };
    let word = agent.headless_args.iter().find(is_given)?;
    let mut given = agent.permission_args.iter().chain(&agent.unattended_flags);
    (!given.any(|word| is_given(&word))).then_some(word)
}
