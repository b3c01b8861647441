//! Programs in front of Node's package managers that come with the host's system or with a version manager, which
//! are read-only: what they install for everything goes to the sandbox's home.

use std::path::Path;

use crate::extra::Extra;
use crate::search_path::SearchPath;
use crate::system::Stack;
use crate::userland::HOME;
use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::{InsidePath, PathError};

/// The directory of these programs in the sandbox.
const DIRECTORY: &str = "/run/pinfold/node-tools";
const PLACES: [&str; 2] = ["/usr/local/bin", "/usr/bin"];

/// Returns programs for npm and corepack where they are read-only, and adds their directories to `PATH`: right before
/// those of the package managers that they stand for. A system that was made for the session can be written.
///
/// # Errors
/// Returns no error: the paths are constants.
pub fn find(
    stack: Option<&Stack>,
    toolchains: &[Extra],
    search: &mut SearchPath,
) -> Result<Vec<Entry>, PathError> {
    // The programs are scripts that name these directories.
    let is_plain = |place: &str| !place.contains(|c: char| c.is_control() || c == '\'');
    let is_managed = |place: &&String| {
        toolchains.iter().any(|extra| Path::new(place).starts_with(extra.host.as_path()))
            && is_plain(place)
    };
    let managed = search.before.iter().filter(is_managed).map(String::as_str);
    let system = PLACES.into_iter().filter(|_| stack.is_none());
    let places: Vec<&str> = managed.chain(system).collect();
    let found: Vec<(&str, &str)> = ["npm", "corepack"]
        .into_iter()
        .filter_map(|tool| {
            let has = |place: &&&str| Path::new(place).join(tool).exists();
            Some((tool, *places.iter().find(has)?))
        })
        .collect();
    if found.is_empty() && stack.is_some() {
        return Ok(Vec::new());
    }
    let entry = |(tool, place): &(&str, &str)| {
        let program = format!("'{place}/{tool}'");
        let script = if *tool == "npm" { npm(&program) } else { corepack(&program) };
        let place = Place::File { content: script.into_bytes(), mode: 0o755, keep: false };
        Ok(Entry { path: InsidePath::new(format!("{DIRECTORY}/{tool}"))?, place })
    };
    let entries: Vec<Entry> = found.iter().map(entry).collect::<Result<_, PathError>>()?;
    let is_theirs = |before: &String| found.iter().any(|(_, place)| place == before);
    let first = search.before.iter().position(is_theirs).unwrap_or(search.before.len());
    let own =
        [Some(format!("{HOME}/.local/bin")), (!found.is_empty()).then(|| DIRECTORY.to_owned())];
    search.before.splice(first..first, own.into_iter().flatten());
    Ok(entries)
}

/// Returns a script for `npm`. A prefix that the user or a project has set stays.
fn npm(program: &str) -> String {
    format!(
        "#!/bin/sh\n\
         # Global packages go to the sandbox's home: npm's own directory is the host's, and read-only.\n\
         if [ -z \"$npm_config_prefix$NPM_CONFIG_PREFIX\" ] && ! grep -qs '^ *prefix *=' \"$HOME/.npmrc\"; then\n\
         \tcase $1 in\n\
         \tlink | ln | unlink) export npm_config_prefix=\"$HOME/.local\" ;;\n\
         \tesac\n\
         \tfor word in \"$@\"; do\n\
         \t\tcase $word in\n\
         \t\t-g | --global | --global=true | --location=global) export npm_config_prefix=\"$HOME/.local\" ;;\n\
         \t\tesac\n\
         \tdone\n\
         fi\n\
         exec {program} \"$@\"\n"
    )
}

/// Returns a script for `corepack`, which would link the package managers next to itself.
fn corepack(program: &str) -> String {
    format!(
        "#!/bin/sh\n\
         # Package managers are enabled in the sandbox's home: corepack's own directory is the host's, and read-only.\n\
         case \"$1 $*\" in\n\
         *\" --install-directory\"*) ;;\n\
         \"enable \"* | \"disable \"*)\n\
         \tdo=$1\n\
         \tshift\n\
         \tmkdir -p \"$HOME/.local/bin\"\n\
         \texec {program} \"$do\" --install-directory \"$HOME/.local/bin\" \"$@\" ;;\n\
         esac\n\
         exec {program} \"$@\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchains::Toolchains;

    #[test]
    fn package_managers_of_a_version_manager_install_into_the_home_of_the_sandbox() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let bin = home.join(".nvm/versions/node/v1/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("npm"), "").unwrap();
        let bin = bin.display().to_string();
        let toolchains = Toolchains::find(&home, Path::new("/nowhere"), None, None).unwrap();
        let before = vec!["/granted".to_owned(), bin.clone()];
        let mut search = SearchPath { before, after: Vec::new() };
        let entries = find(None, &toolchains.extra, &mut search).unwrap();
        let expected = ["/granted", "/home/agent/.local/bin", DIRECTORY, &bin];
        assert_eq!(search.before, expected);
        let Place::File { content, .. } = &entries[0].place else { panic!() };
        let script = String::from_utf8(content.clone()).unwrap();
        assert!(script.ends_with(&format!("\nexec '{bin}/npm' \"$@\"\n")), "{script}");
    }

    #[test]
    fn directory_that_a_script_cannot_name_is_left_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let bin = home.join(".nvm/versions/it's/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("npm"), "").unwrap();
        let bin = bin.display().to_string();
        let toolchains = Toolchains::find(&home, Path::new("/nowhere"), None, None).unwrap();
        let mut search = SearchPath { before: vec![bin.clone()], after: Vec::new() };
        find(None, &toolchains.extra, &mut search).unwrap();
        assert_eq!(search.before[0], bin);
    }
}
