//! Functions that take several values as one tuple and name them in their list of arguments. Such a list
//! hides how many arguments there are, and what each is at the place of the call.

use std::error::Error;
use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{FnArg, Pat, Signature, Type};

/// Returns the functions below a directory that do so, as `file: function`, without those of tests.
///
/// # Errors
/// Returns an error for a file that cannot be read or parsed.
pub(crate) fn tuples(source: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(source)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default();
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            found.extend(tuples(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let names = names(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            found.extend(names.iter().map(|name| format!("{}: {name}", path.display())));
        }
    }
    Ok(found)
}

/// Returns the names of the functions in a file that take a tuple apart. A tuple with a name of its own
/// (`type Window = (u16, u16)`) and a reference to one are values, and not meant.
fn names(text: &str) -> syn::Result<Vec<String>> {
    let mut finder = Finder(Vec::new());
    finder.visit_file(&syn::parse_file(text)?);
    Ok(finder.0)
}

struct Finder(Vec<String>);

impl<'ast> Visit<'ast> for Finder {
    fn visit_signature(&mut self, signature: &'ast Signature) {
        let is_tuple = |argument: &FnArg| match argument {
            FnArg::Typed(argument) => {
                matches!((&*argument.pat, &*argument.ty), (Pat::Tuple(_), Type::Tuple(_)))
            }
            FnArg::Receiver(_) => false,
        };
        if signature.inputs.iter().any(is_tuple) {
            self.0.push(signature.ident.to_string());
        }
        visit::visit_signature(self, signature);
    }
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn tuples_in_lists_of_arguments_are_found() {
        let found = |text: &str| names(text).unwrap();
        assert_eq!(found("fn one((a, b): (u8, u8), c: u8) {}"), ["one"]);
        assert_eq!(found("impl S { fn two(&self, (a, b): (u8, u8)) {} }"), ["two"]);
        assert_eq!(found("fn window((rows, columns): Window) {}"), Vec::<String>::new());
        assert_eq!(found("fn row((name, it): &(String, u8)) { |(a, b)| a }"), Vec::<String>::new());
    }
}
