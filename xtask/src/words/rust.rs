//! Splits Rust code into texts, comments and what is between them.

/// A part of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece<'t> {
    /// Where it begins, in bytes.
    pub(super) at: usize,
    /// With its quotation marks or slashes.
    pub(super) text: &'t str,
    /// Whether it is a string literal.
    pub(super) is_text: bool,
}

/// Returns the parts of a file in order. Comments that follow each other without code are one part.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut begin, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let length = if let Some(length) = literal(rest, text[..at].chars().next_back()) {
            pieces.push(Piece { at: begin, text: &text[begin..at], is_text: false });
            pieces.push(Piece { at, text: &rest[..length], is_text: true });
            begin = at + length;
            length
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with('\'') {
            character(rest)
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        at += length;
    }
    pieces.push(Piece { at: begin, text: &text[begin..], is_text: false });
    pieces.retain(|piece| !piece.text.is_empty());
    pieces
}

/// Returns the length of the string literal at the beginning, if there is one.
fn literal(rest: &str, before: Option<char>) -> Option<usize> {
    if let Some(inner) = rest.strip_prefix('"') {
        let mut is_escaped = false;
        let end = inner.find(|c| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        })?;
        return Some(end + 2);
    }
    // A raw one, and not the end of a name.
    if !rest.starts_with('r') || before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let marks = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
    let begin = 1 + marks;
    let end = format!("\"{}", "#".repeat(marks));
    let inner = rest.get(begin..)?.strip_prefix('"')?;
    Some(begin + 1 + inner.find(&end)? + end.len())
}

/// Returns the length of the character literal at the beginning, or 1 for a lifetime.
fn character(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((escaped, _))) => {
            rest[escaped + 1..].find('\'').map_or(1, |end| escaped + end + 2)
        }
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_separated_from_comments_and_characters() {
        let code = r##"let a = "x \" y"; // "no text"
let b = ('"', '\'', 'a', r#"raw " text"#); fn f<'a>(bar: &'a str) {}"##;
        let texts: Vec<&str> = pieces(code)
            .into_iter()
            .filter(|piece| piece.is_text)
            .map(|piece| piece.text)
            .collect();
        assert_eq!(texts, [r#""x \" y""#, r##"r#"raw " text"#"##]);
        assert_eq!(pieces(code).iter().map(|piece| piece.text).collect::<String>(), code);
    }
}
