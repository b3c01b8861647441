//! `cargo xtask words`: words that this project does not use (`xtask/data/words.txt`).
//!
//! Text that users read has none of them: documents, schemas, and the texts in the code of the product. Comments and
//! names still have some, from the time before the list; their number is kept for each phrase, and may only fall.

mod rust;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::cargo::{command, output};

const PHRASES: &str = "xtask/data/words.txt";
const LEFT: &str = "xtask/data/words-left.txt";
const LEFT_HEAD: &str = "\
# How often comments and names still have each phrase of words.txt. A number may only fall:
# `cargo xtask words --write` lowers it, and never raises one.
";
/// Records of what was, in the words of their time.
const HISTORY: [&str; 2] = ["CHANGELOG.md", "docs/adr/"];
/// This task, which has to name the phrases.
const OWN: &str = "xtask/src/words";
/// Programs of developers, whose texts no user reads.
const DEVELOPERS: [&str; 4] = ["bench/", "xtask/", "fuzz/", "crates/pinfold-testkit/"];

/// A phrase and what to say instead.
#[derive(Debug)]
struct Phrase<'a> {
    words: &'a str,
    instead: &'a str,
}

/// What a search found.
#[derive(Debug, Default)]
struct Found<'a> {
    /// Where users read a phrase: `file:line: phrase (say: …)`.
    visible: Vec<String>,
    /// How often comments and names have each phrase.
    left: BTreeMap<&'a str, usize>,
    /// The files with the most of them.
    by_file: BTreeMap<String, usize>,
}

/// Searches all files that git has.
///
/// # Errors
/// Returns every place where users read one of the phrases, and the phrases that comments have more often than before.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let is_write = match words {
        [] => false,
        ["--write"] => true,
        ["--files"] => return list(),
        _ => return Err("usage: cargo xtask words [--write | --files]".into()),
    };
    let text = fs::read_to_string(PHRASES)?;
    let phrases = phrases(&text);
    let found = search(&phrases)?;
    let kept = fs::read_to_string(LEFT).unwrap_or_default();
    let kept = numbers(&kept);
    let allowed = |phrase: &str| kept.get(phrase).copied();
    let mut wrong = found.visible;
    for (phrase, count) in &found.left {
        match allowed(phrase) {
            Some(most) if *count > most => {
                wrong.push(format!(
                    "comments and names have \"{phrase}\" {count} times, before {most} \
                     (`cargo xtask words --files` lists the files)"
                ));
            }
            None if !is_write => wrong.push(format!("{LEFT} has no number for \"{phrase}\"")),
            Some(_) | None => {}
        }
    }
    if !wrong.is_empty() {
        return Err(format!("words that {PHRASES} lists:\n{}", wrong.join("\n")).into());
    }
    if is_write {
        let lines = found.left.iter().map(|(phrase, count)| format!("{phrase}: {count}\n"));
        fs::write(LEFT, format!("{LEFT_HEAD}{}", lines.collect::<String>()))?;
    }
    Ok(())
}

/// Prints the files whose comments and names have most of the phrases.
///
/// # Errors
/// Returns an error for a file that cannot be read.
fn list() -> Outcome {
    let text = fs::read_to_string(PHRASES)?;
    let phrases = phrases(&text);
    let found = search(&phrases)?;
    let mut files: Vec<(&String, &usize)> = found.by_file.iter().collect();
    files.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    files.iter().for_each(|(file, count)| println!("{count:>5}  {file}"));
    Ok(())
}

fn phrases(text: &str) -> Vec<Phrase<'_>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let phrase = |line| str::split_once(line, ": ");
    lines.filter_map(phrase).map(|(words, instead)| Phrase { words, instead }).collect()
}

fn numbers(text: &str) -> BTreeMap<&str, usize> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit_once(": "))
        .filter_map(|(phrase, count)| Some((phrase, count.parse().ok()?)))
        .collect()
}

fn search<'a>(phrases: &'a [Phrase<'a>]) -> Result<Found<'a>, Box<dyn std::error::Error>> {
    let patterns = ["*.md", "*.rs", "schema/*.json", "crates/*/data/*.txt"];
    let listed = output(command("git").args(["ls-files", "-z", "--"]).args(patterns))?;
    let mut found = Found::default();
    found.left.extend(phrases.iter().map(|phrase| (phrase.words, 0)));
    for name in listed.split_terminator('\0') {
        // One that was removed and is still in the index.
        let Ok(text) = fs::read_to_string(name) else { continue };
        if HISTORY.iter().any(|history| name.starts_with(history)) || name.starts_with(OWN) {
            continue;
        }
        if Path::new(name).extension().is_some_and(|end| end == "rs") {
            search_rust(name, &text, phrases, &mut found);
        } else {
            let is_code = |index: usize| index % 2 == 1;
            let document = name.ends_with(".md");
            for (number, line) in text.lines().enumerate() {
                let parts = line.split('`').enumerate();
                let words: String = if document && !line.starts_with("```") {
                    parts.filter(|(index, _)| !is_code(*index)).map(|(_, part)| part).collect()
                } else {
                    line.to_owned()
                };
                report(&mut found.visible, name, number + 1, &words, phrases);
            }
        }
    }
    Ok(found)
}

fn search_rust<'a>(name: &str, text: &str, phrases: &'a [Phrase<'a>], found: &mut Found<'a>) {
    let is_developers = DEVELOPERS.iter().any(|place| name.starts_with(place));
    let tests_begin = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    // Or a module of tests that is declared elsewhere.
    let is_test = name.contains("/tests/")
        || name.ends_with("/tests.rs")
        || text.find("#[test]").is_some_and(|at| at < tests_begin);
    for piece in rust::pieces(text) {
        let is_visible = piece.is_text && !is_developers && !is_test && piece.at < tests_begin;
        if is_visible {
            let line = text[..piece.at].matches('\n').count() + 1;
            report(&mut found.visible, name, line, piece.text, phrases);
            continue;
        }
        let plain = plain(piece.text);
        for phrase in phrases {
            let count = count(&plain, phrase.words);
            if count > 0 {
                *found.left.entry(phrase.words).or_default() += count;
                *found.by_file.entry(name.to_owned()).or_default() += count;
            }
        }
    }
}

fn report(list: &mut Vec<String>, name: &str, line: usize, text: &str, phrases: &[Phrase<'_>]) {
    // What users read has no names of code.
    let text = plain(&without_values(text).replace('_', "-"));
    let has = phrases.iter().filter(|phrase| count(&text, phrase.words) > 0);
    list.extend(
        has.map(|Phrase { words, instead }| format!("{name}:{line}: {words} (say: {instead})")),
    );
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

/// Counts how often a plain text has a phrase of whole words.
fn count(text: &str, phrase: &str) -> usize {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let ends = |at: usize| {
        is_word(text[..at].chars().next_back()) || is_word(text[at + phrase.len()..].chars().next())
    };
    text.match_indices(phrase).filter(|(at, _)| !ends(*at)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_whole_words_in_any_case_and_in_names() {
        let has = |text: &str, phrase| count(&plain(text), phrase);
        assert_eq!(has("Anew, anew and renewed", "anew"), 2);
        assert_eq!(has("fn it_is_none()", "it is none"), 1);
        assert_eq!(has("what it\n/// is none", "it is none"), 1);
        assert_eq!(has("it_is_nonexistent()", "it is none"), 0);
        assert_eq!(without_values("a {told} b {0}: {}, c"), "a  b : , c");
    }

    #[test]
    fn numbers_and_phrases_are_read_without_comments() {
        let text = "# head: 1\nlook over: scan\n";
        assert_eq!(phrases(text)[0].words, "look over");
        assert_eq!(numbers("# head: 1\nlook over: 3\n"), BTreeMap::from([("look over", 3)]));
    }
}
