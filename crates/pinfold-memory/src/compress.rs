//! The size of texts in tokens, and the shorter forms of an entry that fit a budget (MoltNet's packs).

use std::collections::HashSet;

use crate::pack::CompressionLevel;

/// The most tokens of the keywords of a text.
const KEYWORD_BUDGET: u64 = 30;
/// The length of a sentence, in units of UTF-16, from which on it counts no more.
const LONG_SENTENCE: usize = 200;

/// Returns an estimate of the tokens of a text: three words have four.
pub(crate) fn tokens(text: &str) -> u64 {
    tokens_of_words(text.split_whitespace().count())
}

fn tokens_of_words(count: usize) -> u64 {
    (4 * count as u64).div_ceil(3)
}

/// Returns the form of a text that a level stands for.
pub(crate) fn compress(text: &str, level: CompressionLevel) -> String {
    match level {
        CompressionLevel::Full => text.to_owned(),
        CompressionLevel::Summary => summary(text),
        CompressionLevel::Keywords => keywords(text),
    }
}

/// Returns three tenths of a text's sentences, rounded up, in their order. Early and long ones win; texts of two
/// sentences stay.
fn summary(text: &str) -> String {
    let sentences = sentences(text);
    let total = sentences.len();
    if total <= 2 {
        return text.to_owned();
    }
    let weight = |index: usize| {
        let length = sentences[index].encode_utf16().count().min(LONG_SENTENCE);
        1.0 - index as f64 / total as f64 + length as f64 / LONG_SENTENCE as f64
    };
    let mut order: Vec<usize> = (0..total).collect();
    // A stable sort: of equal sentences the earlier one wins.
    order.sort_by(|one, other| weight(*other).total_cmp(&weight(*one)));
    let mut kept = order[..(3 * total).div_ceil(10)].to_vec();
    kept.sort_unstable();
    kept.into_iter().map(|index| sentences[index]).collect::<Vec<_>>().join(" ")
}

/// Returns the sentences of a text. One ends at white space that follows `.`, `!` or `?`.
fn sentences(text: &str) -> Vec<&str> {
    let is_end = |index: usize| text[..index].ends_with(['.', '!', '?']);
    let spaces = text.match_indices(char::is_whitespace).map(|(index, _)| index);
    let mut start = 0;
    let mut found = Vec::new();
    for end in spaces.filter(|index| is_end(*index)).chain([text.len()]) {
        found.push(text[start..end].trim());
        start = end;
    }
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// Returns the telling words of a text once each, as many as fit: names, numbers and words of four letters or more.
fn keywords(text: &str) -> String {
    let mut seen = HashSet::new();
    let mut kept: Vec<String> = Vec::new();
    for word in text.split_whitespace().map(stripped).filter(|word| is_telling(word)) {
        let fits = tokens_of_words(kept.len() + 1) <= KEYWORD_BUDGET;
        if fits && seen.insert(word.to_ascii_lowercase()) {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// Returns a word without what is neither a letter or digit of ASCII nor one of `_./-`.
fn stripped(word: &str) -> String {
    word.replace(|letter: char| !letter.is_ascii_alphanumeric() && !"_./-".contains(letter), "")
}

fn is_telling(word: &str) -> bool {
    let letters = word.as_bytes();
    let is_hump = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    letters.len() >= 4 || letters.iter().any(u8::is_ascii_digit) || letters.windows(2).any(is_hump)
}

#[cfg(test)]
mod tests {
    use super::{compress, tokens};
    use crate::pack::CompressionLevel::{Full, Keywords, Summary};

    #[test]
    fn tokens_are_four_for_three_words() {
        let counts = ["", "one", "one two three", " a\n b\tc d "].map(tokens);
        assert_eq!(counts, [0, 2, 4, 6]);
    }

    #[test]
    fn summary_keeps_early_and_long_sentences_in_their_order() {
        let text = "First. Second! Third? A fourth sentence that is much longer than the others, by far. Fifth.";
        // Two of five: ceil(1.5). The fourth has 0.4 for its place and 0.35 for its length.
        assert_eq!(compress(text, Summary), "First. Second!");
        assert_eq!(compress("One. Two.", Summary), "One. Two.");
        assert_eq!(compress("a.b c.d e", Summary), "a.b c.d e");
        let long = format!("One. Two. Three. {}.", "x".repeat(200));
        assert_eq!(compress(&long, Summary), format!("One. {}.", "x".repeat(200)));
        assert_eq!(compress(text, Full), text);
    }

    #[test]
    fn keywords_are_long_words_names_and_numbers_once() {
        let text = "Use the `SqliteStore` in src/store.rs, not aB or v2; the sqlitestore. été";
        assert_eq!(compress(text, Keywords), "SqliteStore src/store.rs aB v2 sqlitestore.");
        let many: Vec<String> = (0..100).map(|number| format!("word{number}")).collect();
        assert_eq!(compress(&many.join(" "), Keywords).split(' ').count(), 22);
    }
}
