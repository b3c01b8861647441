//! `hostExec`: which commands the host runs for the sandbox without asking.

use std::fmt;

/// An entry of `hostExec.autoApprove`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AutoApprove {
    /// Every executable of the user's list, with any arguments.
    All,
    /// What the rule allows.
    Rule(ApprovalRule),
}

impl AutoApprove {
    /// Returns whether a command of an executable that is on the list is allowed by this; see
    /// [`ApprovalRule::allows`].
    #[must_use]
    pub fn allows(&self, executable: &[u8], args: &[Vec<u8>], amounts_to: &[&str]) -> bool {
        match self {
            Self::All => true,
            Self::Rule(rule) => rule.allows(executable, args, amounts_to),
        }
    }
}

/// Returns whether this can be the name of an executable: letters, digits, `.`, `_` and `-`, and neither
/// a dash nor a dot at the beginning. Other names are not searched for in `PATH`.
#[must_use]
pub fn is_executable(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && name.bytes().all(is_part)
}

impl fmt::Display for AutoApprove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("every executable of your list"),
            Self::Rule(rule) => rule.fmt(f),
        }
    }
}

/// A rule for commands of one executable. One that names nothing else allows all its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRule {
    /// The executable's name, which must be on the user's list.
    pub executable: String,
    /// All of its arguments, where no others are allowed.
    pub args: Option<Vec<String>>,
    /// The first arguments, in this order.
    pub prefix: Vec<String>,
    /// Arguments that must be there, anywhere and in any order.
    pub contains: Vec<String>,
    /// Arguments that must not be there; they are looked for first.
    pub excludes: Vec<String>,
}

impl ApprovalRule {
    /// Returns whether a command is allowed: what is excluded is looked for first.
    ///
    /// An option that is excluded (`--force`) is so with a value, too (`--force=x`); one of a letter
    /// (`-f`) also among others and with a value behind it (`-uf`, `-fx`). So is what the command
    /// comes to, in whatever words: `amounts_to` are the options that would say it.
    #[must_use]
    pub fn allows(&self, executable: &[u8], args: &[Vec<u8>], amounts_to: &[&str]) -> bool {
        let is = |one: &String, arg: &[u8]| one.as_bytes() == arg;
        let has_value = |one: &String, arg: &[u8]| {
            one.starts_with("--")
                && arg.strip_prefix(one.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
        };
        // A letter in the value of another option excludes, too: that is the safe way to be wrong.
        let has_letter = |one: &String, arg: &[u8]| match (one.as_bytes(), arg) {
            ([b'-', letter], [b'-', first, rest @ ..]) if *first != b'-' => {
                first == letter || rest.contains(letter)
            }
            _ => false,
        };
        let is_excluded = |arg: &Vec<u8>| {
            let excludes =
                |one: &String| is(one, arg) || has_value(one, arg) || has_letter(one, arg);
            self.excludes.iter().any(excludes)
        };
        let comes_to_it = |one: &String| amounts_to.contains(&one.as_str());
        let is_whole = self.args.as_ref().is_none_or(|whole| {
            whole.len() == args.len() && whole.iter().zip(args).all(|(one, arg)| is(one, arg))
        });
        let begins = args.len() >= self.prefix.len()
            && self.prefix.iter().zip(args).all(|(one, arg)| is(one, arg));
        let has = |one: &String| args.iter().any(|arg| is(one, arg));
        !args.iter().any(is_excluded)
            && !self.excludes.iter().any(comes_to_it)
            && is_whole
            && is(&self.executable, executable)
            && begins
            && self.contains.iter().all(has)
    }
}

impl fmt::Display for ApprovalRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.executable)?;
        for argument in self.args.as_ref().unwrap_or(&self.prefix) {
            write!(f, " {}", argument.escape_debug())?;
        }
        if self.args.is_none() {
            f.write_str(" …")?;
        }
        for (word, arguments) in [(" with ", &self.contains), (" without ", &self.excludes)] {
            if let Some((first, rest)) = arguments.split_first() {
                write!(f, "{word}{}", first.escape_debug())?;
                for argument in rest {
                    write!(f, ", {}", argument.escape_debug())?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
