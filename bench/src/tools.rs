//! The tools of a session: small reads and edits, and a search, against the same without one.

use std::error::Error;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

use pinfold_client::Client;
use pinfold_client::api::{FilesRead, SessionStart};
use pinfold_host::directories::Places;
use pinfold_session::control::Session;
use pinfold_tools::{Edit, Grep, GrepMode, Read, Replacement, Tools};

use super::memory::show_memory;
use super::work::make_tree;
use super::{Effort, Outcome, command, peers};

pub(super) fn run(pinfold: &Path, effort: Effort, on: &Path) -> Outcome {
    let directory = tempfile::Builder::new().prefix("bench").tempdir_in(on)?;
    let workspace = directory.path().join("workspace");
    fs::create_dir(&workspace)?;
    make_tree(&workspace, effort.files)?;
    fs::write(workspace.join("small"), "one\ntwo\nthree\n")?;
    let state = directory.path().join("state");
    let (own, theirs) = UnixStream::pair()?;
    let theirs = OwnedFd::from(theirs);
    let server = command(pinfold)
        .args(["serve", "--stdio"])
        .env("XDG_STATE_HOME", &state)
        .stdin(Stdio::from(theirs.try_clone()?))
        .stdout(Stdio::from(theirs))
        .spawn()?;
    let served = Served { server, client: Some(Client::new(own)?) };
    let client = served.client.as_ref().ok_or("no client")?;
    let start = SessionStart { workspace: workspace.clone(), ..SessionStart::default() };
    let session = client.call(&start)?.session;
    let places = Places { state: state.join("pinfold"), ..Places::find()? };
    let tools = Session::find(&places, &session).map_err(|error| error.to_string())?;
    let tools = tools.tools().map_err(|error| error.to_string())?;

    let count = if effort.rounds > 2 { 20_000 } else { 1_000 };
    println!("\ntools of a session: {count} small reads, {count} edits of one word");
    let path = workspace.join("small");
    let native = rate(count, || Ok(fs::read(&path).map(drop)?))?;
    say("read, natively", native, native);
    let read = Read { path: "small".into(), range: None };
    say("read, library", rate(count, || Ok(tools.read(read.clone()).map(drop)?))?, native);
    let call = FilesRead { session, read };
    say("read, local API", rate(count, || Ok(client.call(&call).map(drop)?))?, native);
    let mut turn = 0_u32;
    let native = rate(count, || {
        turn += 1;
        let text = fs::read_to_string(&path)?;
        let [old, new] = words(turn);
        let staged = path.with_extension("new");
        fs::write(&staged, text.replacen(old, new, 1))?;
        Ok(fs::rename(&staged, &path)?)
    })?;
    say("edit, natively", native, native);
    fs::write(&path, "one\ntwo\nthree\n")?;
    turn = 0;
    let edited = rate(count, || {
        turn += 1;
        let [old, new] = words(turn).map(str::to_owned);
        let edits = vec![Replacement { old, new, all: false }];
        Ok(tools.edit(Edit { path: "small".into(), edits }).map(drop)?)
    })?;
    say("edit, library", edited, native);
    let (alone, together) = at_once(&tools, &workspace, count)?;
    say("edits, natively, 4 at once", alone, alone);
    say("edits, library, 4 at once", together, alone);
    search(&tools, &workspace, effort)?;
    println!("  memory of the server afterwards");
    show_memory(served.server.id())
}

/// Edits of a file each by several at once, natively and by the tools; how many in all.
fn at_once(tools: &Tools, workspace: &Path, count: u32) -> Result<(f64, f64), Box<dyn Error>> {
    const WORKERS: u32 = 4;
    let name = |worker: u32| format!("small-{worker}");
    let all = |edit: &(dyn Fn(&str, u32) -> Result<(), String> + Sync)| {
        let begun = Instant::now();
        let work = |worker| (1..=count / WORKERS).try_for_each(|turn| edit(&name(worker), turn));
        std::thread::scope(|scope| {
            let workers = (0..WORKERS).map(|worker| scope.spawn(move || work(worker)));
            let workers: Vec<_> = workers.collect();
            workers.into_iter().try_for_each(|it| it.join().map_err(|_| "a panic".to_owned())?)
        })?;
        Ok::<_, Box<dyn Error>>(f64::from(count) / begun.elapsed().as_secs_f64())
    };
    let make = || (0..WORKERS).try_for_each(|it| fs::write(workspace.join(name(it)), "one\ntwo\n"));
    make()?;
    let native = all(&|name, turn| {
        let path = workspace.join(name);
        let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let [old, new] = words(turn);
        let staged = path.with_extension("new");
        fs::write(&staged, text.replacen(old, new, 1)).map_err(|error| error.to_string())?;
        fs::rename(&staged, &path).map_err(|error| error.to_string())
    })?;
    make()?;
    let own = all(&|name, turn| {
        let [old, new] = words(turn).map(str::to_owned);
        let edits = vec![Replacement { old, new, all: false }];
        let edited = tools.edit(Edit { path: name.into(), edits });
        edited.map(drop).map_err(|error| error.to_string())
    })?;
    Ok((native, own))
}

/// Returns what is replaced by what, there and back.
fn words(turn: u32) -> [&'static str; 2] {
    if turn % 2 == 1 { ["two", "2.5"] } else { ["2.5", "two"] }
}

fn search(tools: &Tools, workspace: &Path, effort: Effort) -> Outcome {
    println!("  grep over {} files: every line that matches, and what has none", effort.files);
    if !peers::exists("rg") {
        println!("  ripgrep is not installed: skipped");
        return Ok(());
    }
    for pattern in ["fn [a-z]+_1[0-9]*\\b", "no-such-word-anywhere"] {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..=effort.rounds.max(3) {
            let begun = Instant::now();
            let mut rg = command("rg");
            rg.args(["--hidden", "--glob", "!.git", "--line-number", "--no-heading", pattern, "."]);
            rg.current_dir(workspace).stdin(Stdio::null());
            // That nothing matches is its status 1.
            let found = rg.output()?.stdout.split(|byte| *byte == b'\n').count() - 1;
            times[0].push(begun.elapsed());
            let begun = Instant::now();
            let grep = Grep {
                pattern: pattern.to_owned(),
                path: ".".into(),
                limit: Some(u64::MAX),
                mode: GrepMode::Lines,
                ..Grep::default()
            };
            let done = tools.grep(grep)?;
            times[1].push(begun.elapsed());
            if done.matches != found as u64 && !done.truncated {
                return Err(format!("ripgrep finds {found} lines, grep {}", done.matches).into());
            }
        }
        let [rg, own] = times.map(|mut times| {
            times.remove(0);
            times.sort_unstable();
            times[times.len() / 2].as_secs_f64() * 1e3
        });
        println!(
            "  {pattern:<28} rg {rg:>8.1} ms  grep {own:>8.1} ms  {:>5.2} of its speed",
            rg / own
        );
    }
    Ok(())
}

/// Returns how often a second something is done.
fn rate(count: u32, mut what: impl FnMut() -> Outcome) -> Result<f64, Box<dyn Error>> {
    (0..count / 10).try_for_each(|_| what())?;
    let even = (count / 10) % 2;
    (0..even).try_for_each(|_| what())?;
    let begun = Instant::now();
    (0..count).try_for_each(|_| what())?;
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

fn say(what: &str, rate: f64, native: f64) {
    println!("  {what:<28} {rate:>9.0} a second  {:>6.2} × natively", rate / native);
}

/// A server that ends with its client.
struct Served {
    server: Child,
    client: Option<Client>,
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.client.take());
        // It has been asked to end.
        let _ = self.server.wait();
    }
}
