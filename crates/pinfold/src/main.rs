//! The command line: parse, call, print.

#[cfg_attr(not(test), expect(dead_code, reason = "mounted with the command line"))]
mod secret;

fn main() {}
