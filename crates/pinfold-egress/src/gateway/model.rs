//! Which models a request may ask for, and how a path names one.

/// Longest name of a model, in bytes.
const LONGEST_NAME: usize = 256;

/// Whether a text can be the name of a model. A comma separates several for some routers.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    !text.is_empty() && text.len() <= LONGEST_NAME && text.bytes().all(is_plain)
}

/// Whether a list of models has this one. A name that ends in `*` stands for all that begin so.
pub(super) fn lists(models: &[String], model: &str) -> bool {
    let model = model.strip_prefix("models/").unwrap_or(model);
    models.iter().any(|listed| match listed.strip_suffix('*') {
        Some(prefix) => model.starts_with(prefix),
        None => model == listed,
    })
}
