//! `pinfold serve` and `pinfold mcp`.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod mcp;
mod python;
mod serve;
