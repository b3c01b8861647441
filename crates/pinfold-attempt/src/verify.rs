//! The verification of a result: each command runs in a fresh sandbox, on a checkout of the commit.
//!
//! The agent's worktree is never used for it: what git ignores there (installed packages, build output) could be made to
//! say anything. In the checkout, tests are as in the base and sealed files are put over it before each command,
//! so the result does not decide what is tested. Each command has a checkout of its own, so an earlier one does not either.

use std::ffi::OsString;
use std::time::Duration;

use pinfold_policy::settings::BranchName;
use pinfold_tasks::{TaskSpec, VerifyStep};

use crate::failed::Failed;
use crate::job::Step;
use crate::options;
use crate::sandbox::{Ended, Sandboxes};

/// Restores tests, puts sealed files over the checkout, and runs a command. Arguments: the base, the sealed directory
/// or nothing, the commit, the command, and the paths to restore.
const SCRIPT: &str = include_str!("../data/verify.sh");

/// What decides about a result.
pub(crate) struct Verification<'a> {
    pub(crate) spec: &'a TaskSpec,
    /// The commit that tests are restored from.
    pub(crate) base: &'a str,
    /// The commit to verify.
    pub(crate) commit: &'a str,
    /// A branch at that commit, which nothing else uses.
    pub(crate) branch: &'a BranchName,
}

/// What came of it.
pub(crate) enum Verified {
    /// All commands succeeded.
    Passed(Vec<Step>),
    /// One did not.
    Failed(Step, Ended),
}

impl Verification<'_> {
    /// Runs a command, which may take as long as is `left`.
    ///
    /// # Errors
    /// Returns that this process was asked to end, or what kept a sandbox from being started.
    pub(crate) fn run(
        &self,
        command: &VerifyStep,
        sandboxes: &mut Sandboxes,
        left: Duration,
    ) -> Result<(Step, Ended), Failed> {
        let mut options = options::of_sandbox(self.spec, self.branch, left);
        // What a command sees of sealed files must not reach an agent by a commit.
        options.push("--discard-commits".into());
        let sealed = self.spec.sealed.as_ref().map(|path| path.as_os_str().to_owned());
        if let Some(sealed) = &sealed {
            options.extend(["--read".into(), sealed.clone()]);
        }
        let VerifyStep(command) = command;
        let mut what: Vec<OsString> =
            ["--", "/bin/sh", "-c", SCRIPT, "verify", self.base].map(Into::into).into();
        what.extend([sealed.unwrap_or_default(), self.commit.into(), command.into()]);
        what.extend(self.spec.restore.iter().map(OsString::from));
        let ended = sandboxes.run(&format!("verify: {command}"), options, what)?;
        let millis = u64::try_from(ended.took.as_millis()).unwrap_or(u64::MAX);
        if ended.result.is_none() {
            return Err(Failed::lasting("verification_refused", ended.tail.reason()));
        }
        Ok((Step { command: command.clone(), status: ended.status, millis }, ended))
    }
}
