//! Tables of known keys: what a reader accepts, and what a published schema says, are one list.

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The one spelling that is accepted.
    pub name: &'static str,
    /// What its value looks like.
    pub shape: Shape,
    /// One sentence for a user, shown by editors through the schema.
    pub doc: &'static str,
}

/// What a value looks like.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Any text.
    Text,
    /// Text that a regular expression (ECMA 262, as JSON Schema has it) describes.
    Pattern(&'static str),
    /// One of some words.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A whole number, at least 1.
    Count,
    /// A whole number, at least 0.
    Whole,
    /// A number, at least 0.
    Amount,
    /// A number of CPUs.
    Cpus,
    List(&'static Shape),
    /// One shape or the other.
    Either(&'static Shape, &'static Shape),
    /// A table whose keys are names that a regular expression describes.
    Map(&'static str, &'static Shape),
    /// A table with known keys.
    Table(&'static [Key]),
}

impl Key {
    /// Returns a key and its one sentence.
    #[must_use]
    pub const fn new(name: &'static str, shape: Shape, doc: &'static str) -> Self {
        Self { name, shape, doc }
    }
}

/// Returns the known name nearest to `name`, if near enough to be what was meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(name, known);
    let (distance, nearest) = known.into_iter().map(|known| (distance(known), known)).min()?;
    (distance <= 1 + nearest.len() / 4).then_some(nearest)
}
