//! Texts that are cut.

/// Returns the beginning of a text, of at most so many bytes and without a part of a character.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::beginning;

    #[test]
    fn text_is_cut_before_a_character_that_does_not_fit() {
        assert_eq!(["", "a", "aä", "aäb"].map(|text| beginning(text, 2)), ["", "a", "a", "a"]);
        assert_eq!(beginning("aä", 3), "aä");
    }
}
