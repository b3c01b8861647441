//! Work inside against the same work outside.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::sample::{Contender, in_turns, print};
use super::start::base;
use super::{Effort, Outcome, command, peers};

/// A piece of work, as a shell command in the workspace.
const PIECES: [(&str, &str, Option<&str>); 7] = [
    ("500 × fork and exec", "for i in $(seq 500); do /usr/bin/true; done", None),
    ("git status", "git status --porcelain >/dev/null", Some("git")),
    ("ripgrep", "rg --threads 2 needle-that-is-not-there . || true", Some("rg")),
    ("untar of many small files", "rm -rf out && mkdir out && tar -xf small.tar -C out", None),
    ("write and read 256 MB", "head -c 256M /dev/zero >big && cat big >/dev/null && rm big", None),
    (
        "C build",
        "for i in $(seq 12); do cc -O1 -c -o $i.o unit.c; done && cc -o unit *.o 2>/dev/null || true",
        Some("cc"),
    ),
    (
        "cargo build",
        "rm -rf built && cargo build --quiet --offline --manifest-path crate/Cargo.toml --target-dir built",
        Some("cargo"),
    ),
];

pub(super) fn run(pinfold: &Path, effort: Effort) -> Outcome {
    println!("\nwork inside against outside ({} rounds each, in turns)", effort.rounds);
    let workspace = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
    let workspace = workspace.path();
    make_crate(workspace)?;
    make_tree(workspace, effort.files)?;
    for (name, script, needs) in PIECES {
        if let Some(program) = needs.filter(|program| !peers::exists(program)) {
            println!("  {name}: {program} is not installed: skipped");
            continue;
        }
        println!(" {name}");
        compare(pinfold, &[], script, workspace, effort.rounds)?;
    }
    Ok(())
}

/// Measures some of it behind an engine: processes, many small files, and a compiler.
pub(super) fn behind(pinfold: &Path, engine: &str, effort: Effort) -> Outcome {
    const SOME: [&str; 4] =
        ["500 × fork and exec", "git status", "untar of many small files", "C build"];
    let rounds = effort.rounds.min(3);
    println!("\nwork behind {engine} against outside ({rounds} rounds each, in turns)");
    let workspace = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
    make_tree(workspace.path(), effort.files)?;
    for (name, script, _) in PIECES.into_iter().filter(|(name, ..)| SOME.contains(name)) {
        println!(" {name}");
        // Not every engine can do everything: gVisor of 2022 has not every call.
        if let Err(error) =
            compare(pinfold, &["--engine", engine], script, workspace.path(), rounds)
        {
            println!("  {error}");
        }
    }
    Ok(())
}

fn compare(
    pinfold: &Path,
    options: &[&str],
    script: &str,
    workspace: &Path,
    rounds: usize,
) -> Outcome {
    let mut outside = command("/bin/sh");
    outside.args(["-c", &timed(script)]).current_dir(workspace);
    let mut inside = command(pinfold);
    inside.arg("run").args(options).args(["--", "/bin/sh", "-c", &timed(script)]);
    inside.current_dir(workspace);
    let mut contenders = [Contender::new("outside", outside), Contender::new("inside", inside)];
    in_turns(&mut contenders, rounds)?;
    print(&contenders, "outside");
    Ok(())
}

/// Times what is long enough that the start does not count, yet the start is in it.
fn timed(script: &str) -> String {
    format!("for round in 1 2 3; do {script}; done")
}

/// Makes a crate of a dozen modules that depend on each other and on nothing else.
pub(super) fn make_crate(workspace: &Path) -> Outcome {
    const MODULES: usize = 12;
    let source = workspace.join("crate/src");
    fs::create_dir_all(&source)?;
    let manifest =
        "[package]\nname = \"bench\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n";
    fs::write(workspace.join("crate/Cargo.toml"), manifest)?;
    let mut main = String::new();
    for index in 0..MODULES {
        let before = match index {
            0 => "0".to_owned(),
            _ => format!("crate::m{0}::total(words)", index - 1),
        };
        fs::write(source.join(format!("m{index}.rs")), MODULE.replace("BEFORE", &before))?;
        main.push_str(&format!("mod m{index};\n"));
    }
    let last = MODULES - 1;
    main.push_str(&format!(
        "fn main() {{\n    let words: Vec<String> = std::env::args().collect();\n    \
         println!(\"{{}}\", m{last}::total(&words));\n}}\n"
    ));
    fs::write(source.join("main.rs"), main)?;
    Ok(())
}

/// A module with what takes a compiler time: generics, collections, closures, formatting.
const MODULE: &str = r#"use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word {
    text: String,
    count: usize,
}

pub trait Weigh {
    fn weight(&self) -> usize;
}

impl Weigh for Word {
    fn weight(&self) -> usize {
        self.text.len() * self.count
    }
}

fn count<'a>(words: impl Iterator<Item = &'a String>) -> HashMap<&'a str, usize> {
    let mut counts = HashMap::new();
    words.for_each(|word| *counts.entry(word.as_str()).or_default() += 1);
    counts
}

pub fn total(words: &[String]) -> usize {
    let sorted: BTreeMap<_, _> = count(words.iter()).into_iter().collect();
    let mut list: Vec<Word> =
        sorted.iter().map(|(text, count)| Word { text: text.to_string(), count: *count }).collect();
    list.sort_by_key(|word| std::cmp::Reverse((word.weight(), word.text.clone())));
    let shown = format!("{list:?}");
    list.iter().map(Weigh::weight).sum::<usize>() + shown.len() + BEFORE
}
"#;

pub(super) fn make_tree(workspace: &Path, files: usize) -> Outcome {
    for index in 0..files {
        let directory = workspace.join(format!("src/d{}", index / 50));
        if index % 50 == 0 {
            fs::create_dir_all(&directory)?;
        }
        fs::write(directory.join(format!("f{index}.txt")), format!("line {index}\n").repeat(20))?;
    }
    fs::create_dir(workspace.join("small"))?;
    for index in 0..files / 2 {
        fs::write(workspace.join(format!("small/{index}")), "content\n")?;
    }
    fs::write(workspace.join("unit.c"), "int f(int x) { return x + 1; }\n")?;
    let quiet = |program: &str, args: &[&str]| -> Outcome {
        let status = run_in(workspace, program, args).status()?;
        if status.success() { Ok(()) } else { Err(format!("{program} failed").into()) }
    };
    quiet("tar", &["-cf", "small.tar", "small"])?;
    fs::remove_dir_all(workspace.join("small"))?;
    fs::write(workspace.join(".gitignore"), "small.tar\nout\nbig\nbuilt\n*.o\n")?;
    quiet("git", &["init", "-q", "."])?;
    quiet("git", &["add", "-A"])?;
    let identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"];
    quiet("git", &[&identity[..], &["commit", "-qm", "tree"]].concat())
}

fn run_in(directory: &Path, program: &str, args: &[&str]) -> Command {
    let mut command = command(program);
    command.args(args).current_dir(directory);
    command
}
