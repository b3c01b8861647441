//! Tasks that developers and CI run, never users.
//!
//! This program depends on next to nothing of the product, so `cargo xtask check` does not build a
//! crate before it checks it.

use std::error::Error;
use std::process::ExitCode;

mod attack;
mod cargo;
mod check;
mod circles;
mod crates;
mod dist;
mod e2e;
mod functions;
mod hunt;
mod leftovers;
mod links;
mod lock;
mod manual;
mod public;
mod simulate;
mod words;
mod workspace;

/// What a task returns: an error to print, or nothing.
type Outcome = Result<(), Box<dyn Error>>;

const USAGE: &str = "\
usage: cargo xtask TASK

tasks:
  check [--since REV] [CRATE…]  format, clippy and unit tests of the crates that differ from REV
                                (default: from the upstream branch), at most a minute
  crates [--check]              write the table of crates in ARCHITECTURE.md and the largest import
                                circles in .ci/circles, or check both
  e2e [AREA…] [-- FILTER…]      end-to-end tests of these areas; without an area, lists them
        [--engine ENGINE]       behind a container engine
  hunt [--minutes N]            property tests with new seeds, until one fails (default: 10)
  attack [--minutes N]          random hostile sessions, and ordinary work on the host after them
         [--cases N] [--seed N] [--pinfold FILE]
  simulate [--minutes N]        workers that share a queue over a bad network, with new seeds
         [--tasks N] [--workers N] [--seed N]
  links                         check that links and source files named in documents exist
  leftovers COMMAND…            run a command, then fail if a process or mount of it is left
  bench [--smoke] [--dist] [start|boundaries|systemd|machine|exec|tools|snapshot|work|workspace|memory|tasks|queue|diary|gateway|door|kept]
                                measure the promises of SPECIFICATION.md; kept: fail if a ratio of
                                bench/ratios.txt grew by more than a quarter (--smoke does that, too)
        [--on DIRECTORY]        workspace and tools: on this directory's disk
        [--rounds N]            work and workspace: so many turns of each piece
  bench soak [--minutes N]      mixed traffic for ten minutes; fails when something grows
  dist DIRECTORY                write what is released for this machine: a tarball, packages for Debian, npm and PyPI, and
                                a list of crates
       [--profile PROFILE]      as built by this profile (default: dist)
  dist sign URL KEY DIRECTORY   write the digests of all of it, signed by a key of ssh-keygen's, and an install.sh that
                                fetches from the URL and checks them
  man [DIRECTORY]               write the manual pages (default: to target/man/man1), and check them
  lock AGENT VERSION [FILE]     write agents/recipes/FILE.json (FILE: AGENT) from npm
  words [--write | --files]     search for words that xtask/data/words.txt lists, lower the numbers of those that
                                comments still have, or list the files with most of them";

/// Builds the benchmarks and runs them.
fn bench(words: &[&str]) -> Outcome {
    // With the executable's package: dependencies would have fewer features without it, and be built again.
    let packages = ["--package", "pinfold", "--package", "pinfold-bench"];
    let program =
        cargo::build(&[&["build", "--release"], &packages[..]].concat(), "pinfold-bench")?;
    cargo::finish(cargo::command(program).args(words))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["check", rest @ ..] => check::run(rest),
        ["crates", rest @ ..] => crates::run(rest),
        ["e2e", rest @ ..] => e2e::run(rest),
        ["hunt", rest @ ..] => hunt::run(rest),
        ["attack", rest @ ..] => attack::run(rest),
        ["simulate", rest @ ..] => simulate::run(rest),
        ["links"] => links::run(),
        ["dist", rest @ ..] => dist::run(rest),
        ["man", rest @ ..] => manual::run(rest),
        ["leftovers", rest @ ..] => leftovers::run(rest),
        // A program of its own: it links the product, which this one must not.
        ["bench", rest @ ..] => bench(rest),
        ["words", rest @ ..] => words::run(rest),
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
