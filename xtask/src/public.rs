//! What a crate offers to others: the names that are public from its root downwards. Methods, fields and variants belong to
//! their type and are not counted.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use syn::{Item, ItemMod, UseTree, Visibility};

/// Returns the public names below the `src` directory of a library, as `module::name`.
///
/// # Errors
/// Returns an error for a file that cannot be read or parsed, and for a public `use` of everything.
pub(crate) fn names(source: &Path) -> Result<BTreeSet<String>, Box<dyn Error>> {
    let mut names = BTreeSet::new();
    collect(&source.join("lib.rs"), source, "", &mut names)?;
    Ok(names)
}

/// Collects the names of a module. Its submodules have their files below `directory`.
fn collect(
    file: &Path,
    directory: &Path,
    module: &str,
    names: &mut BTreeSet<String>,
) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    for item in syn::parse_file(&text)?.items {
        match &item {
            Item::Mod(inner) if is_counted(inner) => {
                let name = inner.ident.to_string();
                let below = directory.join(&name);
                let beginnings = [directory.join(format!("{name}.rs")), below.join("mod.rs")];
                let file = beginnings.iter().find(|file| file.exists());
                let file = file.ok_or_else(|| format!("{module}{name} has no file"))?;
                names.insert(format!("{module}{name}"));
                collect(file, &below, &format!("{module}{name}::"), names)?;
            }
            item => names.extend(own(item)?.into_iter().map(|name| format!("{module}{name}"))),
        }
    }
    Ok(())
}

/// Returns whether a module is public. One with a path of its own stands for another of the same name.
fn is_counted(module: &ItemMod) -> bool {
    is_public(&module.vis)
        && module.content.is_none()
        && !module.attrs.iter().any(|attribute| attribute.path().is_ident("path"))
}

/// Returns the public names of one item that is no module.
fn own(item: &Item) -> Result<Vec<String>, String> {
    let (visibility, name) = match item {
        Item::Const(item) => (&item.vis, &item.ident),
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Fn(item) => (&item.vis, &item.sig.ident),
        Item::Static(item) => (&item.vis, &item.ident),
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        Item::Union(item) => (&item.vis, &item.ident),
        Item::Use(item) if is_public(&item.vis) => return leaves(&item.tree),
        _ => return Ok(Vec::new()),
    };
    Ok(is_public(visibility).then(|| name.to_string()).into_iter().collect())
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Returns the names that a `use` brings.
fn leaves(tree: &UseTree) -> Result<Vec<String>, String> {
    match tree {
        UseTree::Path(path) => leaves(&path.tree),
        UseTree::Name(name) => Ok(vec![name.ident.to_string()]),
        UseTree::Rename(rename) => Ok(vec![rename.rename.to_string()]),
        UseTree::Group(group) => {
            let names: Result<Vec<_>, _> = group.items.iter().map(leaves).collect();
            Ok(names?.concat())
        }
        UseTree::Glob(_) => Err("a public `use` of everything hides what it brings".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::names;

    #[test]
    fn public_names_are_found_in_public_modules_and_public_uses() {
        let source = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| fs::write(source.path().join(name), text).unwrap();
        fs::create_dir(source.path().join("b")).unwrap();
        file(
            "lib.rs",
            "mod a; pub mod b; #[path = \"c.rs\"] pub mod b; pub use a::{One, Two as Three};\n\
             pub fn four() {} fn five() {}",
        );
        file("b.rs", "pub mod d; pub(crate) struct Hidden; pub struct Shown { pub field: u8 }");
        file("b/d.rs", "pub const MOST: u8 = 1; pub use super::super::*;");
        assert!(names(source.path()).is_err());
        file("b/d.rs", "pub const MOST: u8 = 1;");
        let found = names(source.path()).unwrap();
        let expected = ["Three", "One", "b", "b::Shown", "b::d", "b::d::MOST", "four"];
        assert_eq!(found, expected.map(str::to_owned).into());
    }
}
