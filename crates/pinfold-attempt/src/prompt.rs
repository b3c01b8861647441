//! What the agent is asked.

use pinfold_host::Refusal;
use std::fmt::Write as _;

use pinfold_specs::Comment;
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
pub fn first(spec: &TaskSpec) -> Result<String, Refusal> {
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
        return Err(Refusal::new(format!(
            "{what}; put long material into files of the repository, and name them"
        )));
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

/// What each prompt of a loop says.
const SPEC_TASK: &str = "\
Read the specification in /tmp/spec.md and do its next step that is neither done nor blocked, and no other. You work \
alone on a branch of your own, in the current directory. Nobody answers questions. Other agents did the steps before, and \
others do those after: they know nothing but the repository and the specification.

1. If the specification has no steps, first divide the work into steps: headings such as `### Step 1: Write the parser`.
2. Do the step, and test it. Commit your work with git.
3. Edit /tmp/spec.md: put ` [done]` at the end of the step's heading, or ` [blocked: the reason]` if it cannot be done.
   Write what later steps have to know below `## Notes` at the end. Leave the lines between `---` or `+++` at the top as \
they are, and change no other text without need.";

/// Returns the prompt of an iteration on a specification. `failed` is what did not pass after the last one.
///
/// # Errors
/// Returns a reason if it would be too long.
pub(crate) fn of_spec(
    spec: &TaskSpec,
    failed: Option<&(Step, String)>,
    comments: &[Comment],
) -> Result<String, Refusal> {
    let mut prompt = SPEC_TASK.to_owned();
    if !spec.verify.is_empty() {
        prompt
            .push_str("\n\nWhen all steps are done, these commands decide on a fresh checkout:\n");
        for VerifyStep(command) in &spec.verify {
            let _ = write!(prompt, "\n    {command}");
        }
    }
    if let Some((step, output)) = failed {
        let _ = write!(
            prompt,
            "\n\nAll steps were marked as done, and this command failed with exit status {}:\n\n    {}\n\nThe end \
             of its output:\n\n{}\nFind the cause and mend it instead of doing a step.",
            step.status,
            step.command,
            indented(output)
        );
    }
    for Comment { author, body } in comments {
        let _ = write!(prompt, "\n\nComment of {author}:\n\n{}", indented(body));
    }
    if prompt.len() > LONGEST {
        Err("commands and comments have more than 96 KiB together".into())
    } else {
        Ok(prompt)
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
