//! `cargo xtask words`: words that this project does not use (`xtask/data/words.txt`).
//!
//! Neither text that users read has them, nor comments and names.

mod rust;

use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::cargo::{command, output};

const PHRASES: &str = "xtask/data/words.txt";
/// Records of what was, in the words of their time.
const HISTORY: [&str; 2] = ["CHANGELOG.md", "docs/adr/"];
/// This task, which has to name the phrases.
const OWN: [&str; 2] = ["xtask/src/words", PHRASES];

/// A phrase and what to say instead.
#[derive(Debug)]
struct Phrase<'a> {
    words: &'a str,
    instead: &'a str,
}

/// Searches all files that git has.
///
/// # Errors
/// Returns every place that has one of the phrases.
pub(crate) fn run(words: &[&str]) -> Outcome {
    if !words.is_empty() {
        return Err("usage: cargo xtask words".into());
    }
    let text = fs::read_to_string(PHRASES)?;
    let found = search(&phrases(&text))?;
    if found.is_empty() {
        return Ok(());
    }
    Err(format!("words that {PHRASES} lists:\n{}", found.join("\n")).into())
}

fn phrases(text: &str) -> Vec<Phrase<'_>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let phrase = |line| str::split_once(line, ": ");
    lines.filter_map(phrase).map(|(words, instead)| Phrase { words, instead }).collect()
}

/// Returns the places, as `file:line: phrase (say: …)`.
fn search(phrases: &[Phrase<'_>]) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let patterns = [
        "*.md",
        "*.rs",
        "*.py",
        "*.sh",
        "*.ts",
        "*.mjs",
        "*.nix",
        "schema/*.json",
        "crates/*/data/*.txt",
        "scripts",
        ".ci",
    ];
    let listed = output(command("git").args(["ls-files", "-z", "--"]).args(patterns))?;
    let mut found = Vec::new();
    for name in listed.split_terminator('\0') {
        // One that was removed and is still in the index.
        let Ok(text) = fs::read_to_string(name) else { continue };
        if HISTORY.iter().chain(&OWN).any(|not| name.starts_with(not)) {
            continue;
        }
        let mut report = |line: usize, text: &str| {
            let has = phrases.iter().filter(|phrase| has(text, phrase.words));
            found.extend(has.map(|Phrase { words, instead }| {
                format!("{name}:{line}: {words} (say: {instead})")
            }));
        };
        if Path::new(name).extension().is_some_and(|end| end == "rs") {
            for piece in rust::pieces(&text) {
                let line = text[..piece.at].matches('\n').count() + 1;
                let kept =
                    if piece.is_text { without_values(piece.text) } else { piece.text.to_owned() };
                report(line, &plain(&kept));
            }
            continue;
        }
        let is_code = |index: usize| index % 2 == 1;
        for (number, line) in text.lines().enumerate() {
            let parts = line.split('`').enumerate();
            let words: String = if name.ends_with(".md") && !line.starts_with("```") {
                parts.filter(|(index, _)| !is_code(*index)).map(|(_, part)| part).collect()
            } else {
                line.to_owned()
            };
            report(number + 1, &plain(&words));
        }
    }
    Ok(found)
}

/// Returns a text without the names of values that `format!` puts into it.
fn without_values(text: &str) -> String {
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + part.split_once('}').map_or(part, |(_, rest)| rest))
}

/// Returns a text in lower case, with one blank between words. Names of code become words.
fn plain(text: &str) -> String {
    let text = text.to_lowercase().replace(['_', '\\'], " ");
    let lines = text.lines().map(|line| line.trim().trim_start_matches(['/', '!']));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Returns whether a plain text has a phrase of whole words.
fn has(text: &str, phrase: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let goes_on = |at: usize| {
        is_word(text[..at].chars().next_back()) || is_word(text[at + phrase.len()..].chars().next())
    };
    text.match_indices(phrase).any(|(at, _)| !goes_on(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_whole_words_in_any_case_and_in_names() {
        let has = |text: &str, phrase| has(&plain(text), phrase);
        assert!(has("Renewed, and Anew", "anew") && !has("renewed", "anew"));
        assert!(has("fn it_is_none()", "it is none"));
        assert!(has("what it\n/// is none", "it is none"));
        assert!(!has("it_is_nonexistent()", "it is none"));
        assert_eq!(without_values("a {told} b {0}: {}, c"), "a  b : , c");
    }

    #[test]
    fn comments_in_the_list_are_no_phrases() {
        let text = "# head: 1\nlook over: scan\n";
        assert_eq!(phrases(text)[0].words, "look over");
    }
}
