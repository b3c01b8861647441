//! The commands in the documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use pinfold_testkit::{Stage, people};

/// The documents for users.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs/guides")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.chain(["README.md", "integrations/pi/README.md"].map(|name| root.join(name))).collect()
}

/// The words of each command of pinfold's on a page, without those for what it runs.
fn commands(page: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    for line in page.lines() {
        let shown = line.trim_start().trim_start_matches("$ ");
        let inline = line.split('`').skip(1).step_by(2);
        for text in inline.chain([shown]) {
            let Some(words) = text.strip_prefix("pinfold ") else { continue };
            let words = words.split(" #").next().unwrap_or(words);
            let words = words.split_whitespace().take_while(|word| *word != "--");
            commands.push(words.map(str::to_owned).collect());
        }
        // What an MCP client starts.
        if let Some((_, words)) = line.split_once("\"args\": [\"mcp\"") {
            let words = words.split(']').next().unwrap_or_default().split(',');
            let words = words.map(|word| word.trim().trim_matches('"').to_owned());
            commands.push(["run".to_owned()].into_iter().chain(words).collect());
        }
    }
    commands
}

fn option(word: &str) -> Option<&str> {
    let word = word.trim_end_matches([',', ';', '.', ')', ':']);
    let name = word.split(['=', '[', '|']).next()?;
    let is_option = name.strip_prefix("--").is_some_and(|rest| {
        !rest.is_empty() && rest.chars().all(|one| one.is_ascii_lowercase() || one == '-')
    });
    is_option.then_some(name)
}

#[test]
fn every_option_in_the_documents_exists() {
    let stage = Stage::new(people()[0]);
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut help = |words: &[&str]| {
        let name = words.join(" ");
        let read = || {
            let output = stage.pinfold(&[words, &["--help"]].concat()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let words = text.split_whitespace().filter_map(option);
            words.filter(|_| output.status.success()).map(str::to_owned).collect()
        };
        known.entry(name).or_insert_with(read).clone()
    };
    let (mut seen, mut missing) = (0, Vec::new());
    for path in documents() {
        for words in commands(&fs::read_to_string(&path).unwrap()) {
            let named: Vec<&str> = words.iter().map(String::as_str).collect();
            let subcommands = named.iter().take_while(|word| {
                word.chars().all(|one| one.is_ascii_lowercase() || one == '-')
                    && !word.starts_with('-')
            });
            let subcommands: Vec<&str> = subcommands.take(3).copied().collect();
            let mut options = help(&[]);
            for length in 1..=subcommands.len() {
                options.extend(help(&subcommands[..length]));
            }
            for option in named.iter().filter_map(|word| option(word)) {
                seen += 1;
                if !options.contains(option) {
                    missing.push(format!(
                        "{}: pinfold {}: {option}",
                        path.display(),
                        words.join(" ")
                    ));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(seen > 50, "only {seen} options were found");
}
