//! Writes the published schemas into the directory given, `schema` by default.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let directory =
        std::env::args_os().nth(1).map_or_else(|| PathBuf::from("schema"), PathBuf::from);
    std::fs::create_dir_all(&directory)?;
    for (name, content) in pinfold_policy::schema::published() {
        std::fs::write(directory.join(name), content)?;
    }
    Ok(())
}
