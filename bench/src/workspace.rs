//! The workspace modes against the checkout itself, and taking changes over against `cp` and `git`.
//!
//! Each piece of work is timed twice: the whole run, from the start of the process to its end, and
//! the work alone, by the shell that does it. What is lost between the two is the start and the end;
//! what is lost within is the file system's. `bare overlay` is overlayfs without pinfold, in a user
//! namespace on the same disk: what a view costs without us.

mod mode;
mod site;
mod take;
mod turns;

use std::path::Path;

use mode::Mode;
use site::Site;
use turns::{Turns, Work};

use super::{Effort, Outcome, memory, peers};

/// A piece of work in the workspace.
struct Piece {
    name: &'static str,
    /// What is put there before; not counted as work.
    before: &'static str,
    /// A shell command; `INPUT` stands for the directory of what is read.
    work: &'static str,
    /// A program that it needs.
    needs: &'static str,
    /// Whether it needs the repository, which an empty workspace has not.
    in_repository: bool,
    /// By how much it is longer than the others, so that it has fewer turns.
    longer: usize,
}

const PIECES: [Piece; 6] = [
    Piece {
        name: "start to exit of `true`",
        before: "true",
        work: "true",
        needs: "true",
        in_repository: true,
        longer: 1,
    },
    Piece {
        name: "untar",
        before: "mkdir out",
        // Without the calls that tar makes only for root, which no sandbox has.
        work: "tar -xf INPUT/tree.tar -C out --no-same-owner --no-same-permissions",
        needs: "tar",
        in_repository: false,
        longer: 1,
    },
    Piece {
        name: "git checkout of all files, and back",
        before: "true",
        work: "git checkout -q other && git checkout -q -",
        needs: "git",
        in_repository: true,
        longer: 1,
    },
    Piece {
        name: "chmod of all files, and back",
        before: "true",
        work: "chmod -R g+w src && chmod -R g-w src",
        needs: "chmod",
        in_repository: true,
        longer: 1,
    },
    Piece {
        name: "cargo build",
        before: "cp -r INPUT/crate crate",
        work: "cargo build --quiet --offline --manifest-path crate/Cargo.toml --target-dir crate/to",
        needs: "cargo",
        in_repository: false,
        longer: 2,
    },
    Piece {
        name: "npm ci, from a cache that is granted",
        before: "mkdir app && cp INPUT/package.json INPUT/package-lock.json app",
        work: "cd app && npm ci --offline --cache INPUT/npm --ignore-scripts --no-audit --no-fund \
               --no-update-notifier --logs-max=0 --loglevel=error",
        needs: "npm",
        in_repository: false,
        longer: 3,
    },
];

/// Measures in a new directory of `on`.
pub(super) fn run(pinfold: &Path, effort: Effort, on: &Path) -> Outcome {
    let Effort { files, rounds, .. } = effort;
    println!(
        "\nworkspace modes, a repository of {files} files ({rounds} rounds at most, in turns)"
    );
    let site = Site::make(pinfold, on, effort)?;
    println!(
        "  on {}; speed: the native run's time divided by the mode's",
        site.kind_of_disk().unwrap_or_else(|| "an unknown file system".to_owned())
    );
    for piece in PIECES {
        println!(" {}", piece.name);
        if !peers::exists(piece.needs) {
            println!("  {} is not installed: skipped", piece.needs);
        } else if piece.needs == "npm" && !site.has_packages() {
            println!("  its packages could not be downloaded: skipped");
        } else {
            in_all_modes(&site, &piece, effort)?;
        }
    }
    take::run(&site, effort)?;
    println!();
    memory::of("overlay in this repository", site.session("overlay", &memory::IDLE))
}

fn in_all_modes(site: &Site, piece: &Piece, effort: Effort) -> Outcome {
    let is_meant = |mode: &Mode| !piece.in_repository || mode.has_repository();
    let modes = Mode::all().into_iter().filter(is_meant);
    let input = site.input().to_string_lossy().into_owned();
    let work = Work {
        before: piece.before.replace("INPUT", &input),
        work: piece.work.replace("INPUT", &input),
    };
    let mut turns: Vec<Turns> = modes.map(Turns::new).collect();
    for round in effort.first_round()..=(effort.rounds / piece.longer).max(1) {
        for turn in &mut turns {
            let sample = turn.mode.run(site, &work)?;
            if round > 0 {
                turn.samples.push(sample);
            }
        }
    }
    turns::print(&turns);
    Ok(())
}
