//! Deny inside allow: places within a grant that look different from what lies on the host.
//!
//! The supervisor scans the workspace while the root is being built and sends what it found.
//! The start fails if a path has since become a link, or is gone: it is not what was scanned.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pinfold_init::{Command, Failure, Streams};
use pinfold_wire::{Channel, LaunchOrder, Mask, MaskKind, Program, Step, Wire as _};
use rustix::io::Errno;

use super::last::Asked;
use super::root::Root;

/// Puts masks in place until the supervisor says that there are no more; none when it is gone.
///
/// # Errors
/// Returns an error for the mask that failed, with its path; a command that cannot be read.
pub(super) fn receive(root: &Root, channel: &Channel) -> Result<Option<Asked>, Failure> {
    let mut closed = Closed::default();
    receive_with(channel, |mask| {
        put(root, &mask, &mut closed).map_err(Failure::about(Step::Masks, &mask.path))
    })
}

/// Does something with each mask until the supervisor says that there are no more; none when it is gone.
///
/// # Errors
/// Returns the error of doing that; a command that cannot be read.
pub(crate) fn receive_with(
    channel: &Channel,
    mut take: impl FnMut(Mask) -> Result<(), Failure>,
) -> Result<Option<Asked>, Failure> {
    let (mut program, mut asked) = (Vec::new(), None);
    loop {
        let received = match channel.receive::<LaunchOrder>() {
            Ok(Some(received)) => received,
            Ok(None) | Err(_) => return Ok(None),
        };
        let (masks, last) = match received.message {
            LaunchOrder::Mask(masks) => (masks, false),
            LaunchOrder::Seal(masks) => (masks, true),
            LaunchOrder::Part(part) => {
                program.extend(part);
                continue;
            }
            LaunchOrder::Command { rest, streams } => {
                program.extend(rest);
                let streams = Streams::new(streams, received.descriptors);
                asked = Some((command(&program)?, streams.map_err(Failure::at(Step::Execute))?));
                continue;
            }
            LaunchOrder::Mapped
            | LaunchOrder::KeepMasks
            | LaunchOrder::MaskNew(_)
            | LaunchOrder::Init
            | LaunchOrder::Refresh(_)
            | LaunchOrder::Plan(_)
            | LaunchOrder::LastSteps(_) => continue,
        };
        for mask in masks {
            take(mask)?;
        }
        if last {
            return Ok(Some(asked));
        }
    }
}

fn command(program: &[u8]) -> Result<Command, Failure> {
    let program = Program::decode(program).map_err(|_| Errno::INVAL);
    program.map(Command::from).map_err(Failure::at(Step::Execute))
}

/// Directories that are hidden as a whole, because the sandbox may not enter them.
#[derive(Default)]
pub(super) struct Closed(Vec<PathBuf>);

pub(super) fn put(root: &Root, mask: &Mask, closed: &mut Closed) -> Result<(), Errno> {
    let path = relative(&mask.path)?;
    let is_closed = closed.0.iter().any(|above| path.starts_with(above));
    let is_mask = mask.kind.hides() || mask.kind == MaskKind::ReadOnly;
    if is_closed && is_mask {
        return Ok(());
    }
    let found = match &mask.kind {
        MaskKind::Borrow(_) => root.directory(path),
        _ => root.resolve(path),
    };
    let place = match found {
        // The sandbox cannot get there either, and is not to get there when somebody gives it the
        // permission while the session lasts.
        Err(Errno::ACCESS) if is_mask => return closed.close(root, path),
        found => found?,
    };
    match &mask.kind {
        MaskKind::Hide => root.hide(place),
        MaskKind::HideWith(from) => root.mask_with(place, relative(from)?, true),
        MaskKind::Close => root.close(place),
        MaskKind::ReadOnly => root.mask_with_itself(place, true),
        MaskKind::Pin => root.mask_with_itself(place, false),
        MaskKind::Replace(from) => root.mask_with(place, relative(from)?, false),
        MaskKind::Borrow(from) => root.mask_with(place, relative(from)?, true),
    }
}

impl Closed {
    /// Closes the innermost directory on a path that can be reached: it may not be entered.
    fn close(&mut self, root: &Root, path: &Path) -> Result<(), Errno> {
        for above in path.ancestors().skip(1) {
            match root.resolve(above) {
                Err(Errno::ACCESS) => {}
                found => {
                    root.close(found?)?;
                    self.0.push(above.to_owned());
                    return Ok(());
                }
            }
        }
        Err(Errno::ACCESS)
    }
}

fn relative(path: &[u8]) -> Result<&Path, Errno> {
    let path = path.strip_prefix(b"/").ok_or(Errno::INVAL)?;
    Ok(Path::new(OsStr::from_bytes(path)))
}
