//! Deny inside allow: places within a grant that look different from what lies on the host.
//!
//! The supervisor looks the workspace over while the root is being built and sends what it
//! found. A path that has meanwhile changed into a link, or is gone, fails the start: it was
//! not what was looked at.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pinfold_init::Failure;
use pinfold_wire::{Channel, Cover, CoverKind, Order, Step};
use rustix::io::Errno;

use super::root::Root;

/// Puts covers in place until the supervisor says that there are no more; false when it is gone.
///
/// # Errors
/// The cover that failed, with its path.
pub(super) fn receive(root: &Root, channel: &Channel) -> Result<bool, Failure> {
    let mut links = 0;
    loop {
        let received = match channel.receive::<Order>() {
            Ok(Some(received)) => received.message,
            Ok(None) | Err(_) => return Ok(false),
        };
        let (covers, last) = match received {
            Order::Cover(covers) => (covers, false),
            Order::Seal(covers) => (covers, true),
            Order::Start(_) | Order::Run(_) | Order::Mapped | Order::Signal(_) | Order::Socket => {
                continue;
            }
        };
        for cover in covers {
            links += 1;
            put(root, &cover, links).map_err(Failure::about(Step::Covers, &cover.path))?;
        }
        if last {
            return Ok(true);
        }
    }
}

fn put(root: &Root, cover: &Cover, index: usize) -> Result<(), Errno> {
    let place = root.resolve(relative(&cover.path)?)?;
    match &cover.kind {
        CoverKind::Hide => root.hide(place),
        CoverKind::ReadOnly => root.cover_with_itself(place, true),
        CoverKind::Pin => root.cover_with_itself(place, false),
        CoverKind::Link(to) => root.cover_with_link(place, OsStr::from_bytes(to).as_ref(), index),
        CoverKind::Replace(from) => root.cover_with(place, relative(from)?, false),
    }
}

fn relative(path: &[u8]) -> Result<&Path, Errno> {
    let path = path.strip_prefix(b"/").ok_or(Errno::INVAL)?;
    Ok(Path::new(OsStr::from_bytes(path)))
}
