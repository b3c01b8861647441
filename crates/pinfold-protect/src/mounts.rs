//! From an authority to what a boundary mounts. That both give the same answer for every path is
//! held by the property test `verdicts`.

use pinfold_boundary::{Entry, Mask, MaskKind, Place};
use pinfold_host::Refusal;
use pinfold_policy::access::Access;
use pinfold_policy::authority::{Authority, Effect, Restriction};
use pinfold_policy::path::HostPath;

/// Returns the granted roots, parents first.
///
/// # Errors
/// Returns an error for a grant of an access that no boundary enforces.
pub fn grants(authority: &Authority) -> Result<Vec<Entry>, Refusal> {
    let entry = |grant: &pinfold_policy::authority::Grant| {
        let host = grant.root.host.clone();
        let place = if grant.access == Access::FULL {
            Place::Writable(host)
        } else if Access::READ_ONLY.contains(grant.access) {
            Place::ReadOnly(host)
        } else {
            let what = format!("no boundary can grant {} exactly this access", grant.root.host);
            let hint = "grant it for reading or in full".to_owned();
            return Err(Refusal::new(what).with_hint(hint));
        };
        Ok(Entry { path: grant.root.inside.clone(), place })
    };
    authority.grants().map(entry).collect()
}

/// Returns the masks over the grants: pins first, parents before what lies in them. `special` says what
/// stands for a path that is hidden or has a private copy. Without that, what is hidden looks empty, and
/// the other stays as it is, read-only.
pub fn masks(
    authority: &Authority,
    special: &dyn Fn(Effect, &HostPath) -> Option<MaskKind>,
) -> Vec<Mask> {
    let pins = authority.pins().into_iter();
    let pins = pins.map(|pin| Mask { path: pin.inside.as_bytes().to_vec(), kind: MaskKind::Pin });
    let placements = authority.placements();
    let restrictions = placements.iter().map(|placement| {
        let Restriction { effect, host, .. } = placement.restriction;
        let kind = match effect {
            Effect::Hide => special(*effect, host).unwrap_or(MaskKind::Hide),
            Effect::ReadOnly => MaskKind::ReadOnly,
            Effect::Private => special(*effect, host).unwrap_or(MaskKind::ReadOnly),
        };
        Mask { path: placement.inside.as_bytes().to_vec(), kind }
    });
    pins.chain(restrictions).collect()
}
