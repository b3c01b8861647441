//! The words of a shell command that could name a file.
//!
//! No shell is asked. Quotes and escapes are removed, brace lists are expanded, and each expansion
//! (`$name`, `${…}`, `$(…)`) is replaced by [`ANY`]. What stands in quotes, in a substitution or in an
//! expansion is read as a command again. A word is returned whole and in parts, so that `PATH=a:b`,
//! `--file=@a` and `-fa` name `a`. Naming too much costs the user a question; naming too little lets a
//! change pass unseen.

use std::collections::BTreeMap;

use crate::commands::TooWide;

/// Stands for text that only the shell knows.
pub(super) const ANY: char = '\0';
/// Commands within commands are read to this depth.
const DEEPEST: usize = 8;
/// The most words of one command, in all their parts.
const MOST: usize = 4096;
/// The most words that one word with brace lists expands to.
const MOST_LISTS: usize = 256;
/// The longest path, in bytes (`PATH_MAX` in Linux).
const LONGEST: usize = 4096;
/// The most bytes that are read of one command, with all that is read more than once.
const MOST_BYTES: usize = 256 * 1024;

/// A command's words.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Words and parts of words that could name a file or a directory, each with the number of the
    /// word that it is a part of.
    pub(super) all: BTreeMap<String, usize>,
    count: usize,
    bytes: usize,
    /// Whether a program of the command picks the files that it executes.
    pub(super) picks_files: bool,
}

impl Words {
    /// Adds the words of a command.
    ///
    /// # Errors
    /// Returns an error if the command has too many words, or commands nested too deep.
    pub(super) fn add(&mut self, command: &str) -> Result<(), TooWide> {
        self.add_nested(command, 0)
    }

    fn add_nested(&mut self, command: &str, depth: usize) -> Result<(), TooWide> {
        self.bytes += command.len();
        if depth > DEEPEST || self.bytes > MOST_BYTES {
            return Err(TooWide);
        }
        for word in Lexer::new(command).words() {
            for nested in &word.nested {
                self.add_nested(nested, depth + 1)?;
            }
            if word.text != command && word.text.contains(is_special) {
                self.add_nested(&word.text, depth + 1)?;
            }
            if word.is_written {
                continue;
            }
            self.count += 1;
            self.picks_files |=
                ["run-parts", "xargs", "parallel", "-exec", "-execdir", "-ok", "-okdir"]
                    .contains(&word.text.rsplit('/').next().unwrap_or_default());
            for text in [&word.text, &word.expanded] {
                for text in without_lists(text)? {
                    self.add_parts(&text);
                }
            }
            if self.all.len() > MOST {
                return Err(TooWide);
            }
        }
        Ok(())
    }

    /// Adds a word as a whole, and what stands between characters that separate names in arguments.
    fn add_parts(&mut self, word: &str) {
        let separators: [&[char]; 4] = [
            &[],
            &['='],
            &['=', ':', ',', ';'],
            &['=', ':', ',', ';', '@', '+', '%', '#', '!', '^', '{', '}', '[', ']', ANY],
        ];
        for separators in separators {
            for part in word.split(separators) {
                let bare = part.trim_start_matches(['-', '+', '?', '@']);
                // A short option and its argument may be one word.
                let argument = part.strip_prefix('-').and_then(|rest| rest.get(1..));
                for part in [Some(part), Some(bare), argument].into_iter().flatten() {
                    let is_path =
                        part.len() < LONGEST && part.chars().any(|c| c != '/' && c != ANY);
                    if is_path {
                        self.all.entry(part.to_owned()).or_insert(self.count);
                    }
                }
            }
        }
    }
}

/// Returns whether a character could make a quoted word a command of its own.
fn is_special(c: char) -> bool {
    c.is_whitespace() || "\"'`;|&()<>$\\".contains(c)
}

/// Expands the brace lists of a word. A sequence (`{1..9}`) becomes `*`.
fn without_lists(word: &str) -> Result<Vec<String>, TooWide> {
    if word.len() >= LONGEST && word.contains('{') {
        return Err(TooWide);
    }
    let (mut open, mut done) = (vec![word.to_owned()], Vec::new());
    while let Some(word) = open.pop() {
        if open.len() + done.len() > MOST_LISTS {
            return Err(TooWide);
        }
        // The innermost list: the first brace that closes, and the last one that opens before it.
        let list = word.find('}').and_then(|end| Some((word[..end].rfind('{')?, end)));
        let Some((start, end)) = list else {
            done.push(word);
            continue;
        };
        let (before, within, after) = (&word[..start], &word[start + 1..end], &word[end + 1..]);
        if within.contains(',') {
            open.extend(within.split(',').map(|one| format!("{before}{one}{after}")));
        } else if within.contains("..") {
            open.push(format!("{before}*{after}"));
        } else {
            // No list: the braces are part of a name.
            done.push(word.clone());
        }
    }
    Ok(done)
}

/// A word of a command.
#[derive(Debug, Default)]
struct Word {
    /// Without quotes and escapes.
    text: String,
    /// The same, with [`ANY`] for each expansion.
    expanded: String,
    /// What stands in its expansions.
    nested: Vec<String>,
    /// Whether the command only writes there (`>name`, `tee name`).
    is_written: bool,
}

/// Splits a command into words, as a shell does (POSIX.1-2017, volume 3, 2.3).
struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    word: Word,
    words: Vec<Word>,
    /// The unquoted character before.
    last: Option<char>,
    /// Whether an output redirection waits for its file.
    writes: bool,
    /// Whether the words that follow are the files of `tee`.
    is_tee: bool,
}

impl<'a> Lexer<'a> {
    fn new(command: &'a str) -> Self {
        Self {
            rest: command.chars().peekable(),
            word: Word::default(),
            words: Vec::new(),
            last: None,
            writes: false,
            is_tee: false,
        }
    }

    fn words(mut self) -> Vec<Word> {
        while let Some(character) = self.rest.next() {
            let before = self.last.replace(character);
            match character {
                '\\' => self.escaped(),
                '\'' => self.quoted(),
                '"' => self.double_quoted(),
                '$' | '`' => self.expansion(character),
                // A pattern of ksh and bash: `@(a|b)`.
                '(' if before.is_some_and(|c| "@?*+!".contains(c)) => {
                    let inner = self.until(')');
                    self.word.expanded.pop();
                    self.any(inner);
                }
                c if c.is_whitespace() => self.end_word(),
                ';' | '|' | '&' | '(' | ')' | '<' | '>' => self.operator(character, before),
                c => self.push(c),
            }
        }
        self.end_word();
        self.words
    }

    fn operator(&mut self, character: char, before: Option<char>) {
        self.end_word();
        match character {
            // `>(cat)` runs a command; `>|` and `>&` are redirections.
            '(' => self.writes = false,
            '>' => self.writes = before != Some('<'),
            '|' | '&' if before == Some('>') => {}
            '<' => self.writes = false,
            _ => (self.writes, self.is_tee) = (false, false),
        }
    }

    fn push(&mut self, character: char) {
        self.word.text.push(character);
        self.word.expanded.push(character);
    }

    fn any(&mut self, inner: String) {
        self.word.expanded.push(ANY);
        self.word.nested.push(inner);
    }

    fn end_word(&mut self) {
        let mut word = std::mem::take(&mut self.word);
        if word.text.is_empty() && word.expanded.is_empty() {
            return;
        }
        word.is_written = std::mem::take(&mut self.writes)
            || self.is_tee && !word.text.starts_with('-') && !word.text.contains(is_special);
        self.is_tee |= word.text == "tee" || word.text.ends_with("/tee");
        self.words.push(word);
    }

    fn escaped(&mut self) {
        match self.rest.next() {
            // The line goes on.
            Some('\n') | None => {}
            Some(character) => self.push(character),
        }
    }

    fn quoted(&mut self) {
        for character in self.rest.by_ref().take_while(|c| *c != '\'') {
            self.word.text.push(character);
            self.word.expanded.push(character);
        }
    }

    fn double_quoted(&mut self) {
        while let Some(character) = self.rest.next() {
            match character {
                '"' => return,
                '\\' => self.escaped(),
                '$' | '`' => self.expansion(character),
                c => self.push(c),
            }
        }
    }

    /// Reads what follows `$`, or stands between backquotes.
    fn expansion(&mut self, start: char) {
        let next = self.rest.peek().copied();
        let (inner, shown) = match (start, next) {
            ('`', _) => {
                let inner = self.until('`');
                (inner.clone(), format!("`{inner}`"))
            }
            (_, Some(open @ ('(' | '{'))) => {
                self.rest.next();
                let close = if open == '(' { ')' } else { '}' };
                let inner = self.until(close);
                (inner.clone(), format!("${open}{inner}{close}"))
            }
            // ANSI-C and localised quotes: what they hold is read as plain text.
            (_, Some('\'' | '"')) => return,
            (_, Some(c)) if c.is_ascii_alphabetic() || c == '_' => {
                let mut name = String::new();
                while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                (String::new(), format!("${name}"))
            }
            (_, Some(c)) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                self.rest.next();
                (String::new(), format!("${c}"))
            }
            _ => return self.push(start),
        };
        self.word.text.push_str(&shown);
        self.any(inner);
    }

    /// Returns what comes before the character that closes an expansion.
    fn until(&mut self, close: char) -> String {
        let open = match close {
            ')' => Some('('),
            '}' => Some('{'),
            _ => None,
        };
        let (mut inner, mut depth, mut quote) = (String::new(), 0_usize, None);
        while let Some(character) = self.rest.next() {
            match (character, quote) {
                ('\\', None | Some('"')) => {
                    inner.push(character);
                    inner.extend(self.rest.next());
                    continue;
                }
                (c, Some(q)) if c == q => quote = None,
                (_, Some(_)) => {}
                ('\'' | '"', None) => quote = Some(character),
                (c, None) if c == close && depth == 0 => return inner,
                (c, None) if c == close => depth -= 1,
                (c, None) if Some(c) == open => depth += 1,
                _ => {}
            }
            inner.push(character);
        }
        inner
    }
}
