//! What in a text reads like an instruction to a model.
//!
//! The marks warn a reader. They decide nothing about trust: text of an entry is data, whether marked or not.

use std::fmt;

use pinfold_policy::path::{cut, is_plain};

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threat {
    pub kind: &'static str,
    /// How bad it would be.
    pub severity: &'static str,
    /// The text, shortened.
    pub found: String,
}

impl Threat {
    /// Returns what reads like an instruction in a text, or is not seen.
    #[must_use]
    pub fn all_in(text: &str) -> Vec<Self> {
        scan([text])
    }
}

impl fmt::Display for Threat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.kind, self.severity, self.found)
    }
}

/// Bytes of a text that is shown.
const LONGEST: usize = 80;

const OVERRIDE: &str = "instruction_override";
const ROLE: &str = "role_markup";
const EXFILTRATION: &str = "exfiltration";
const HIDDEN: &str = "hidden_text";

/// Phrases in lower case, with one space between words.
const PHRASES: [(&str, &str, &str); 22] = [
    (OVERRIDE, "high", "ignore previous instructions"),
    (OVERRIDE, "high", "ignore all previous instructions"),
    (OVERRIDE, "high", "ignore the above"),
    (OVERRIDE, "high", "ignore your instructions"),
    (OVERRIDE, "high", "disregard previous"),
    (OVERRIDE, "high", "disregard all previous"),
    (OVERRIDE, "high", "disregard the above"),
    (OVERRIDE, "high", "forget your instructions"),
    (OVERRIDE, "high", "forget everything above"),
    (OVERRIDE, "medium", "new instructions:"),
    (OVERRIDE, "medium", "you are now"),
    (OVERRIDE, "medium", "your new task is"),
    (OVERRIDE, "medium", "do not tell the user"),
    (OVERRIDE, "medium", "without telling the user"),
    (ROLE, "high", "<|im_start|>"),
    (ROLE, "high", "<|system|>"),
    (ROLE, "high", "[inst]"),
    (ROLE, "high", "<<sys>>"),
    (ROLE, "high", "</system>"),
    (ROLE, "medium", "<system>"),
    (EXFILTRATION, "high", "print your system prompt"),
    (EXFILTRATION, "high", "reveal your system prompt"),
];

/// Returns what is found in texts.
pub(crate) fn scan<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<Threat> {
    let mut threats: Vec<Threat> = Vec::new();
    for text in texts {
        let normal = normal(text);
        for (kind, severity, phrase) in PHRASES {
            if normal.contains(phrase) && !threats.iter().any(|threat| threat.found == phrase) {
                threats.push(Threat { kind, severity, found: phrase.to_owned() });
            }
        }
        if let Some(hidden) = text.chars().find(|letter| is_hidden(*letter))
            && !threats.iter().any(|threat| threat.kind == HIDDEN)
        {
            let found = cut(&hidden.escape_unicode().to_string(), LONGEST).into_owned();
            threats.push(Threat { kind: HIDDEN, severity: "medium", found });
        }
    }
    threats
}

/// Returns the kind and severity that a stored threat has.
pub(crate) fn known(kind: &str, severity: &str) -> Option<(&'static str, &'static str)> {
    let kinds = PHRASES.into_iter().map(|(kind, severity, _)| (kind, severity));
    kinds.chain([(HIDDEN, "medium")]).find(|known| *known == (kind, severity))
}

/// Returns whether a reader of the text does not see the character: controls of terminals and of the
/// direction of text, and what is not drawn. Variation selectors, which are part of pictures, are
/// nothing to hide.
fn is_hidden(letter: char) -> bool {
    let is_blank = letter.is_whitespace();
    let is_picture = matches!(letter, '\u{fe00}'..='\u{fe0f}' | '\u{200d}');
    !is_plain(letter) && !is_blank && !is_picture
}

/// Returns a text in lower case without characters that are not seen, and with one space for blanks.
fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_whitespace() {
            if !normal.ends_with(' ') {
                normal.push(' ');
            }
        } else if is_plain(letter) {
            normal.extend(letter.to_lowercase());
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::scan;

    fn kinds(text: &str) -> Vec<&'static str> {
        scan([text]).into_iter().map(|threat| threat.kind).collect()
    }

    #[test]
    fn instructions_to_a_model_are_marked_however_they_are_written() {
        assert_eq!(kinds("Please IGNORE\n previous   instructions."), ["instruction_override"]);
        assert_eq!(
            kinds("ignore previous in\u{200b}structions"),
            ["instruction_override", "hidden_text"]
        );
        assert_eq!(kinds("x <|im_start|>system"), ["role_markup"]);
        assert_eq!(kinds("a\u{1b}[2Jb"), ["hidden_text"]);
        assert_eq!(kinds("\u{e0041}\u{202e}"), ["hidden_text"]);
    }

    #[test]
    fn ordinary_text_is_not_marked() {
        assert_eq!(
            kinds("# Title\n\tThe `previous` instructions were fine ❤\u{fe0f}\r\n"),
            [""; 0]
        );
    }
}
