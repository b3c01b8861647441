//! Specifications that a loop works on.
//!
//! A specification is Markdown with front matter, in a [file](FileHome) or in an [issue](IssueHome) on GitHub. An agent
//! gets a copy of it and marks [steps](Steps) in its body. A [`Keeper`] takes the body back. The front matter stays that of
//! the host, and an edit that somebody else made is never lost.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod document;
mod file;
mod gh;
mod home;
mod issue;
mod keeper;
mod steps;

pub use document::Document;
pub use file::FileHome;
pub use gh::{Gh, Listed};
pub use home::{Comment, Home};
pub use issue::{IssueHome, LoginsError, TrustedAuthors, Vouched};
pub use keeper::{Keeper, TakenBack};
pub use steps::{Mark, Step, Steps};
