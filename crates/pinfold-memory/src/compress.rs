//! How large a text is for a model, and shorter texts in its place.

use crate::pack::CompressionLevel;

/// Tokens of a text's keywords at most.
const MOST_KEYWORD_TOKENS: u64 = 30;

/// Returns about how many tokens a text has: four for three words.
pub(crate) fn tokens(text: &str) -> u64 {
    of_words(text.split_whitespace().count() as u64)
}

fn of_words(words: u64) -> u64 {
    (words * 4).div_ceil(3)
}

/// Returns a text at a level.
pub(crate) fn compress(text: &str, level: CompressionLevel) -> String {
    match level {
        CompressionLevel::Full => text.to_owned(),
        CompressionLevel::Summary => summary(text),
        CompressionLevel::Keywords => keywords(text),
    }
}

/// Returns the sentences that say most: early ones and long ones, in their order.
fn summary(text: &str) -> String {
    let sentences = sentences(text);
    let count = sentences.len();
    if count <= 2 {
        return text.to_owned();
    }
    let score = |at: usize| {
        // JavaScript's length is in units of UTF-16.
        let length = sentences[at].encode_utf16().count() as f64;
        1.0 - at as f64 / count as f64 + (length / 200.0).min(1.0)
    };
    let mut best: Vec<(usize, f64)> = (0..count).map(|at| (at, score(at))).collect();
    // Equal ones stay in their order.
    best.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    best.truncate((count as f64 * 0.3).ceil() as usize);
    best.sort_by_key(|(at, _)| *at);
    best.iter().map(|(at, _)| sentences[*at]).collect::<Vec<_>>().join(" ")
}

/// Returns the sentences of a text: each ends with `.`, `!` or `?` before a blank.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let (mut begin, mut before) = (0, None);
    for (at, letter) in text.char_indices() {
        if letter.is_whitespace() && matches!(before, Some('.' | '!' | '?')) {
            sentences.push(&text[begin..at]);
            begin = at;
        }
        before = Some(letter);
    }
    sentences.push(&text[begin..]);
    sentences.into_iter().map(str::trim).filter(|sentence| !sentence.is_empty()).collect()
}

/// Returns the words that say most: long ones, and those with a digit or an inner capital, each once.
fn keywords(text: &str) -> String {
    let mut seen: Vec<String> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    for raw in text.split_whitespace() {
        let is_part = |letter: &char| letter.is_ascii_alphanumeric() || "_./-".contains(*letter);
        let word: String = raw.chars().filter(is_part).collect();
        let key = word.to_ascii_lowercase();
        let is_kept = word.len() >= 4 || has_inner_capital(&word) || has_digit(&word);
        if !is_kept || seen.contains(&key) || of_words(words.len() as u64 + 1) > MOST_KEYWORD_TOKENS
        {
            continue;
        }
        seen.push(key);
        words.push(word);
    }
    words.join(" ")
}

fn has_digit(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_digit())
}

fn has_inner_capital(word: &str) -> bool {
    let is_inner = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    word.as_bytes().windows(2).any(is_inner)
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
