//! The guest's own copy of this program.

use std::os::fd::OwnedFd;
use std::path::Path;

use pinfold_boundary::container::init_path;
use rustix::fs::CWD;

use super::GuestError;
use super::tree::{attach, clone_tree};

/// Where the initramfs has it.
const PROGRAM: &str = "/init";

/// This program in the initramfs, which is memory of the guest's: what the tree has at the path of init is the same, but
/// would come from the host page by page.
#[derive(Debug)]
pub(super) struct OwnProgram(OwnedFd);

impl OwnProgram {
    /// Takes it, while the initramfs is the root.
    ///
    /// # Errors
    /// Returns the error of open_tree(2).
    pub(super) fn take() -> Result<Self, GuestError> {
        let taken = clone_tree(CWD, Path::new(PROGRAM));
        taken.map(Self).map_err(|errno| GuestError::Place(PROGRAM.into(), errno))
    }

    /// Puts it over that of the tree, once the tree is the root.
    ///
    /// # Errors
    /// Returns the error of move_mount(2).
    pub(super) fn put_over_that_of_the_tree(&self) -> Result<(), GuestError> {
        let put = attach(&self.0, init_path());
        put.map_err(|errno| GuestError::Place(init_path().into(), errno))
    }
}
