//! The `landlock` boundary: Landlock and a filter for system calls alone, for machines that refuse user namespaces.
//!
//! Nothing is mounted and no number of a process is hidden. What holds instead:
//!
//! - Files: Landlock's rules for what was granted. The workspace is a copy (`copy`), because a rule reaches
//!   everything beneath a place, so nothing in a granted directory can be hidden or protected. What of the sandbox has a path of
//!   its own elsewhere (its home, `/tmp`) lies in a directory of the session's, and variables name that (`layout`).
//! - What Landlock has no rules for: modes, owners, times and attributes of files, sockets, and what all
//!   processes of a machine share. `filter` refuses it, or has the reaper do it ([`pinfold_init::Attributes`]).
//! - Processes: two Landlock domains for signals (`reaper`).
//!
//! What it cannot do is refused ([`crate::Feature`], `layout`), and it is never chosen but by name.

mod backing;
mod borrowed;
mod changes;
mod copy;
mod enter;
mod filter;
mod layout;
mod reaper;

use pinfold_wire::Channel;

pub use self::enter::KERNEL;

use self::backing::LandlockBacking;
use self::layout::Layout;
use self::reaper::Birth;
use crate::group::Group;
use crate::namespace::{OLDEST_SCOPED, abi, caller_is_root, refuse_threads, try_inside};
use crate::plan::{Changes, LaunchPlan, Place};
use crate::sys::{self, Side};
use crate::{Boundary, Capabilities, Feature, Finding, Inside, LaunchError, Probe, Session};

/// Landlock and a filter for system calls, without namespaces.
#[derive(Debug, Clone, Copy, Default)]
pub struct LandlockAlone;

impl Boundary for LandlockAlone {
    fn name(&self) -> &'static str {
        "landlock"
    }

    fn lacks(&self) -> &'static [Feature] {
        &[
            Feature::Checkout,
            Feature::Doors,
            Feature::Publish,
            Feature::Nested,
            Feature::System,
            Feature::Root,
        ]
    }

    fn probe(&self) -> Probe {
        let capabilities = Capabilities { pids: true, landlock: abi(), ..Capabilities::default() };
        match try_inside(self) {
            Ok(_) => Probe {
                capabilities,
                is_closed: true,
                findings: vec![weaker()],
                ..Probe::default()
            },
            Err(error) => Probe { capabilities, ..Probe::unusable(&error) },
        }
    }

    fn launch(&self, plan: LaunchPlan, session: Session<'_>) -> Result<Inside, LaunchError> {
        refuse_threads()?;
        check()?;
        if plan.limits.disk.is_some() {
            let cause = "no file system of the session's own bounds its directories".to_owned();
            return Err(LaunchError::Limit { limit: "disk", cause });
        }
        let layout = Layout::of(&plan, session.directory)?;
        let group = Group::make(&plan.limits)?;
        let enforced = Capabilities {
            memory: group.as_ref().is_some_and(Group::bounds_memory),
            cpus: group.as_ref().is_some_and(Group::shares_cpus),
            pids: plan.limits.pids.is_some(),
            landlock: abi(),
        };
        let kept = plan.tree.iter().find_map(|entry| match &entry.place {
            Place::Overlay { changes: Changes::Kept(layers), .. } => {
                Some(layers.as_path().to_owned())
            }
            _ => None,
        });
        let (channel, theirs) = Channel::pair()?;
        let descriptor = group.as_ref().and_then(Group::descriptor);
        let side = sys::clone_into(0, descriptor).map_err(|source| LaunchError::System {
            what: "cannot start what ends the sandbox",
            source: source.into(),
        })?;
        let Side::Parent { child, .. } = side else {
            drop(channel);
            let groups = group.as_ref().map(Group::to_join).unwrap_or_default();
            reaper::run(Birth { plan, layout, channel: theirs, groups, enforced })
        };
        drop(theirs);
        Ok(Inside::new(channel, child, enforced, Box::new(LandlockBacking { group, kept })))
    }
}

/// Refuses a machine on which it would hold less than it says.
fn check() -> Result<(), LaunchError> {
    let abi = abi();
    if abi < OLDEST_SCOPED {
        let what = format!(
            "the boundary landlock needs Landlock ABI {OLDEST_SCOPED} (Linux 6.12), which keeps signals and sockets in, and this \
             kernel has ABI {abi}"
        );
        return Err(LaunchError::Wall { what });
    }
    if caller_is_root() {
        let what = "the boundary landlock has no other user for the sandbox of root: run pinfold as an ordinary user \
                    (Docker: --user; devcontainer.json: \"remoteUser\")";
        return Err(LaunchError::Wall { what: what.to_owned() });
    }
    Ok(())
}

/// Returns what a user has to know before choosing it.
fn weaker() -> Finding {
    Finding {
        what: "weaker than all others: no network, a copy of the workspace, names and sizes of the host's files are seen"
            .to_owned(),
        hint: Some(
            "choose it (`--boundary landlock --workspace overlay`) only where no other works; \
             docs/guides/landlock.md says what it lacks"
                .to_owned(),
        ),
        fatal: false,
    }
}
