//! What git said of a foreign repository.

use std::path::Path;

use crate::config::Setting;
use crate::layout::REBUILT;
use crate::refs::{is_branch, is_object, is_reference};
use crate::remotes::remotes;
use pinfold_host::Refusal;
use pinfold_host::beneath::{open_directory, read_bounded};
use pinfold_policy::path::Escaped;

/// Bytes of what git lists of a repository.
const LONGEST_LIST: u64 = 16 << 20;

/// What git said of a foreign repository, checked word by word.
#[derive(Debug)]
pub struct Foreign {
    /// The content of HEAD.
    pub head: String,
    /// References with their objects.
    pub refs: Vec<(String, String)>,
    /// Objects from which a shallow clone begins, one a line.
    pub shallow: String,
    /// The settings that lead to other repositories.
    remotes: Vec<Setting>,
    /// The name of the hash function.
    format: String,
    /// The pack's name without its ending, if there are objects.
    pack: Option<String>,
    /// What the new one lacks and the user may miss.
    pub left_out: Vec<String>,
    /// Bytes of the foreign git directory.
    size: u64,
}

/// The working tree of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkTree<'a> {
    /// A repository without a working tree.
    Bare,
    /// The directory in which the git directory lies.
    Above,
    /// A path from the git directory (`core.worktree`).
    At(&'a str),
}

impl Foreign {
    /// Reads the results of a scratch sandbox.
    ///
    /// # Errors
    /// Returns what cannot be read or used.
    pub fn from(out: &Path, size: u64) -> Result<Self, Refusal> {
        let directory = open_directory(out)?;
        let bytes = |name: &str| -> Result<Vec<u8>, Refusal> {
            let content = read_bounded(&directory, Path::new(name), LONGEST_LIST)
                .map_err(|unread| Refusal::new(format!("{name} {unread}")))?;
            Ok(content.map(|content| content.bytes).unwrap_or_default())
        };
        let text =
            |name: &str| Ok::<_, Refusal>(String::from_utf8_lossy(&bytes(name)?).into_owned());
        let format = text("format")?.trim().to_owned();
        if !matches!(format.as_str(), "sha1" | "sha256") {
            return Err("it cannot be rebuilt: its hash function is unknown".into());
        }
        let reference = |line: &str| {
            let (object, name) = line.split_once(' ')?;
            (is_object(object) && is_reference(name)).then(|| (name.to_owned(), object.to_owned()))
        };
        let mut refs: Vec<(String, String)> = text("refs")?.lines().filter_map(reference).collect();
        refs.sort();
        refs.dedup_by(|one, other| one.0 == other.0);
        let head = text("head")?;
        let head = match head.trim() {
            branch if is_branch(branch) => format!("ref: {branch}\n"),
            commit if is_object(commit) => format!("{commit}\n"),
            _ => "ref: refs/heads/main\n".to_owned(),
        };
        let shallow: String = text("shallow")?
            .lines()
            .filter(|line| is_object(line))
            .map(|line| format!("{line}\n"))
            .collect();
        let pack = text("pack-name")?.trim().to_owned();
        let is_pack = !pack.is_empty() && pack.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (remotes, dropped) = remotes(&bytes("settings")?);
        let mut left_out: Vec<String> = text("left-out")?
            .lines()
            .take(16)
            .map(|line| line.escape_debug().to_string())
            .collect();
        left_out.extend(dropped);
        Ok(Self {
            head,
            refs,
            shallow,
            remotes,
            format,
            pack: is_pack.then_some(pack),
            left_out,
            size,
        })
    }

    /// Takes submodules, which were rebuilt, off the list of what was left out.
    pub fn leave_out_no_modules(&mut self) {
        self.left_out.retain(|what| what != "modules" && !what.starts_with("submodule."));
    }

    /// Returns the files of its pack: as the scratch sandbox left them, and as git names them.
    pub fn pack_files(&self) -> Vec<(String, String)> {
        let name = |pack: &String| {
            ["pack", "idx"].map(|end| (format!("pack.{end}"), format!("pack-{pack}.{end}")))
        };
        self.pack.iter().flat_map(name).collect()
    }

    /// Returns the references as git packs them (git-pack-refs(1)).
    pub fn packed_refs(&self) -> String {
        let lines = self.refs.iter().map(|(name, object)| format!("{object} {name}\n"));
        std::iter::once("# pack-refs with: sorted \n".to_owned()).chain(lines).collect()
    }

    /// Returns the configuration of the new repository.
    pub fn config(&self, tree: WorkTree<'_>) -> Vec<Setting> {
        let is_sha1 = self.format == "sha1";
        let mut own = vec![
            ("core.repositoryformatversion", if is_sha1 { "0" } else { "1" }),
            ("core.filemode", "true"),
            ("core.bare", if tree == WorkTree::Bare { "true" } else { "false" }),
        ];
        if let WorkTree::At(path) = tree {
            own.push(("core.worktree", path));
        }
        if tree != WorkTree::Bare {
            own.push(("core.logallrefupdates", "true"));
        }
        // Its commits are not the user's.
        own.push((REBUILT, "true"));
        if !is_sha1 {
            own.push(("extensions.objectformat", self.format.as_str()));
        }
        let setting = |(key, value): (&str, &str)| Setting {
            key: key.to_owned(),
            value: Some(value.as_bytes().to_vec()),
        };
        own.into_iter().map(setting).chain(self.remotes.iter().cloned()).collect()
    }

    /// Returns what the user should know of it.
    pub fn note(&self, path: &Path) -> String {
        let urls = self
            .remotes
            .iter()
            .filter(|setting| setting.key.ends_with(".url"))
            .filter_map(|setting| String::from_utf8(setting.value.clone()?).ok());
        let mut parts = vec![format!("{:.1} MB", self.size as f64 / f64::from(1 << 20))];
        parts.extend(urls.take(3).map(|url| url.escape_debug().to_string()));
        let mut note = format!("{} ({})", Escaped(path), parts.join(", "));
        if !self.left_out.is_empty() {
            note.push_str("; left out: ");
            note.push_str(&self.left_out.join(", "));
        }
        note
    }
}
