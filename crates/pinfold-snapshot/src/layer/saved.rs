//! Images as `docker save` writes them: a tarball with each layer's tarball, and `manifest.json`, which
//! says in which order they lie over each other (moby, image specification 1.2, "Combined Image JSON +
//! Filesystem Changeset Format").

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde::Deserialize;
use tar::{Archive, EntryType};

use super::open::unpacked;
use super::{Applied, Budget, LayerError, apply};

const MANIFEST: &str = "manifest.json";
/// More names than an image of 127 layers has.
const MOST_NAMES: usize = 4096;
/// The largest manifest that registries have to take.
const LARGEST_MANIFEST: u64 = 4 << 20;
/// A layer that is there already is a link to it; a link to a link leads nowhere good.
const MOST_LINKS: usize = 4;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Manifest {
    layers: Vec<PathBuf>,
}

/// Applies the one image of a file to the tree at `root`, if its layers, unpacked, have these
/// digests (`sha256:` and hexadecimal digits).
///
/// # Errors
/// Returns the errors of [`apply`]; what is no such image, or another one. The tree is then not to be
/// used.
pub fn apply_saved(
    path: &Path,
    layers: &[String],
    root: &Path,
    mut budget: Budget,
) -> Result<Applied, LayerError> {
    let file =
        File::open(path).map_err(|source| LayerError::File { path: path.to_owned(), source })?;
    let saved = Saved::read(&file)?;
    let manifest = saved.manifest(&file)?;
    if manifest.layers.len() != layers.len() {
        return Err(LayerError::NotSaved { what: "another number of layers" });
    }
    let mut all = Applied::default();
    for (name, digest) in manifest.layers.iter().zip(layers) {
        let window = saved.find(name).ok_or(LayerError::NotSaved { what: "no such layer" })?;
        let start = window.start(&file).map_err(LayerError::damaged)?;
        let content = unpacked(window.of(&file), &start, window.size)?;
        let mut content = Digesting { content, context: Context::new(&SHA256) };
        all += apply(&mut content, root, &mut budget)?;
        // The digest is of everything, and an archive ends before its padding does.
        io::copy(&mut content, &mut io::sink()).map_err(LayerError::damaged)?;
        if content.digest() != *digest {
            return Err(LayerError::NotSaved { what: "a layer of another content" });
        }
    }
    Ok(all)
}

/// Where the files of the outer tarball lie in it.
#[derive(Default)]
struct Saved {
    files: HashMap<PathBuf, Window>,
    links: HashMap<PathBuf, PathBuf>,
}

/// A part of a file.
#[derive(Clone, Copy)]
struct Window {
    at: u64,
    size: u64,
}

impl Saved {
    fn read(file: &File) -> Result<Self, LayerError> {
        let mut saved = Self::default();
        let mut archive = Archive::new(file);
        for entry in archive.entries_with_seek().map_err(LayerError::damaged)? {
            let entry = entry.map_err(LayerError::damaged)?;
            let path = normal(Path::new(""), &entry.path().map_err(LayerError::damaged)?);
            match entry.header().entry_type() {
                EntryType::Regular | EntryType::Continuous => {
                    let window = Window { at: entry.raw_file_position(), size: entry.size() };
                    saved.files.insert(path, window);
                }
                EntryType::Symlink => {
                    if let Some(target) = entry.link_name().map_err(LayerError::damaged)? {
                        let base = path.parent().unwrap_or(Path::new("")).to_owned();
                        saved.links.insert(path, normal(&base, &target));
                    }
                }
                EntryType::Link => {
                    if let Some(target) = entry.link_name().map_err(LayerError::damaged)? {
                        saved.links.insert(path, normal(Path::new(""), &target));
                    }
                }
                _ => {}
            }
            if saved.files.len() + saved.links.len() > MOST_NAMES {
                return Err(LayerError::NotSaved { what: "too many names" });
            }
        }
        Ok(saved)
    }

    fn manifest(&self, file: &File) -> Result<Manifest, LayerError> {
        let none = LayerError::NotSaved { what: "no manifest" };
        let window = self.files.get(Path::new(MANIFEST)).ok_or(none)?;
        if window.size > LARGEST_MANIFEST {
            return Err(LayerError::NotSaved { what: "a manifest that is too large" });
        }
        let mut bytes = Vec::new();
        window.of(file).read_to_end(&mut bytes).map_err(LayerError::damaged)?;
        let images: Result<Vec<Manifest>, _> = serde_json::from_slice(&bytes);
        let mut images = images.map_err(|error| LayerError::damaged(error.into()))?;
        match (images.pop(), images.is_empty()) {
            (Some(image), true) => Ok(image),
            _ => Err(LayerError::NotSaved { what: "not one image" }),
        }
    }

    fn find(&self, name: &Path) -> Option<Window> {
        let mut name = &normal(Path::new(""), name);
        for _ in 0..MOST_LINKS {
            match self.links.get(name) {
                Some(target) => name = target,
                None => break,
            }
        }
        self.files.get(name).copied()
    }
}

/// Returns a name in the tarball without dots; it is only ever looked up.
fn normal(base: &Path, name: &Path) -> PathBuf {
    let mut path = base.to_owned();
    for component in name.components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::ParentDir => drop(path.pop()),
            Component::RootDir => path.clear(),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    path
}

impl Window {
    fn start(self, file: &File) -> io::Result<Vec<u8>> {
        let mut start = Vec::new();
        self.of(file).take(8).read_to_end(&mut start)?;
        Ok(start)
    }

    fn of(self, file: &File) -> Part<'_> {
        Part { file, at: self.at, left: self.size }
    }
}

/// Reads a part of a file, wherever the file's own position is.
struct Part<'f> {
    file: &'f File,
    at: u64,
    left: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(&mut buffer[..most], self.at)?;
        if count == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

/// Digests what is read.
struct Digesting<'f> {
    content: Box<dyn Read + 'f>,
    context: Context,
}

impl Digesting<'_> {
    fn digest(self) -> String {
        let digest = self.context.finish();
        digest.as_ref().iter().fold("sha256:".to_owned(), |all, byte| all + &format!("{byte:02x}"))
    }
}

impl Read for Digesting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.context.update(&buffer[..count]);
        Ok(count)
    }
}
