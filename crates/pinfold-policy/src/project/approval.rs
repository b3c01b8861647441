//! `hostExec`: which commands the host runs for the inside without asking.

use std::fmt;

/// An entry of `hostExec.autoApprove`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AutoApprove {
    /// Every executable of the user's list, with any arguments.
    All,
    /// What the rule allows.
    Rule(ApprovalRule),
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
    /// The first arguments, in this order.
    pub prefix: Vec<String>,
    /// Arguments that must be there, anywhere and in any order.
    pub contains: Vec<String>,
    /// Arguments that must not be there; they are looked for first.
    pub excludes: Vec<String>,
}

impl fmt::Display for ApprovalRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.executable)?;
        for argument in &self.prefix {
            write!(f, " {}", argument.escape_debug())?;
        }
        f.write_str(" …")?;
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
