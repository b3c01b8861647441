//! Which models a request may ask for, and how a path names one.

/// Longest name of a model, in bytes.
const LONGEST_NAME: usize = 256;

/// Returns whether a text can be the name of a model. A comma separates several for some routers.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    !text.is_empty() && text.len() <= LONGEST_NAME && text.bytes().all(is_plain)
}

/// Returns whether a list of models has this one. A name that ends in `*` stands for all that begin so.
pub(super) fn lists(models: &[String], model: &str) -> bool {
    let model = model.strip_prefix("models/").unwrap_or(model);
    models.iter().any(|listed| match listed.strip_suffix('*') {
        Some(prefix) => model.starts_with(prefix),
        None => model == listed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_whole_names_and_beginnings() {
        let has = |listed: &str, model: &str| lists(&[listed.to_owned()], model);
        assert!(has("gpt-5*", "gpt-5.1") && has("m", "models/m") && has("*", "tunedModels/x"));
        assert!(has("tunedModels/*", "tunedModels/x") && has("tunedModels/x", "tunedModels/x"));
        assert!(!has("gpt-5", "gpt-5-pro") && !lists(&[], "m") && !has("x", "tunedModels/x"));
    }

    #[test]
    fn a_name_is_one_word() {
        for name in
            ["gpt-5", "anthropic/claude-3.5:beta", "llama3:8b", "@cf/x", "ft:gpt-4o:org::id"]
        {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "a b", "a,b", "a\0", "a\n", "é", &"m".repeat(257)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
