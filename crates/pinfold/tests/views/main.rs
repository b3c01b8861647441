//! Views of the workspace, and how their changes are applied.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod overlay;
