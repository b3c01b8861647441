//! Counted things in words.

/// Returns a number with what is counted: "1 file", "2 files".
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "file")), ["0 files", "1 file", "2 files"]);
    }
}
