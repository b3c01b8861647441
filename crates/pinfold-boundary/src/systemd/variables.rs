//! Files with variables, in the form that systemd reads (systemd.exec(5), `EnvironmentFile=`).

/// Reads a file's variables, in their order.
///
/// # Errors
/// Returns the number of a line that holds none. What it holds may be a secret.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut variables = Vec::new();
    let mut lines = text.split('\n').enumerate();
    while let Some((number, line)) = lines.next() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or(number + 1)?;
        let name = name.trim_end();
        if !is_name(name) {
            return Err(number + 1);
        }
        let mut value = value.trim_start().to_owned();
        let mut read = unquoted(&value);
        // A backslash at the end, or a quote that is still open, goes on in the next line.
        while let Err(joined) = read {
            let (_, next) = lines.next().ok_or(number + 1)?;
            value = joined + next;
            read = unquoted(&value);
        }
        let value = read.unwrap_or_default();
        if value.contains('\0') {
            return Err(number + 1);
        }
        variables.push((name.to_owned(), value));
    }
    Ok(variables)
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_letter) && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Returns a value without its quotes, or what is to be put before the next line.
fn unquoted(text: &str) -> Result<String, String> {
    let (mut value, mut quote, mut kept) = (String::new(), None, 0);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', None | Some('"')) => match letters.next() {
                None => return Err(text.strip_suffix('\\').unwrap_or(text).to_owned()),
                Some(next) => {
                    let is_kept = quote.is_some() && !['"', '\\', '`', '$'].contains(&next);
                    value.extend(is_kept.then_some('\\').into_iter().chain([next]));
                    kept = value.len();
                }
            },
            (letter, Some(open)) if letter == open => quote = None,
            (letter, Some(_)) => {
                value.push(letter);
                kept = value.len();
            }
            ('"' | '\'', None) => {
                quote = Some(letter);
                kept = value.len();
            }
            (letter, None) => {
                value.push(letter);
                if !letter.is_whitespace() {
                    kept = value.len();
                }
            }
        }
    }
    if quote.is_some() {
        return Err(format!("{text}\n"));
    }
    // Blanks at the end count only in quotes.
    value.truncate(kept);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn values_are_read_as_systemd_reads_them() {
        let text = "# a comment\n; another\n\nA=1\n B = two words  \nC=\"a \\\"b\\\" \\n $x \"\nD='it is \\ '\n\
                    E=one\\\n  two\nF=\"first\nsecond\"\nG=\nH=a\\ b\nI='a'\"b\"c\n";
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "a \"b\" \\n $x "),
            ("D", "it is \\ "),
            ("E", "one  two"),
            ("F", "first\nsecond"),
            ("G", ""),
            ("H", "a b"),
            ("I", "abc"),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[test]
    fn line_that_holds_no_variable_is_named_by_its_number_alone() {
        for (text, line) in
            [("A=1\nsecret", 2), ("=x", 1), ("1A=x", 1), ("A-B=x", 1), ("\nA=\"x", 2), ("A=x\\", 1)]
        {
            assert_eq!(parse(text), Err(line), "{text:?}");
        }
    }
}
