//! Files with variables, in the form that systemd reads (systemd.exec(5), `EnvironmentFile=`).

use std::str::Chars;

/// Reads a file's variables, in their order.
///
/// # Errors
/// Returns the number of a line that holds none. What it holds may be a secret.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut reader = Reader { letters: text.chars(), line: 1 };
    let mut variables = Vec::new();
    loop {
        let line = reader.line;
        match reader.next() {
            None => return Ok(variables),
            Some(letter) if letter.is_ascii_whitespace() => {}
            Some('#' | ';') => reader.skip_comment(),
            Some(first) => {
                let name = reader.name(first).ok_or(line)?;
                let value = reader.value().filter(|value| !value.contains('\0')).ok_or(line)?;
                variables.push((name, value));
            }
        }
    }
}

struct Reader<'a> {
    letters: Chars<'a>,
    line: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let letter = self.letters.next();
        self.line += usize::from(letter == Some('\n'));
        letter
    }

    fn skip_comment(&mut self) {
        while self.next().is_some_and(|letter| !ends_a_line(letter)) {}
    }

    /// Reads a name, whose first letter is given, and the equals sign after it.
    fn name(&mut self, first: char) -> Option<String> {
        let mut name = String::from(first);
        loop {
            match self.next()? {
                '=' => break,
                letter if ends_a_line(letter) => return None,
                letter => name.push(letter),
            }
        }
        name.truncate(name.trim_ascii_end().len());
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_name = name.bytes().all(is_letter) && !first.is_ascii_digit() && !name.is_empty();
        is_name.then_some(name)
    }

    /// Reads a value to the end of its line, as systemd's `parse_env_file_internal` does. Quotes are quotes only where
    /// nothing but quoted parts came before them: a key may have some in its middle. Returns nothing if one stays open.
    fn value(&mut self) -> Option<String> {
        // Blanks at the end count only if they are quoted or escaped.
        let (mut value, mut kept, mut is_quotable) = (String::new(), 0, true);
        loop {
            match self.next() {
                None => break,
                Some(letter) if ends_a_line(letter) => break,
                Some('\'') if is_quotable => {
                    self.single_quoted(&mut value)?;
                    kept = value.len();
                }
                Some('"') if is_quotable => {
                    self.double_quoted(&mut value)?;
                    kept = value.len();
                }
                Some(' ' | '\t') if is_quotable => {}
                Some('\\') => {
                    is_quotable = false;
                    // Of a line that goes on, nothing of the break is left.
                    value.extend(Some(self.next()?).filter(|letter| !ends_a_line(*letter)));
                    kept = value.len();
                }
                Some(letter) => {
                    is_quotable = false;
                    value.push(letter);
                    if !letter.is_ascii_whitespace() {
                        kept = value.len();
                    }
                }
            }
        }
        value.truncate(kept);
        Some(value)
    }

    fn single_quoted(&mut self, value: &mut String) -> Option<()> {
        loop {
            match self.next()? {
                '\'' => return Some(()),
                letter => value.push(letter),
            }
        }
    }

    fn double_quoted(&mut self, value: &mut String) -> Option<()> {
        loop {
            match self.next()? {
                '"' => return Some(()),
                '\\' => match self.next()? {
                    '\n' => {}
                    letter @ ('"' | '\\' | '`' | '$') => value.push(letter),
                    letter => value.extend(['\\', letter]),
                },
                letter => value.push(letter),
            }
        }
    }
}

fn ends_a_line(letter: char) -> bool {
    letter == '\n' || letter == '\r'
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn values_are_read_as_systemd_reads_them() {
        let text = "# a comment\n; another\n\nA=1\n B = two words  \nC=\"a \\\"b\\\" \\n $x \"\nD='it is \\ '\n\
                    E=one\\\n  two\nF=\"first\nsecond\"\nG=\nH=a\\ b\nI='a'\"b\"c\n\
                    J=it's \"x\" 'y'\nK=that's\nL= 'a'\\\"b'\r\n";
        let expected: Vec<_> = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "a \"b\" \\n $x "),
            ("D", "it is \\ "),
            ("E", "one  two"),
            ("F", "first\nsecond"),
            ("G", ""),
            ("H", "a b"),
            ("I", "abc"),
            ("J", "it's \"x\" 'y'"),
            ("K", "that's"),
            ("L", "a\"b'"),
        ]
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
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
