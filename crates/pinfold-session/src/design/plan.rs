//! From the settings to the plan of a sandbox.

use pinfold_boundary::namespace::inside_ids;
use pinfold_boundary::{
    Changes, CpuShare, Identity, Landlock, LaunchPlan, Lower, Place, ResourceLimits,
};
use pinfold_policy::authority::Authority;
use pinfold_policy::origin::Origin;
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_policy::settings::{LandlockMode, Settings};
use pinfold_rootfs::etc_files;
use pinfold_rootfs::system::Stack;
use pinfold_rootfs::userland;
use pinfold_workspace::review::Layer;

use crate::outcome::RunError;
use crate::view::View;

/// Gives the sandbox a view of the workspace instead of the workspace.
///
/// # Errors
/// Returns no error: the path is valid.
pub(super) fn put_view(
    plan: &mut LaunchPlan,
    root: &HostPath,
    layer: &Layer,
) -> Result<(), RunError> {
    let layers = HostPath::new(layer.layers()).map_err(RunError::path)?;
    let is_root = |place: &Place| matches!(place, Place::Writable(host) if host == root);
    for entry in plan.tree.iter_mut().filter(|entry| is_root(&entry.place)) {
        let (lower, changes) = (vec![Lower::Owned(root.clone())], Changes::Kept(layers.clone()));
        entry.place = Place::Overlay { lower, changes };
    }
    Ok(())
}

/// Returns the plan of everything that does not depend on the workspace's content.
///
/// # Errors
/// Returns an error for a grant that no boundary enforces, or a tree that cannot be read.
pub(super) fn plan(
    view: &View,
    authority: &Authority,
    settings: &Settings,
    stack: Option<&Stack>,
) -> Result<LaunchPlan, RunError> {
    let is_root = stack.is_some_and(|stack| stack.is_root);
    let (uid, gid) = if is_root { (0, 0) } else { inside_ids() };
    let mut tree = view.tree(authority, stack)?;
    tree.extend(etc_files::generated(uid, gid, stack).map_err(RunError::path)?);
    let limits = &settings.limits;
    Ok(LaunchPlan {
        tree,
        identity: Identity { uid, gid, home: InsidePath::from_static(userland::HOME) },
        hostname: userland::HOST_NAME.to_owned(),
        doors: Vec::new(),
        limits: ResourceLimits {
            memory: limits.memory.as_ref().map(|limit| limit.value.bytes()),
            cpus: limits.cpus.as_ref().map(|limit| CpuShare {
                thousandths: limit.value.thousandths(),
                // What a repository asks for is not a user's wish.
                required: !matches!(limit.origin, Origin::Project(_)),
            }),
            pids: limits.pids.as_ref().map(|limit| limit.value),
            disk: limits.disk.as_ref().map(|limit| limit.value.bytes()),
            changes: stack.and_then(Stack::bytes),
            files: limits.files.as_ref().map(|limit| limit.value),
        },
        landlock: match settings.scalars.landlock.value {
            LandlockMode::Required if !settings.scalars.allow_weaker.value => Landlock::Required,
            LandlockMode::Required | LandlockMode::BestEffort => Landlock::BestEffort,
        },
        nested: false,
        leaves_nothing: false,
    })
}
