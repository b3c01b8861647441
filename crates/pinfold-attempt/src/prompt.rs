//! What the agent is asked.

use std::fmt::Write as _;

use pinfold_tasks::{TaskSpec, VerifyStep};

use crate::job::Step;

/// The longest prompt of the first iteration, in bytes: an argument can be 128 KiB (execve(2)), and the rest is for what
/// failed.
const LONGEST: usize = 96 << 10;

/// What each prompt says of the place that the agent works in.
const PLACE: &str = "\
You work alone on a branch of your own, in the current directory. Nobody answers questions. Commit your work with git.";

/// Returns the prompt of the first iteration.
///
/// # Errors
/// Returns a reason if it would be too long.
pub fn first(spec: &TaskSpec) -> Result<String, String> {
    let mut prompt = format!("{}\n\n{PLACE}", spec.brief.trim());
    if !spec.verify.is_empty() {
        prompt.push_str(
            "\nThe result is accepted when these commands succeed on a fresh checkout:\n",
        );
        for VerifyStep(command) in &spec.verify {
            let _ = write!(prompt, "\n    {command}");
        }
    }
    if prompt.len() > LONGEST {
        let what = "brief and commands have more than 96 KiB together";
        return Err(format!(
            "{what}; put long material into files of the repository, and name them"
        ));
    }
    Ok(prompt)
}

/// Returns the prompt of a later iteration.
pub(crate) fn again(first: &str, failed: &Step, output: &str) -> String {
    format!(
        "{first}\n\n---\n\nYou have worked on this before; your work is in the current directory. It was checked on a fresh \
         checkout, and this command failed with exit status {}:\n\n    {}\n\nThe end of its output:\n\n{}\n\nFind the \
         cause and mend it. Tests that were changed are replaced by the original ones.",
        failed.status,
        failed.command,
        indented(output)
    )
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
