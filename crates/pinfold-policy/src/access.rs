//! What may be done with a file: the audit words of requirement 7.1.

use std::fmt;

bitflags::bitflags! {
    /// A set of accesses. Each bit has one word, used alike in settings, decisions and audit.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Access: u8 {
        /// Read a file's content, or a symbolic link's target.
        const READ = 1;
        /// Create a file, change its content, or change its mode, owner, times and attributes.
        const WRITE = 1 << 1;
        /// Run a file as a program.
        const EXECUTE = 1 << 2;
        /// Remove a name.
        const DELETE = 1 << 3;
        /// See the names in a directory.
        const LIST = 1 << 4;
        /// Give a file another name or directory.
        const MOVE = 1 << 5;
        /// Watch for changes (inotify(7), fanotify(7)).
        const WATCH = 1 << 6;
        /// See a file's kind, size, mode, owner and times (stat(2)). Changing them is `WRITE`.
        const METADATA = 1 << 7;
    }
}

/// Every access with its word, in the order in which they are shown.
const WORDS: [(Access, &str); 8] = [
    (Access::READ, "read"),
    (Access::WRITE, "write"),
    (Access::EXECUTE, "execute"),
    (Access::DELETE, "delete"),
    (Access::LIST, "list"),
    (Access::MOVE, "move"),
    (Access::WATCH, "watch"),
    (Access::METADATA, "metadata"),
];

impl Access {
    /// See and run, change nothing.
    pub const READ_ONLY: Self =
        Self::READ.union(Self::EXECUTE).union(Self::LIST).union(Self::WATCH).union(Self::METADATA);

    /// Every access.
    pub const FULL: Self = Self::all();

    /// The accesses that change the host.
    pub const CHANGING: Self = Self::WRITE.union(Self::DELETE).union(Self::MOVE);

    /// What a directory allows that exists only because a grant lies below it. A process that may
    /// list it may watch it: inotify(7) asks for no more.
    pub const SYNTHETIC: Self = Self::LIST.union(Self::WATCH).union(Self::METADATA);

    /// The accesses that concern a name rather than what it leads to: a symbolic link as the
    /// last component is not followed for them (rename(2), unlink(2)).
    pub const OF_THE_NAME: Self = Self::DELETE.union(Self::MOVE);

    /// Returns the word of each access in the set.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        WORDS.into_iter().filter(move |(bit, _)| self.contains(*bit)).map(|(_, word)| word)
    }

    /// Returns the access a word stands for.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        WORDS.into_iter().find(|(_, known)| *known == word).map(|(bit, _)| bit)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        for (position, word) in self.words().enumerate() {
            if position > 0 {
                f.write_str(", ")?;
            }
            f.write_str(word)?;
        }
        Ok(())
    }
}

impl serde::Serialize for Access {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.words())
    }
}

#[cfg(test)]
mod tests;
