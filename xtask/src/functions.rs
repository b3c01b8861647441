//! What every function has to keep to. Each argument has a name of its own: a tuple that is taken apart in a list of
//! arguments hides how many there are, and what each is at the place of the call. A doc comment begins with a verb, as in
//! "Returns the size".

use std::error::Error;
use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, FnArg, ImplItemFn, ItemFn, ItemMod, Lit, Meta, Pat, Signature, TraitItemFn,
    Type,
};

/// Returns the functions below a directory that do not, as `file: function: reason`, without those of tests.
///
/// # Errors
/// Returns an error for a file that cannot be read or parsed.
pub(crate) fn faults(source: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(source)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default();
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            found.extend(faults(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let faults =
                faults_in(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            found.extend(faults.iter().map(|fault| format!("{}: {fault}", path.display())));
        }
    }
    Ok(found)
}

fn faults_in(text: &str) -> syn::Result<Vec<String>> {
    let mut finder = Finder(Vec::new());
    finder.visit_file(&syn::parse_file(text)?);
    Ok(finder.0)
}

struct Finder(Vec<String>);

impl Finder {
    /// Checks the signature and the doc comment of a function. A tuple with a name of its own
    /// (`type Window = (u16, u16)`) and a reference to one are values, and not meant.
    fn check(&mut self, signature: &Signature, attributes: &[Attribute]) {
        let is_tuple = |argument: &FnArg| match argument {
            FnArg::Typed(argument) => {
                matches!((&*argument.pat, &*argument.ty), (Pat::Tuple(_), Type::Tuple(_)))
            }
            FnArg::Receiver(_) => false,
        };
        if signature.inputs.iter().any(is_tuple) {
            self.0.push(format!("{}: a tuple as an argument list", signature.ident));
        }
        let first = attributes.iter().find_map(documentation);
        let word = first.as_deref().and_then(|line| line.split_whitespace().next());
        if let Some(word) = word.filter(|word| !is_verb(word)) {
            self.0.push(format!(
                "{}: its comment begins with {word}, not with a verb",
                signature.ident
            ));
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if !function.attrs.iter().any(|attribute| attribute.path().is_ident("test")) {
            self.check(&function.sig, &function.attrs);
        }
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.check(&function.sig, &function.attrs);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.check(&function.sig, &function.attrs);
        visit::visit_trait_item_fn(self, function);
    }
}

/// Returns the text of an attribute that is a line of a doc comment.
fn documentation(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else { return None };
    let Expr::Lit(literal) = &meta.value else { return None };
    match &literal.lit {
        Lit::Str(text) if meta.path.is_ident("doc") => Some(text.value()),
        _ => None,
    }
}

/// Returns whether a word may be such a verb.
fn is_verb(word: &str) -> bool {
    let word = word.trim_end_matches([',', '.', ';', ':']);
    word.ends_with('s')
        && word.starts_with(|letter: char| letter.is_ascii_uppercase())
        && !matches!(word, "As" | "Its" | "This")
}

#[cfg(test)]
mod tests {
    use super::faults_in;

    #[test]
    fn tuples_in_lists_of_arguments_are_found() {
        let found = |text: &str| faults_in(text).unwrap().len();
        assert_eq!(found("fn one((a, b): (u8, u8), c: u8) {}"), 1);
        assert_eq!(found("impl S { fn two(&self, (a, b): (u8, u8)) {} }"), 1);
        assert_eq!(found("fn window((rows, columns): Window) {}"), 0);
        assert_eq!(found("fn row((name, it): &(String, u8)) { |(a, b)| a }"), 0);
    }

    #[test]
    fn comments_that_begin_with_no_verb_are_found() {
        let found = |text: &str| faults_in(text).unwrap();
        assert_eq!(
            found("/// The size.\nfn size() -> u8 { 0 }"),
            ["size: its comment begins with The, not with a verb"]
        );
        assert_eq!(found("/// Its size.\nfn size() {}").len(), 1);
        assert_eq!(found("/// Counts, and waits.\nfn count() {}").len(), 0);
        assert_eq!(found("mod tests { /// The size.\nfn size() {} }").len(), 0);
        assert_eq!(found("/// A promise.\n#[test]\nfn promise() {}").len(), 0);
        assert_eq!(found("fn silent() {}").len(), 0);
    }
}
