//! What the agent is asked.

use std::fmt::Write as _;

use crate::job::Step;

/// The longest brief, in bytes: an argument can be 128 KiB (execve(2)), and the rest is for what failed.
pub(crate) const LONGEST: usize = 96 << 10;

/// What each prompt says of the place that the agent works in.
const PLACE: &str = "\
You work alone on a branch of your own, in the current directory. Nobody answers questions. Commit your work with git.";

/// Returns the prompt of the first iteration.
pub(crate) fn first(brief: &str, steps: &[&str]) -> String {
    let mut prompt = format!("{}\n\n{PLACE}", brief.trim());
    if !steps.is_empty() {
        let _ = write!(
            prompt,
            "\nThe result is accepted when these commands succeed on a fresh checkout:\n"
        );
        for step in steps {
            let _ = write!(prompt, "\n    {step}");
        }
    }
    prompt
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
