//! Benchmarks and generated files.

fn main() {}
