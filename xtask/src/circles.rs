//! Import circles: files of a crate that need each other, directly or through others.
//!
//! A file needs another if it imports an item of it or names one by a path. A re-export (`pub use`) is only
//! another name: who uses it needs the file in which the item lies. Tests are left out, and so is what
//! macros are given, which is not parsed.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

/// The largest circle that nobody has to justify, in files.
pub(crate) const MOST: usize = 3;
/// How many re-exports lead to an item at most.
const MOST_NAMES: usize = 16;

/// Returns the circles of a crate with more than [`MOST`] files, the largest first.
///
/// # Errors
/// Returns an error for a file that cannot be read or parsed.
pub(crate) fn of(source: &Path) -> Result<Vec<Vec<String>>, Box<dyn Error>> {
    let mut modules = Vec::new();
    let roots = ["lib.rs", "main.rs"].map(|name| source.join(name));
    for root in roots.iter().filter(|root| root.exists()) {
        read(root, source, None, &mut modules)?;
    }
    let names: Vec<PathBuf> = modules.iter().map(|module| module.file.clone()).collect();
    let files: Vec<PathBuf> = names.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    let number = |module: &Module| files.binary_search(&module.file).unwrap_or_default();
    let mut needs = vec![vec![false; files.len()]; files.len()];
    for (index, module) in modules.iter().enumerate() {
        for path in &module.paths {
            if let Some(target) = resolve(&modules, index, path, MOST_NAMES) {
                needs[number(module)][number(&modules[target])] = true;
            }
        }
    }
    let shown = |file: &usize| {
        let file = files[*file].strip_prefix(source).unwrap_or(&files[*file]);
        file.display().to_string()
    };
    let mut circles: Vec<Vec<String>> = circles(needs)
        .into_iter()
        .filter(|circle| circle.len() > MOST)
        .map(|circle| circle.iter().map(shown).collect())
        .collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    Ok(circles)
}

/// A module of a crate.
#[derive(Default)]
struct Module {
    file: PathBuf,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Names that `use` brings, re-exports among them, with what they stand for.
    names: BTreeMap<String, Vec<String>>,
    /// Paths to items that the module needs.
    paths: BTreeSet<Vec<String>>,
}

/// Reads a file and the modules below it.
fn read(
    file: &Path,
    directory: &Path,
    parent: Option<usize>,
    modules: &mut Vec<Module>,
) -> Result<usize, Box<dyn Error>> {
    let parsed = syn::parse_file(&fs::read_to_string(file)?)
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let module = Module { file: file.to_owned(), parent, ..Module::default() };
    modules.push(module);
    let index = modules.len() - 1;
    fill(index, &parsed.items, directory, modules)?;
    Ok(index)
}

/// Takes up the items of a module. `directory` is where the files of its children lie.
fn fill(
    index: usize,
    items: &[Item],
    directory: &Path,
    modules: &mut Vec<Module>,
) -> Result<(), Box<dyn Error>> {
    for item in items.iter().filter(|item| !is_test(attributes(item))) {
        match item {
            Item::Mod(child) => {
                let name = child.ident.to_string();
                let below = directory.join(&name);
                let number = match &child.content {
                    Some((_, items)) => {
                        let file = modules[index].file.clone();
                        modules.push(Module { file, parent: Some(index), ..Module::default() });
                        let number = modules.len() - 1;
                        fill(number, items, &below, modules)?;
                        number
                    }
                    None => {
                        let files = [directory.join(format!("{name}.rs")), below.join("mod.rs")];
                        // One that another configuration has lies elsewhere.
                        let Some(file) = files.iter().find(|file| file.exists()) else { continue };
                        read(file, &below, Some(index), modules)?
                    }
                };
                modules[index].children.insert(name, number);
            }
            Item::Use(item) => {
                let is_private = matches!(item.vis, Visibility::Inherited);
                imports(&item.tree, &mut Vec::new(), is_private, &mut modules[index]);
            }
            other => Paths(&mut modules[index]).visit_item(other),
        }
    }
    Ok(())
}

/// Notes what a `use` brings.
fn imports(tree: &UseTree, above: &mut Vec<String>, is_private: bool, module: &mut Module) {
    let mut leaf = |name: Option<String>, path: Vec<String>| {
        if is_private {
            module.paths.insert(path.clone());
        }
        module.names.extend(name.map(|name| (name, path)));
    };
    match tree {
        UseTree::Path(path) => {
            above.push(path.ident.to_string());
            imports(&path.tree, above, is_private, module);
            above.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                imports(tree, above, is_private, module);
            }
        }
        UseTree::Glob(_) => leaf(None, above.iter().cloned().chain(["*".to_owned()]).collect()),
        UseTree::Name(name) if name.ident == "self" => leaf(above.last().cloned(), above.clone()),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            leaf(Some(name.clone()), above.iter().cloned().chain([name]).collect());
        }
        UseTree::Rename(renamed) => {
            let (from, to) = (renamed.ident.to_string(), renamed.rename.to_string());
            let path = above.iter().cloned().chain(Some(from).filter(|from| from != "self"));
            leaf(Some(to), path.collect());
        }
    }
}

/// Collects the paths of a module's code.
struct Paths<'m>(&'m mut Module);

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        imports(&item.tree, &mut Vec::new(), true, self.0);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 {
            self.0.paths.insert(segments);
        }
        visit::visit_path(self, path);
    }
}

/// Returns the module in which the item of a path lies; `None` for another crate's, and for a path that
/// names a module alone, of which other paths say what is needed.
fn resolve(modules: &[Module], from: usize, path: &[String], left: usize) -> Option<usize> {
    let left = left.checked_sub(1)?;
    let (first, mut rest) = path.split_first()?;
    let mut at = match first.as_str() {
        "crate" => root(modules, from),
        "super" => modules[from].parent?,
        "self" => from,
        name => match (modules[from].children.get(name), modules[from].names.get(name)) {
            (Some(child), _) => *child,
            // What it stands for names it by the same word if it is another crate's.
            (None, Some(other)) if other[0] != *name => {
                let whole: Vec<String> = other.iter().chain(rest).cloned().collect();
                return resolve(modules, from, &whole, left);
            }
            (None, _) => return None,
        },
    };
    while let Some((name, further)) = rest.split_first() {
        if name == "super" {
            at = modules[at].parent?;
        } else if let Some(child) = modules[at].children.get(name) {
            at = *child;
        } else if let Some(other) = modules[at].names.get(name) {
            let whole: Vec<String> = other.iter().chain(further).cloned().collect();
            // A name of another crate's that was imported here does not belong to this file.
            return resolve(modules, at, &whole, left);
        } else {
            return Some(at);
        }
        rest = further;
    }
    None
}

fn root(modules: &[Module], mut at: usize) -> usize {
    while let Some(parent) = modules[at].parent {
        at = parent;
    }
    at
}

/// Returns the sets of files that all reach each other.
fn circles(mut reaches: Vec<Vec<bool>>) -> Vec<Vec<usize>> {
    let count = reaches.len();
    for over in 0..count {
        for from in 0..count {
            if reaches[from][over] {
                let further = reaches[over].clone();
                reaches[from].iter_mut().zip(further).for_each(|(to, reached)| *to |= reached);
            }
        }
    }
    let mut circles = Vec::new();
    let mut seen = BTreeSet::new();
    for (one, of_one) in reaches.iter().enumerate() {
        let circle: Vec<usize> = (0..count)
            .filter(|other| *other == one || of_one[*other] && reaches[*other][one])
            .collect();
        if seen.insert(circle.clone()) && circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles
}

/// Returns whether an item is for tests alone.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests;
