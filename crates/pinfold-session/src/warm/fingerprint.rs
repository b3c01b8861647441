//! What an inside is, in 32 bytes: what it inherits beyond the ambience, its plan, under a name that stands for any session's, and which
//! files its paths lead to.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt as _;

use pinfold_boundary::{Changes, LaunchPlan, Lower, Place};
use pinfold_policy::path::HostPath;
use ring::digest::{Context, SHA256};

use crate::places::Places;
use crate::sys;

/// The fingerprint of a plan for [`SessionId::anybodys`], here and now.
///
/// # Errors
/// A path of it that leads nowhere.
pub(super) fn fingerprint(plan: &LaunchPlan, places: &Places) -> io::Result<[u8; 32]> {
    // What a session has of its own is not there for anybody's.
    let file = |host: &HostPath| match host.as_path().starts_with(&places.state) {
        true => Ok((0, 0)),
        false => file(host),
    };
    let mut digest = Digest(Context::new(&SHA256));
    plan.hash(&mut digest);
    // Not to be had of another process everywhere; who asks says it for itself.
    sys::inherited().hash(&mut digest);
    for entry in &plan.tree {
        match &entry.place {
            Place::ReadOnly(host) | Place::Writable(host) => file(host)?.hash(&mut digest),
            Place::Overlay { lower, changes } => {
                lower.iter().map(Lower::host).try_for_each(|host| {
                    file(host)?.hash(&mut digest);
                    io::Result::Ok(())
                })?;
                if let Changes::Kept(layers) = changes {
                    file(layers)?.hash(&mut digest);
                }
            }
            Place::Private | Place::File { .. } | Place::Symlink(_) => {}
        }
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.0.finish().as_ref());
    Ok(bytes)
}

/// What a mount of this path holds on to. As long as it does, no other file gets the number.
fn file(host: &HostPath) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(host.as_path())?;
    Ok((metadata.dev(), metadata.ino()))
}

/// A collision would give a run the inside of another: std's hashes are not made for that.
struct Digest(Context);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Nobody asks: the digest is taken whole.
    fn finish(&self) -> u64 {
        0
    }
}
