//! States that are words: in the store, on the command line and in messages.

/// The error for a word that is not one of the known ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} \"{}\"; known: {}", .word.escape_debug(), .known.join(", "))]
pub struct UnknownWord {
    /// What the word was to name.
    pub what: &'static str,
    pub word: String,
    /// The words that are known.
    pub known: &'static [&'static str],
}

/// Defines an enum whose variants are words.
macro_rules! words {
    (
        $(#[$doc:meta])* $name:ident, $what:literal:
        $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every word.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            /// Returns the word.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::UnknownWord {
                        what: $what,
                        word: word.to_owned(),
                        known: Self::WORDS,
                    }),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

pub(crate) use words;
