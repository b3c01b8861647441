//! Why a request is not run.

/// Why something is not run, with a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) why: String,
    pub(crate) hint: Option<String>,
}

impl Refusal {
    pub(crate) fn new(why: impl ToString) -> Self {
        Self { why: why.to_string(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}
