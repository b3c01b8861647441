//! `cargo xtask crates`: the table of crates in ARCHITECTURE.md, and the largest import circles.
//!
//! Descriptions come from each crate's manifest, sizes and dependencies from the code. The check takes a
//! count of lines for current until it is a tenth off, so that not every change touches the table. Circles
//! of more than a few files are listed in a file, so that none is made and none grows: a number there only
//! goes down. Signatures and doc comments of functions are checked as well ([`functions`]), and how many names the largest
//! API has ([`public`]).

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Outcome;
use crate::cargo::{command, output};
use crate::{circles, functions, public};

const DOCUMENT: &str = "ARCHITECTURE.md";
/// The largest circle of each crate that has one of more than [`circles::MOST`] files.
const CIRCLES: &str = ".ci/circles";
const CIRCLES_HEADING: &str = "\
# Files in the largest import circle of a crate, where there are more than 3. `cargo xtask crates` writes
# this file. CI fails when a number grows.
";
/// Lines of a crate, without its tests.
const MOST_LINES: usize = 13_000;
/// Lines of code of root's program, without blank ones and comments.
const MOST_OF_ROOTS: (&str, usize) = ("pinfold-runner", 1_000);
/// Public names of this crate, which many others could come to depend on in every detail.
const MOST_NAMES: (&str, usize) = ("pinfold-session", 100);
/// Words of [`DOCUMENT`], as `wc -w` counts them. Longer lists have pages of their own.
const MOST_WORDS: usize = 2_500;
/// Lines of a record of a decision.
const MOST_RECORD_LINES: usize = 25;
const BEGIN: &str = "<!-- crates: written by `cargo xtask crates` -->\n";
const END: &str = "<!-- end of crates -->\n";
const HEADING: &str = "\
| crate | what lives there | what never does | lines | uses |
|---|---|---|---:|---|
";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    description: Option<String>,
    metadata: Option<Sections>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Sections {
    architecture: Option<Architecture>,
}

/// `[package.metadata.architecture]` of a manifest.
#[derive(Deserialize)]
struct Architecture {
    never: String,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    path: Option<PathBuf>,
    /// None for what the crate itself links; else `dev` or `build`.
    kind: Option<String>,
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Crate {
    name: String,
    description: String,
    never: String,
    lines: usize,
    uses: Vec<String>,
}

/// Writes the table, or checks that it is as it would be written.
///
/// # Errors
/// Returns an error for a table that is not current, or a file that cannot be read or written.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let is_check = match words {
        [] => false,
        ["--check"] => true,
        _ => return Err("usage: cargo xtask crates [--check]".into()),
    };
    let words = ["metadata", "--no-deps", "--format-version", "1", "--locked"];
    let metadata: Metadata = serde_json::from_str(&output(command("cargo").args(words))?)?;
    let path = metadata.workspace_root.join(DOCUMENT);
    let document = fs::read_to_string(&path)?;
    let words = document.split_whitespace().count();
    if is_check && words > MOST_WORDS {
        return Err(format!(
            "{DOCUMENT} has {words} words, more than {MOST_WORDS}: give a part of it a page"
        )
        .into());
    }
    let (before, table, after) = parts(&document)?;
    let large = large_circles(&metadata)?;
    check_functions(&metadata.workspace_root)?;
    check_names(&metadata.workspace_root)?;
    check_records(&metadata.workspace_root)?;
    check_roots(&metadata.workspace_root)?;
    let list = metadata.workspace_root.join(CIRCLES);
    let crates = sorted(crates(metadata)?);
    if let Some(large) = crates.iter().find(|each| each.lines > MOST_LINES) {
        let Crate { name, lines, .. } = large;
        return Err(format!("{name} has {lines} lines, more than {MOST_LINES}: split it").into());
    }
    if is_check {
        let is_current = render(&crates, &shown_lines(table)) == table;
        let stale = || format!("{DOCUMENT} is not current; `cargo xtask crates` writes it").into();
        if !is_current {
            return Err(stale());
        }
        return check_circles(&large, &fs::read_to_string(list)?);
    }
    for (name, circles) in &large {
        for circle in circles {
            println!("{name}: {} files in a circle: {}", circle.len(), circle.join(" "));
        }
    }
    fs::write(list, listed(&large))?;
    let written = render(&crates, &BTreeMap::new());
    Ok(fs::write(path, [before, &written, after].concat())?)
}

/// Checks the signatures and doc comments of all functions.
///
/// # Errors
/// Returns the functions that do not keep to [`functions`]'s rules.
fn check_functions(root: &Path) -> Outcome {
    let mut found = Vec::new();
    let mut packages = vec![root.join("bench"), root.join("xtask")];
    for entry in fs::read_dir(root.join("crates"))? {
        packages.push(entry?.path());
    }
    for package in packages {
        found.extend(functions::faults(&package.join("src"))?);
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}

/// Checks that a crate offers no more names than it may.
///
/// # Errors
/// Returns the number of names, if it is too large.
fn check_names(root: &Path) -> Outcome {
    let (name, most) = MOST_NAMES;
    let count = public::names(&root.join("crates").join(name).join("src"))?.len();
    if count > most {
        return Err(format!("{name} has {count} public names, more than {most}").into());
    }
    Ok(())
}

/// Checks that one can read root's program as a whole.
///
/// # Errors
/// Returns how long it is, if that is too much.
fn check_roots(root: &Path) -> Outcome {
    let (name, most) = MOST_OF_ROOTS;
    let is_code = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let count = lines_below(&root.join("crates").join(name).join("src"), is_code)?;
    if count > most {
        return Err(format!("{name} has {count} lines of code, more than {most}").into());
    }
    Ok(())
}

/// Checks that each record of a decision is short.
///
/// # Errors
/// Returns a record that is too long.
fn check_records(root: &Path) -> Outcome {
    for entry in fs::read_dir(root.join("docs/adr"))? {
        let path = entry?.path();
        let lines = fs::read_to_string(&path)?.lines().count();
        if lines > MOST_RECORD_LINES {
            let path = path.display();
            return Err(format!("{path} has {lines} lines, more than {MOST_RECORD_LINES}").into());
        }
    }
    Ok(())
}

/// The circles of more than [`circles::MOST`] files of each crate that has some.
type LargeCircles = BTreeMap<String, Vec<Vec<String>>>;

fn large_circles(metadata: &Metadata) -> Result<LargeCircles, Box<dyn Error>> {
    let top = metadata.workspace_root.join("crates");
    let mut large = BTreeMap::new();
    for package in &metadata.packages {
        if package.manifest_path.starts_with(&top) {
            let circles = circles::of(&package.manifest_path.with_file_name("src"))?;
            if !circles.is_empty() {
                large.insert(package.name.clone(), circles);
            }
        }
    }
    Ok(large)
}

/// Returns the list of the largest circles as it is kept.
fn listed(large: &LargeCircles) -> String {
    let sizes = large.iter().filter_map(|(name, circles)| Some((name, circles.first()?.len())));
    let lines = sizes.map(|(name, size)| format!("{name} {size}\n"));
    [CIRCLES_HEADING.to_owned()].into_iter().chain(lines).collect()
}

/// Checks that no circle is larger than what is listed, and that the list is not larger than needed.
///
/// # Errors
/// Returns the circle that has grown, or that the list can be lowered.
fn check_circles(large: &LargeCircles, list: &str) -> Outcome {
    let sizes = list.lines().filter_map(|line| line.split_once(' '));
    let kept: BTreeMap<&str, usize> =
        sizes.filter_map(|(name, size)| Some((name, size.parse().ok()?))).collect();
    for (name, circles) in large {
        let Some(largest) = circles.first() else { continue };
        let most = kept.get(name.as_str()).copied().unwrap_or(circles::MOST);
        if largest.len() > most {
            let files = largest.join(" ");
            let size = largest.len();
            return Err(format!(
                "{name}: {size} files import each other in a circle, and {most} may: {files}"
            )
            .into());
        }
    }
    if list == listed(large) {
        return Ok(());
    }
    Err(format!("a circle has become smaller; `cargo xtask crates` writes {CIRCLES}").into())
}

/// Splits the document around the table.
fn parts(document: &str) -> Result<(&str, &str, &str), String> {
    let missing = |marker: &str| format!("{DOCUMENT} has no line `{}`", marker.trim_end());
    let begin = document.find(BEGIN).ok_or_else(|| missing(BEGIN))? + BEGIN.len();
    let length = document[begin..].find(END).ok_or_else(|| missing(END))?;
    let (before, rest) = document.split_at(begin);
    let (table, after) = rest.split_at(length);
    Ok((before, table, after))
}

/// Returns the crates of the product; tools of developers are not counted.
fn crates(metadata: Metadata) -> Result<Vec<Crate>, Box<dyn Error>> {
    let top = metadata.workspace_root.join("crates");
    let shipped = metadata.packages.into_iter().filter(|it| it.manifest_path.starts_with(&top));
    shipped
        .map(|package| {
            let name = package.name;
            let source = package.manifest_path.with_file_name("src");
            let never = package.metadata.and_then(|sections| sections.architecture);
            let mut uses: Vec<String> = package
                .dependencies
                .into_iter()
                .filter(|other| other.path.is_some() && other.kind.is_none())
                .map(|other| other.name)
                .collect();
            uses.sort();
            uses.dedup();
            Ok(Crate {
                description: package.description.ok_or(format!("{name} has no description"))?,
                never: never.map(|section| section.never).unwrap_or_default(),
                lines: lines_below(&source, |_| true)?,
                uses,
                name,
            })
        })
        .collect()
}

/// Counts such lines of source files below a directory, tests left out.
fn lines_below(directory: &Path, is_meant: fn(&str) -> bool) -> std::io::Result<usize> {
    let mut lines = 0;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            lines += lines_below(&path, is_meant)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            lines += lines_without_tests(&fs::read_to_string(&path)?, is_meant);
        }
    }
    Ok(lines)
}

/// Counts such lines of a formatted file that are not part of a module of tests.
fn lines_without_tests(text: &str, is_meant: fn(&str) -> bool) -> usize {
    let mut count = 0;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        match lines.next_if(|next| line == "#[cfg(test)]" && next.starts_with("mod ")) {
            None => count += usize::from(is_meant(line)),
            // Its brace is the next one that is not indented.
            Some(module) if module.ends_with('{') => drop(lines.by_ref().find(|it| *it == "}")),
            Some(_) => {}
        }
    }
    count
}

/// Sorts crates so that each stands above all that it uses.
fn sorted(mut crates: Vec<Crate>) -> Vec<Crate> {
    let mut heights: BTreeMap<String, usize> =
        crates.iter().map(|each| (each.name.clone(), 0)).collect();
    // Cargo lets no two crates use each other, so no path is longer than there are crates.
    for _ in 0..crates.len() {
        for each in &crates {
            let used = each.uses.iter().filter_map(|name| heights.get(name));
            let height = used.max().map_or(0, |highest| highest + 1);
            heights.insert(each.name.clone(), height);
        }
    }
    crates.sort_by(|a, b| (heights[&b.name], &a.name).cmp(&(heights[&a.name], &b.name)));
    crates
}

/// Returns the counts of lines that a table has, by crate.
fn shown_lines(table: &str) -> BTreeMap<&str, usize> {
    let rows = table.lines().map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let counts = rows
        .filter_map(|cells| Some((cells.get(1)?.trim_matches('`'), cells.get(4)?.parse().ok()?)));
    counts.collect()
}

/// Returns the table. A count that is shown already stays if it is about right.
fn render(crates: &[Crate], shown: &BTreeMap<&str, usize>) -> String {
    let mut table = HEADING.to_owned();
    for Crate { name, description, never, lines, uses } in crates {
        let is_close = |shown: &&usize| shown.abs_diff(*lines) <= (lines / 10).max(100);
        let rounded = lines.next_multiple_of(100);
        let lines = shown.get(name.as_str()).filter(is_close).unwrap_or(&rounded);
        let short = uses.iter().map(|name| name.trim_start_matches("pinfold-"));
        // Nobody reads such a list.
        let are_most = uses.len() > 10 && uses.len() > crates.len() / 2;
        let uses =
            if are_most { "most of them".to_owned() } else { short.collect::<Vec<_>>().join(", ") };
        table += &format!("| `{name}` | {description} | {never} | {lines} | {uses} |\n");
    }
    table
}

#[cfg(test)]
mod tests;
