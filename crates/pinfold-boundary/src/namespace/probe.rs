//! What `doctor` says about this boundary: it makes a sandbox, up to the last step before the
//! command, and looks at what it got.

use pinfold_policy::path::InsidePath;
use pinfold_wire::Report;

use super::{explain, inside_ids, landlock};
use crate::group::Group;
use crate::plan::{
    CpuShare, Door, Identity, Landlock, LaunchPlan, Program, ResourceLimits, Stdio, StdioEnd,
};
use crate::{Boundary, Capabilities, Finding, LaunchError, Probe, Session, sys};

pub(crate) fn probe(boundary: &dyn Boundary) -> Probe {
    let mut probe = Probe { capabilities: capabilities(), ..Probe::default() };
    match try_inside(boundary).map_err(explain) {
        Ok(handed_over) => probe.hands_over = handed_over,
        Err(error) => probe.findings.push(Finding {
            what: error.to_string(),
            hint: error.hint().map(str::to_owned),
            fatal: true,
        }),
    }
    if probe.usable() && !probe.hands_over {
        probe.findings.push(Finding {
            what: "the kernel hands no connections over: only programs that use a proxy reach \
                   allowed hosts"
                .to_owned(),
            hint: Some("load nftables with TPROXY: `modprobe nft_tproxy`".to_owned()),
            fatal: false,
        });
    }
    let abi = probe.capabilities.landlock;
    if abi < landlock::OLDEST {
        probe.findings.push(Finding {
            what: format!("the second wall is missing: Landlock ABI {abi}, 2 or newer is needed"),
            hint: Some("use a kernel from 5.19 on with `landlock` in its lsm= list".to_owned()),
            fatal: false,
        });
    }
    if !probe.capabilities.memory {
        probe.findings.push(Finding {
            what: "no control group can be made: init watches the tree's memory itself".to_owned(),
            hint: Some("run under `systemd-run --user --scope -p Delegate=yes`".to_owned()),
            fatal: false,
        });
    }
    probe
}

fn capabilities() -> Capabilities {
    let limits = ResourceLimits {
        memory: Some(1 << 30),
        pids: Some(64),
        cpus: Some(CpuShare { thousandths: 1000, required: false }),
        ..ResourceLimits::default()
    };
    let group = Group::make(&limits).ok().flatten();
    Capabilities {
        memory: group.as_ref().is_some_and(Group::bounds_memory),
        cpus: group.as_ref().is_some_and(Group::shares_cpus),
        // RLIMIT_NPROC counts for each user namespace, with or without a group.
        pids: true,
        landlock: sys::landlock::abi().unwrap_or(0),
    }
}

/// Makes a sandbox that runs nothing; says whether its connections are handed over.
///
/// # Errors
/// Returns why it cannot be made.
pub(crate) fn try_inside(boundary: &dyn Boundary) -> Result<bool, LaunchError> {
    let (uid, gid) = inside_ids();
    let plan = LaunchPlan {
        tree: Vec::new(),
        identity: Identity { uid, gid, home: InsidePath::root() },
        hostname: "pinfold".to_owned(),
        doors: vec![Door::Outward(881)],
        limits: ResourceLimits::default(),
        landlock: Landlock::BestEffort,
        nested: false,
        leaves_nothing: false,
    };
    // Nothing of a boundary that is tried so is kept in a directory.
    let session = Session {
        name: "probe",
        directory: "/nonexistent".as_ref(),
        configuration: None,
        interrupt: None,
    };
    let mut inside = boundary.launch(plan, session)?;
    let program =
        Program { argv: vec!["true".into()], env: Vec::new(), cwd: InsidePath::root(), ignored: 0 };
    let stdio = Stdio::plain([const { StdioEnd::Terminal }; 3]);
    inside.command(&program, stdio)?;
    let handed_over = inside.doors()?.handed_over;
    inside.seal(Vec::new())?;
    match inside.channel.receive::<Report>()? {
        Some(received) if received.message == Report::Terminal => Ok(handed_over),
        Some(received) => Err(crate::launch_error::failure(received.message)),
        None => Err(inside.last_words()),
    }
}
