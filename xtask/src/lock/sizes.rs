//! The size of each tarball: npm's lock does not have it, the registry's answer to HEAD does.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs::{self, File};

use pinfold_provision::Registry;
use pinfold_provision::recipe::Package;

use super::{LockError, run_tool};

/// Asks the registry that npm is configured for. A size that it does not tell stays unknown.
pub(super) fn fill_in(packages: &mut [Package]) -> Result<(), LockError> {
    let dir = tempfile::tempdir()?;
    let registry =
        run_tool("npm", &["config", "get", "registry"], dir.path(), std::process::Stdio::null())?;
    let registry = Registry::parse(registry.trim())?;
    let mut config = String::new();
    for package in packages.iter() {
        let url = registry.tarball(&package.name, &package.version);
        writeln!(config, "url = \"{url}\"\noutput = \"/dev/null\"").unwrap_or_default();
    }
    let file = dir.path().join("urls");
    fs::write(&file, config)?;
    let arguments = [
        "--silent",
        "--head",
        "--fail",
        "--location",
        "--config",
        "-",
        "--write-out",
        "%{url} %header{content-length}\\n",
    ];
    let printed = run_tool("curl", &arguments, dir.path(), File::open(&file)?.into())?;
    let sizes: HashMap<&str, u64> = printed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(url, size)| Some((url, size.trim().parse().ok()?)))
        .collect();
    for package in packages {
        let url = registry.tarball(&package.name, &package.version);
        package.size = sizes.get(url.as_str()).copied();
    }
    Ok(())
}
