//! `pinfold keep-masks`: a helper process of `pinfold run`.

use std::os::fd::AsFd as _;
use std::process::ExitCode;

use pinfold_boundary::namespace::keeper;
use pinfold_wire::Channel;

use crate::exit::Failure;

/// Keeps the masks that come over standard input until it is closed.
///
/// # Errors
/// The kernel's error; no mask is put back then.
pub(crate) fn keep() -> Result<ExitCode, Failure> {
    let standard =
        |stream: std::os::fd::BorrowedFd<'_>| stream.try_clone_to_owned().map_err(Failure::new);
    let channel = Channel::from(standard(std::io::stdin().as_fd())?);
    let out = standard(std::io::stdout().as_fd())?;
    keeper::keep(&channel, &out).map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}
