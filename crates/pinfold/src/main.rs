//! The command line: parse, call, print.

fn main() {}
