//! One spelling for names that a file system that folds case takes for the same.

use std::borrow::Cow;

/// A name in the spelling of [`fold`], for questions that are asked of every name in a workspace.
#[derive(Debug)]
pub struct Folded<'n>(pub(super) Cow<'n, [u8]>);

impl<'n> Folded<'n> {
    /// Folds a name.
    #[must_use]
    pub fn of(name: &'n [u8]) -> Self {
        Self(fold(name))
    }
}

/// Returns a name in the one spelling that the rules are written in.
///
/// ASCII letters become small. Beyond ASCII, the characters that ext4 and f2fs drop or fold to
/// ASCII letters in a directory that folds case (`utf8_casefold()` of Linux, NFDICF) are dropped
/// or folded as well. What is no UTF-8 stays as it is apart from ASCII letters.
#[must_use]
pub fn fold(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.iter().any(|byte| byte.is_ascii_uppercase() || *byte >= 0x80) {
        return Cow::Borrowed(name);
    }
    if name.is_ascii() {
        return Cow::Owned(name.to_ascii_lowercase());
    }
    let Ok(text) = std::str::from_utf8(name) else { return Cow::Owned(name.to_ascii_lowercase()) };
    let folded: String = text.chars().filter(|it| !is_ignorable(*it)).flat_map(small).collect();
    Cow::Owned(folded.into_bytes())
}

/// Returns the long s folds to an s, which `to_lowercase` does not do. It does turn the Kelvin sign into
/// a k.
fn small(character: char) -> impl Iterator<Item = char> {
    let character = if character == '\u{17f}' { 's' } else { character };
    character.to_lowercase()
}

/// Returns whether a character has the property `Default_Ignorable_Code_Point` (Unicode 12.1, the
/// version of Linux).
fn is_ignorable(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}
