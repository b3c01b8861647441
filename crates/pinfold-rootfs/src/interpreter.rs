//! Whether the session's system has what an agent's program is run by.
//!
//! An agent of the npm registry is a script for a Node.js, which its layer brings or the system has; a
//! program of the layer asks the kernel for a loader (`PT_INTERP`, elf(5)), which is the system's.

use std::fs::File;

use pinfold_host::Refusal;
use pinfold_policy::path::Escaped;

use std::io::{self, Read as _};
use std::path::Path;

use crate::system::Stack;
use crate::userland::PATH;

/// The first page of a program has a script's first line (execve(2), "Interpreter scripts") and the
/// name of a program's loader.
const PAGE: u64 = 4096;
/// How often a script may be run by a script: as often as the kernel does (fs/exec.c).
const DEEPEST: usize = 5;
/// Loaders' names: glibc's, and musl's.
const LOADERS: [&[u8]; 2] = [b"/ld-linux", b"/ld-musl-"];
const HINT: &str = "name a base that has it (debian, or a tarball of such a system), or install it by \
                    snapshot.setupCommands";

/// Refuses a program of a layer, by its name among the layer's commands, if the system lacks what runs
/// it. For this machine's own programs the maker of the layer decides.
///
/// # Errors
/// Returns an error for a program that cannot be read, or something that is not there.
pub fn check(commands: &Path, name: &str, stack: Option<&Stack>) -> Result<(), Refusal> {
    let Some(stack) = stack.filter(|stack| !stack.over_host) else { return Ok(()) };
    let has = |path: &Path| stack.file(path).is_some();
    let mut wanted = name.to_owned();
    for _ in 0..DEEPEST {
        let own = commands.join(&wanted);
        let is_there = match wanted.starts_with('/') {
            true => has(Path::new(&wanted)),
            false if own.exists() => match of(&own).map_err(|error| unreadable(&own, error))? {
                Some(next) => {
                    wanted = next;
                    continue;
                }
                None => true,
            },
            false => PATH.split(':').any(|directory| has(&Path::new(directory).join(&wanted))),
        };
        if is_there {
            return Ok(());
        }
        break;
    }
    let what = format!("{name} is run by {wanted}, which the session's system lacks");
    Err(Refusal::new(what).with_hint(HINT.to_owned()))
}

fn unreadable(program: &Path, error: io::Error) -> Refusal {
    Refusal::new(format!("cannot read {}", Escaped(program))).because(error)
}

/// Returns what runs a program: the path of a loader or an interpreter, or for env(1) a name to look
/// for; none for one that the kernel runs by itself.
fn of(program: &Path) -> io::Result<Option<String>> {
    let mut page = Vec::new();
    File::open(program)?.take(PAGE).read_to_end(&mut page)?;
    Ok(match page.strip_prefix(b"#!") {
        Some(line) => script(&String::from_utf8_lossy(line)),
        None => loader(&page),
    })
}

fn script(text: &str) -> Option<String> {
    let mut words = text.lines().next()?.split_whitespace();
    let first = words.next()?;
    if !first.ends_with("/env") {
        return Some(first.to_owned());
    }
    // `env -S name`, `env NAME=value name`.
    words.find(|word| !word.starts_with('-') && !word.contains('=')).map(str::to_owned)
}

fn loader(page: &[u8]) -> Option<String> {
    let place = LOADERS
        .iter()
        .find_map(|name| page.windows(name.len()).position(|window| window == *name))?;
    let start = page[..place].iter().rposition(|byte| *byte == 0)? + 1;
    let length = page[start..].iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&page[start..start + length]).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests;
