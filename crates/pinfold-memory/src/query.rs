//! Queries as a search engine's users write them, made expressions of FTS5.
//!
//! Words are all wanted, `"a phrase"` as it stands, `-word` not at all, and `or` gives a choice (PostgreSQL's
//! `websearch_to_tsquery`). Every word becomes a quoted string, so nothing of a query is syntax of FTS5.

use std::collections::HashSet;
use std::sync::OnceLock;

/// What marks begin with: a character of private use, which the index takes as a letter. No word of a text or query has it.
/// A column of its own for marks would have the index look at the places of each word.
pub(crate) const MARK: char = '\u{e000}';

/// One word or phrase of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    text: String,
    is_phrase: bool,
    is_negated: bool,
}

/// Marks that found entries have.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// All of them.
    pub(crate) all: Vec<String>,
    /// One of them, if there are any.
    pub(crate) one_of: Vec<String>,
    /// None of them.
    pub(crate) none: Vec<String>,
}

/// Returns the expression of a query, or none if it has no word.
pub(crate) fn expression(query: &str, marks: &Marks) -> Option<String> {
    let groups: Vec<String> = groups(query).iter().filter_map(|group| of_group(group)).collect();
    if groups.is_empty() {
        return None;
    }
    let mut parts = vec![format!("({})", groups.join(" OR "))];
    let of_marks = |marks: &[String]| -> Vec<String> {
        marks.iter().map(|mark| format!("\"{mark}\"")).collect()
    };
    parts.extend(of_marks(&marks.all));
    if !marks.one_of.is_empty() {
        parts.push(format!("({})", of_marks(&marks.one_of).join(" OR ")));
    }
    let wanted = parts.join(" AND ");
    Some(if marks.none.is_empty() {
        wanted
    } else {
        format!("({wanted}) NOT ({})", of_marks(&marks.none).join(" OR "))
    })
}

/// Returns how many words a query has, of those that are asked for twice one.
pub(crate) fn words(query: &str) -> usize {
    let of_text = |text: &str| {
        text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).count()
    };
    groups(query).iter().flatten().map(|term| of_text(&term.text)).sum()
}

fn of_group(terms: &[Term]) -> Option<String> {
    let of = |is_negated: bool| -> Vec<String> {
        let terms = terms.iter().filter(|term| term.is_negated == is_negated);
        terms.map(|term| quoted(&term.text)).collect()
    };
    let (wanted, unwanted) = (of(false), of(true));
    let wanted = match (wanted.is_empty(), unwanted.is_empty()) {
        (true, true) => return None,
        (true, false) => format!("\"{}\"", every()),
        (false, _) => wanted.join(" AND "),
    };
    // One NOT with a choice: FTS5 bounds the depth of an expression.
    Some(if unwanted.is_empty() {
        format!("({wanted})")
    } else {
        format!("(({wanted}) NOT ({}))", unwanted.join(" OR "))
    })
}

/// Returns the choices of a query, each with its terms. Words that every text has are left out where there are others.
fn groups(query: &str) -> Vec<Vec<Term>> {
    let mut groups = vec![Vec::new()];
    for term in terms(query) {
        if term.text.eq_ignore_ascii_case("or") && !term.is_phrase && !term.is_negated {
            groups.push(Vec::new());
        } else if let Some(group) = groups.last_mut()
            && !group.contains(&term)
        {
            group.push(term);
        }
    }
    let is_common =
        |term: &Term| !term.is_phrase && stop_words().contains(&*term.text.to_lowercase());
    // What is asked for twice costs its square and finds nothing more.
    let mut unique: Vec<Vec<Term>> = Vec::new();
    for group in groups {
        if !unique.contains(&group) {
            unique.push(group);
        }
    }
    let mut groups = unique;
    if groups.iter().flatten().any(|term| !is_common(term)) {
        for group in &mut groups {
            group.retain(|term| !is_common(term));
        }
    }
    groups
}

/// Returns the terms of a query. A phrase that nobody closes reaches to the end.
fn terms(query: &str) -> Vec<Term> {
    let mut terms = Vec::new();
    let mut rest = query;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return terms;
        }
        let (is_negated, body) = match rest.strip_prefix('-') {
            Some(body) => (true, body),
            None => (false, rest),
        };
        let (text, is_phrase, after) = match body.strip_prefix('"') {
            Some(body) => {
                let (text, after) = body.split_once('"').unwrap_or((body, ""));
                (text, true, after)
            }
            None => {
                let end = body.find(|letter: char| letter.is_whitespace() || letter == '"');
                let (text, after) = body.split_at(end.unwrap_or(body.len()));
                (text, false, after)
            }
        };
        rest = after;
        // What the tokenizer finds no word in would match nothing.
        if text.chars().any(char::is_alphanumeric) {
            terms.push(Term { text: text.to_owned(), is_phrase, is_negated });
        }
    }
}

/// Returns a string of FTS5. A NUL would end the expression, and other controls are no words.
fn quoted(text: &str) -> String {
    format!("\"{}\"", without_marks(text).replace('"', "\"\""))
}

/// Returns a text as it is searched: without marks and controls.
pub(crate) fn without_marks(text: &str) -> String {
    let is_blank = |letter: char| letter == MARK || letter.is_control();
    text.chars().map(|letter| if is_blank(letter) { ' ' } else { letter }).collect()
}

/// Returns the mark of every entry.
pub(crate) fn every() -> String {
    format!("{MARK}e0")
}

fn stop_words() -> &'static HashSet<&'static str> {
    static WORDS: OnceLock<HashSet<&str>> = OnceLock::new();
    WORDS.get_or_init(|| include_str!("../data/stop-words.txt").split_whitespace().collect())
}

#[cfg(test)]
mod tests {
    use super::{MARK, Marks, expression};

    fn of(query: &str) -> Option<String> {
        expression(query, &Marks::default())
    }

    #[test]
    fn words_phrases_choices_and_negations_become_operators() {
        for (query, expected) in [
            ("disk full", r#"(("disk" AND "full"))"#),
            (r#""disk is full" error"#, r#"(("disk is full" AND "error"))"#),
            ("disk or memory full", r#"(("disk") OR ("memory" AND "full"))"#),
            ("disk -full -\"a b\"", r#"((("disk") NOT ("full" OR "a b")))"#),
            ("-full", "(((\"\u{e000}e0\") NOT (\"full\")))"),
            ("why is the disk full", r#"(("disk" AND "full"))"#),
            // Nothing else is there to search for.
            ("who is who", r#"(("who" AND "is"))"#),
            ("disk disk or disk", r#"(("disk"))"#),
            (r#"a"b"c"#, r#"(("b" AND "c"))"#),
            (r#"unclosed "phrase of"#, r#"(("unclosed" AND "phrase of"))"#),
        ] {
            assert_eq!(of(query).as_deref(), Some(expected), "{query}");
        }
        for query in ["", "  ", "\"\"", "- -- \"!?\"", "or OR"] {
            assert_eq!(of(query), None, "{query}");
        }
    }

    #[test]
    fn words_are_counted_as_the_index_has_them() {
        for (query, count) in [("a,b;c \"d e\" -f or g", 7), ("x x x or x", 1), ("- \"\"", 0)] {
            assert_eq!(super::words(query), count, "{query}");
        }
    }

    #[test]
    fn syntax_of_the_index_is_quoted() {
        let query = "content:x NEAR(a, 3) x* ^y a\0b AND";
        let expected =
            r#"(("content:x" AND "NEAR(a," AND "3)" AND "x*" AND "^y" AND "a b" AND "AND"))"#;
        // "AND" is a common word of English like any other.
        assert_eq!(of(query).as_deref(), Some(&*expected.replace(" AND \"AND\"", "")));
    }

    #[test]
    fn marks_are_not_words_of_the_query() {
        let mark = |name: &str| format!("{MARK}{name}");
        let marks = Marks {
            all: vec![mark("t1")],
            one_of: vec![mark("k1"), mark("k2")],
            none: vec![mark("t2")],
        };
        let query = format!("t3 {}", mark("t4"));
        assert_eq!(
            expression(&query, &marks).unwrap().replace(MARK, "_"),
            r#"((("t3" AND " t4")) AND "_t1" AND ("_k1" OR "_k2")) NOT ("_t2")"#
        );
    }
}
