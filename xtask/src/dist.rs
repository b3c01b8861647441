//! What a release has: packages, a list of what they are made of, and their digests with a signature.

use std::path::Path;
use std::{fs, io};

use crate::Outcome;
use crate::cargo;

mod sbom;

const USAGE: &str = "\
usage: cargo xtask dist [--profile PROFILE] DIRECTORY
       cargo xtask dist sign URL KEY DIRECTORY";

const INSTALLER: &str = include_str!("../../packaging/install.sh");

const FEATURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/devcontainer/build");

/// The variable that names another machine's target.
const TARGET: &str = "PINFOLD_TARGET";

/// Builds the packages for one machine into a directory, or signs what lies in one.
///
/// # Errors
/// Returns an error that names the program which failed, or says how this is called.
pub(crate) fn run(words: &[&str]) -> Outcome {
    match words {
        ["sign", url, key, directory] => sign(url, Path::new(key), Path::new(directory)),
        ["--profile", profile, directory] => build(profile, Path::new(directory)),
        [directory] if !directory.starts_with('-') => build("dist", Path::new(directory)),
        _ => Err(USAGE.into()),
    }
}

fn build(profile: &str, directory: &Path) -> Outcome {
    fs::create_dir_all(directory)?;
    let staged = tempfile::tempdir()?;
    let mut stage = cargo::command("packaging/stage");
    let version = cargo::output(stage.arg(profile).arg(staged.path()))?.trim().to_owned();
    let target = target()?;
    let machine = target.split('-').next().unwrap_or_default();
    // The time of the commit, so that the same sources make the same bytes.
    let time = cargo::output(cargo::command("git").args(["log", "-1", "--format=%ct"]))?;
    for program in ["packaging/tarball/build", "packaging/npm/build", "packaging/wheel/build"] {
        let mut build = cargo::command(program);
        build.env("SOURCE_DATE_EPOCH", time.trim()).arg(staged.path());
        cargo::finish(build.args([version.as_str(), machine]).arg(directory))?;
    }
    // It needs the programs of its own machine.
    if std::env::var_os(TARGET).is_none() {
        let mut build = cargo::command("packaging/deb/build");
        cargo::finish(build.args(["--profile", profile]).arg(directory))?;
    }
    let list = directory.join(format!("pinfold-{version}-{machine}.cdx.json"));
    fs::write(&list, sbom::of("pinfold", &target)?)?;
    println!("{}", list.display());
    Ok(())
}

/// Writes the program that installs from this URL, a feature of development containers with it, the digests of all packages,
/// and their signature by a private key of ssh-keygen's.
fn sign(url: &str, key: &Path, directory: &Path) -> Outcome {
    const LIST: &str = "SHA256SUMS";
    let signature = directory.join(LIST).with_extension("sig");
    for old in [directory.join(LIST), signature] {
        fs::remove_file(old).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
    }
    let public = fs::read_to_string(key.with_extension("pub"))?;
    let public = public.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let version = env!("CARGO_PKG_VERSION");
    let program = INSTALLER
        .replace("@VERSION@", version)
        .replace("@URL@", url.trim_end_matches('/'))
        .replace("@KEY@", &public);
    fs::write(directory.join("install.sh"), program)?;
    cargo::finish(cargo::command(FEATURE).arg(version).arg(directory))?;
    let mut names: Vec<_> = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<Result<_, _>>()?;
    names.sort();
    let digests =
        cargo::output(cargo::command("sha256sum").current_dir(directory).arg("--").args(names))?;
    let list = directory.join(LIST);
    fs::write(&list, digests)?;
    let mut sign = cargo::command("ssh-keygen");
    cargo::finish(sign.args(["-q", "-Y", "sign", "-n", "pinfold", "-f"]).arg(key).arg(&list))?;
    println!("{}", list.display());
    Ok(())
}

/// Returns the target that is built for.
fn target() -> Result<String, Box<dyn std::error::Error>> {
    if let Ok(target) = std::env::var(TARGET) {
        return Ok(target);
    }
    let version = cargo::output(cargo::command("rustc").args(["--version", "--verbose"]))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not say what its host is")?.to_owned())
}

#[cfg(test)]
mod installer_tests;
#[cfg(test)]
mod tests;
