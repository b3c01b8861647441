//! Running something in a live session.

use std::error::Error;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use pinfold_host::directories::Places;
use pinfold_session::control::{Exec, Session as Live};

use super::engines::{Container, ENGINES};
use super::memory::show_memory;
use super::sample::{Contender, in_turns, print};
use super::start::base;
use super::{Effort, Outcome, command};

/// At once.
const MANY: usize = 200;

pub(super) fn run(pinfold: &Path, effort: Effort) -> Outcome {
    println!("\n`true` in a live session ({} times, in turns)", effort.starts);
    let directory = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
    let within = |args: &[&str]| {
        let mut own = command(pinfold);
        own.args(args).current_dir(directory.path());
        own.env("XDG_STATE_HOME", directory.path().join("state"));
        own
    };
    let mut session = Session::start(within(&[
        "run",
        "--name",
        "bench",
        "--",
        "sh",
        "-c",
        "echo up; read line",
    ]))?;
    let inside = |args: &[&str]| {
        let mut exec = within(&["exec", "bench", "--"]);
        exec.args(args);
        exec
    };
    let mut contenders = vec![
        Contender::new("plain", command("/usr/bin/true")),
        Contender::new("pinfold --version", within(&["--version"])),
        Contender::new("exec", inside(&["/usr/bin/true"])),
        by_library(&directory.path().join("state/pinfold"))?,
        Contender::new("run", within(&["run", "--", "/usr/bin/true"])),
    ];
    let mut containers = Vec::new();
    for engine in &ENGINES {
        match Container::start(engine, directory.path()) {
            Ok(container) => {
                contenders.push(Contender::new(format!("{} exec", engine.name), container.exec()));
                containers.push(container);
            }
            Err(why) => println!("  {} is not usable here: {why}", engine.name),
        }
    }
    in_turns(&mut contenders, effort.starts)?;
    print(&contenders, "plain");
    drop(containers);

    let bytes = if effort.rounds > 2 { 1 << 30 } else { 1 << 26 };
    println!("  {} MiB to a pipe", bytes >> 20);
    let script = format!("head -c {bytes} /dev/zero | cat");
    let shell = ["/bin/sh", "-c", &script];
    let mut plain = command(shell[0]);
    plain.args(&shell[1..]);
    let mut streams = [Stream::new("plain", plain), Stream::new("exec", inside(&shell))];
    for _ in 0..effort.rounds {
        streams.iter_mut().try_for_each(Stream::take)?;
    }
    let base = streams[0].median();
    for stream in &streams {
        let rate = stream.median();
        println!("  {:<28} {rate:>9.0} MB/s  {:>6.2} × plain", stream.name, rate / base);
    }

    let begun = Instant::now();
    let spawn = |_| inside(&["/usr/bin/true"]).stdin(Stdio::null()).spawn();
    let execs = (0..MANY).map(spawn).collect::<Result<Vec<_>, _>>()?;
    for mut exec in execs {
        if !exec.wait()?.success() {
            return Err("one of many failed".into());
        }
    }
    println!("  {MANY} at once                  all done after {:.0?}", begun.elapsed());
    println!("  memory of the session afterwards");
    show_memory(session.0.id())?;
    session.end()
}

/// Measures the same by a process that is there already.
fn by_library(state: &Path) -> Result<Contender, Box<dyn Error>> {
    let places = Places { state: state.to_owned(), ..Places::find()? };
    let session = Live::find(&places, "bench").map_err(|error| error.to_string())?;
    let nothing = OwnedFd::from(File::options().read(true).write(true).open("/dev/null")?);
    Ok(Contender::of("exec, library", move || {
        let exec = Exec { argv: vec!["/usr/bin/true".into()], ..Exec::default() };
        let streams = [nothing.try_clone()?, nothing.try_clone()?, nothing.try_clone()?];
        let running = session.start(exec, streams).map_err(|error| error.to_string())?;
        let ended = running.wait().map_err(|error| error.to_string())?;
        if ended.status == 0 { Ok(()) } else { Err("exec by the library failed".into()) }
    }))
}

/// A session that waits for its input; ended with this value.
struct Session(Child);

impl Session {
    fn start(mut command: Command) -> Result<Self, Box<dyn Error>> {
        let mut session = Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        if let Some(output) = &mut session.0.stdout {
            output.read_exact(&mut [0; 3])?;
        }
        Ok(session)
    }

    fn end(&mut self) -> Outcome {
        if let Some(mut input) = self.0.stdin.take() {
            input.write_all(b"\n")?;
        }
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ = self.end();
    }
}

/// A command that writes, and how fast what it writes was taken, in MB/s.
struct Stream {
    name: &'static str,
    command: Command,
    rates: Vec<f64>,
}

impl Stream {
    fn new(name: &'static str, command: Command) -> Self {
        Self { name, command, rates: Vec::new() }
    }

    fn take(&mut self) -> Outcome {
        let begun = Instant::now();
        let mut child = self.command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut output = child.stdout.take().ok_or("no standard output")?;
        let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
        loop {
            match output.read(&mut buffer)? {
                0 => break,
                count => bytes += count,
            }
        }
        child.wait()?;
        self.rates.push(bytes as f64 / begun.elapsed().as_secs_f64() / 1e6);
        Ok(())
    }

    fn median(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_unstable_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or_default()
    }
}
