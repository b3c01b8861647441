//! Writes the published schemas and the reference page of the settings, below the root of the repository that is
//! given, or else below the current directory.

use std::path::PathBuf;

use pinfold_schema::{page, published};

fn main() -> std::io::Result<()> {
    let root = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    for (name, content) in published() {
        std::fs::write(root.join("schema").join(name), content)?;
    }
    std::fs::write(root.join("docs/reference/settings.md"), page())
}
