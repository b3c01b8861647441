//! Files from the network whose content is known beforehand.

mod error;
mod fetch;
mod integrity;
mod url;

pub use error::DownloadError;
pub use fetch::{Answer, Download, Downloader, Progress};
pub use integrity::{Integrity, InvalidIntegrity};
