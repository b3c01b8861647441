//! Files from the network whose content is known beforehand.

mod error;
mod fetch;
mod integrity;
mod url;

pub use error::DownloadError;
pub(crate) use fetch::Answer;
pub use fetch::{Download, Downloader, Progress};
pub use integrity::{Integrity, InvalidIntegrity};
