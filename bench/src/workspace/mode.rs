//! The ways to work on one repository that are compared.

use std::fs;
use std::io;
use std::process::Command;

use super::super::command;
use super::site::Site;
use super::turns::{Sample, Work, sample};

/// Options of overlayfs that a view is mounted with, except its layers.
const OPTIONS: &str = "userxattr,volatile";

/// Where the work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// In the checkout, without pinfold.
    Native,
    /// In the checkout.
    Shared,
    /// In a view of it.
    Overlay,
    /// In a view of it, without pinfold.
    Bare,
    /// In a worktree that is made for it.
    Dedicated,
    /// In an empty directory in memory.
    Scratch,
}

impl Mode {
    /// Returns the modes, the native one first. Overlayfs alone only where it can be mounted.
    pub(super) fn all() -> Vec<Self> {
        let mut all = vec![Self::Native, Self::Shared, Self::Overlay];
        all.extend(can_unshare().then_some(Self::Bare));
        all.extend([Self::Dedicated, Self::Scratch]);
        all
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Shared => "shared_mount",
            Self::Overlay => "overlay",
            Self::Bare => "bare overlay",
            Self::Dedicated => "dedicated_worktree",
            Self::Scratch => "scratch_mount",
        }
    }

    pub(super) fn has_repository(self) -> bool {
        self != Self::Scratch
    }

    /// Does the work once. Everything that an earlier turn wrote is on disk before, and nothing is
    /// left of this one afterwards.
    pub(super) fn run(
        self,
        site: &Site,
        work: &Work,
    ) -> Result<Sample, Box<dyn std::error::Error>> {
        self.prepare(site)?;
        site.shell("sync -f .")?;
        let taken = sample(&mut self.command(site, &work.script()));
        self.clean(site)?;
        taken
    }

    fn command(self, site: &Site, script: &str) -> Command {
        let words: &[&str] = match self {
            Self::Native => return site.command("/bin/sh", &["-ec", script]),
            Self::Bare => return bare(site, script),
            Self::Dedicated => &["--worktree-branch", site.branch(), "/bin/sh", "-ec", script],
            Self::Shared | Self::Overlay | Self::Scratch => &["/bin/sh", "-ec", script],
        };
        let (options, words) = words.split_at(words.len() - 3);
        site.session(self.name(), &[options, &["--"], words].concat())
    }

    fn prepare(self, site: &Site) -> io::Result<()> {
        match self {
            Self::Bare => ["upper", "work"]
                .into_iter()
                .try_for_each(|name| fs::create_dir_all(site.layers().join(name))),
            _ => Ok(()),
        }
    }

    fn clean(self, site: &Site) -> super::Outcome {
        match self {
            Self::Native | Self::Shared => site.shell("rm -rf out crate app"),
            Self::Overlay => site.discard(),
            Self::Bare => site.shell("rm -rf ../layers"),
            Self::Dedicated => site.remove_worktree(),
            Self::Scratch => Ok(()),
        }
    }
}

/// Overlayfs over the checkout as its user's own root mounts it.
fn bare(site: &Site, script: &str) -> Command {
    let (workspace, layers) = (site.workspace(), site.layers());
    let (workspace, layers) = (workspace.display(), layers.display());
    let mount = format!(
        "mount -t overlay view -o {OPTIONS},lowerdir={workspace},upperdir={layers}/upper,\
         workdir={layers}/work {workspace} && cd {workspace}\n{script}"
    );
    site.command("unshare", &["--user", "--map-root-user", "--mount", "/bin/sh", "-ec", &mount])
}

fn can_unshare() -> bool {
    let mut unshare = command("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "/bin/true"]);
    let can = unshare.status().is_ok_and(|status| status.success());
    if !can {
        println!("  unshare cannot make a user namespace: no bare overlay");
    }
    can
}
