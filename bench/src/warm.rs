//! A start that takes what `pinfold warm` has prepared, against one that makes its own.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use super::memory::show_memory;
use super::sample::{Contender, in_turns, print};
use super::start::base;
use super::{Effort, Outcome, command, peers};

/// Without and with every door.
const DOORS: [(&str, &[&str]); 2] =
    [("no host allowed", &[]), ("a host allowed", &["--allow-host", "example.com"])];

pub(super) fn run(pinfold: &Path, effort: Effort) -> Outcome {
    println!("\nstart to exit of `true`, prepared or not ({} starts each)", effort.starts);
    let directory = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
    let home = directory.path();
    let within = |state: &str, subcommand: &str, options: &[&str]| {
        let mut command = command(pinfold);
        command.arg(subcommand).args(options).current_dir(home);
        command.env("XDG_STATE_HOME", home.join(state));
        command
    };
    for (doors, options) in DOORS {
        println!("  {doors}");
        let mut keeper = Keeper::start(within("warm", "warm", &[options, &["-n", "2"]].concat()))?;
        let start = |state| {
            let mut run = within(state, "run", options);
            run.args(["--", "/usr/bin/true"]);
            run
        };
        let mut contenders = vec![
            Contender::new("plain", command("/usr/bin/true")),
            Contender::new("cold", start("cold")),
            Contender::new("warm", start("warm")),
        ];
        if peers::exists("bwrap") {
            contenders.push(Contender::new("bwrap", peers::bwrap(home, &["/usr/bin/true"])));
        }
        in_turns(&mut contenders, effort.starts)?;
        print(&contenders, if peers::exists("bwrap") { "bwrap" } else { "cold" });
        println!("  a keeper, and an inside that it has prepared");
        show_memory(keeper.process.id())?;
        keeper.end()?;
    }
    Ok(())
}

/// A keeper that is ready; ended with this value.
struct Keeper {
    process: Child,
    /// Where it says so.
    _errors: BufReader<ChildStderr>,
}

impl Keeper {
    fn start(mut command: Command) -> Result<Self, Box<dyn std::error::Error>> {
        let mut process = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let errors = process.stderr.take().ok_or("no standard error")?;
        let (mut errors, mut line) = (BufReader::new(errors), String::new());
        errors.read_line(&mut line)?;
        let keeper = Self { process, _errors: errors };
        if line.contains("prepared") { Ok(keeper) } else { Err(line.into()) }
    }

    fn end(&mut self) -> Outcome {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ = self.end();
    }
}
