//! Benchmarks and generated files: what developers run, never what users run.

use std::process::ExitCode;

mod bench;
mod lock;

const USAGE: &str = "\
usage: cargo xtask TASK

tasks:
  bench [--smoke] [start|warm|exec|tools|snapshot|work|workspace|memory|gateway|door]
                              measure the promises of SPECIFICATION.md
        [--on DIRECTORY]      workspace and tools: on this directory's disk
        [--rounds N]          work and workspace: so many turns of each piece
  bench soak [--minutes N]    mixed traffic for ten minutes; fails when something grows
  lock AGENT VERSION [FILE]   write agents/recipes/FILE.json (FILE: AGENT) from npm";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done: Result<(), Box<dyn std::error::Error>> = match words.as_slice() {
        ["bench", rest @ ..] => bench::run(rest),
        ["lock", rest @ ..] => lock::run(rest).map_err(Into::into),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
