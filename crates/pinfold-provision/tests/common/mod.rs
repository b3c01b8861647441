//! Tarballs and recipes made on the spot, and the two halves that a cache is given.
#![allow(clippy::allow_attributes, dead_code, reason = "each test file uses its part")]
#![expect(clippy::unwrap_used, reason = "a failing helper is a failing test")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;
use pinfold_provision::unpack::unpack_dir;
use pinfold_provision::{Fetch, Fetched, Integrity, Job, Recipe, StepError, Unpack};
use tar::{EntryType, Header};

/// An entry of a tarball, with a name that the `tar` crate would refuse to write.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: EntryType,
    pub(crate) mode: u32,
    pub(crate) link: &'a str,
    pub(crate) content: &'a [u8],
}

pub(crate) fn file<'a>(name: &'a str, content: &'a str) -> Entry<'a> {
    let content = content.as_bytes();
    Entry { name, kind: EntryType::Regular, mode: 0o644, link: "", content }
}

pub(crate) fn tarball(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    for entry in entries {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
        header.as_old_mut().linkname[..entry.link.len()].copy_from_slice(entry.link.as_bytes());
        header.set_entry_type(entry.kind);
        header.set_mode(entry.mode);
        header.set_uid(4242);
        header.set_gid(4242);
        header.set_size(entry.content.len() as u64);
        header.set_cksum();
        gz.write_all(header.as_bytes()).unwrap();
        gz.write_all(entry.content).unwrap();
        gz.write_all(&vec![0; entry.content.len().next_multiple_of(512) - entry.content.len()])
            .unwrap();
    }
    gz.write_all(&[0; 1024]).unwrap();
    gz.finish().unwrap()
}

/// One package at `node_modules/<name>`.
pub(crate) fn package(name: &str, tarball: &[u8]) -> String {
    let integrity = Integrity::of(tarball);
    let size = tarball.len();
    format!(
        r#"{{"path":"node_modules/{name}","name":"{name}","version":"1.0.0","integrity":"{integrity}","size":{size}}}"#
    )
}

pub(crate) fn recipe(packages: &[String], bin: &str) -> Recipe {
    let packages = packages.join(",");
    let text = format!(
        r#"{{"format":1,"name":"agent","version":"1.0.0","packages":[{packages}],"bin":[{bin}]}}"#
    );
    Recipe::parse(text.as_bytes()).unwrap()
}

pub(crate) const BIN: &str = r#"{"command":"agent","path":"node_modules/agent/cli.js"}"#;

/// A recipe with one package, and its tarball.
pub(crate) fn small_agent() -> (Recipe, Vec<u8>) {
    let tarball = tarball(&[
        file("package/package.json", "{}"),
        file("package/cli.js", "#!/bin/sh\necho hello\n"),
        file("package/lib/deep/x.js", "x"),
    ]);
    (recipe(&[package("agent", &tarball)], BIN), tarball)
}

/// Serves tarballs by digest and counts how often it was asked.
#[derive(Default)]
pub(crate) struct Shelf {
    pub(crate) tarballs: BTreeMap<String, Vec<u8>>,
    pub(crate) asked: AtomicUsize,
}

impl Shelf {
    pub(crate) fn with(tarballs: &[&[u8]]) -> Self {
        let entry = |bytes: &&[u8]| (Integrity::of(bytes).to_string(), bytes.to_vec());
        Self { tarballs: tarballs.iter().map(entry).collect(), asked: AtomicUsize::new(0) }
    }
}

impl Fetch for Shelf {
    fn fetch_all(&self, jobs: &[Job], progress: &dyn Fn(Fetched)) -> Result<(), StepError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut done = Fetched::default();
        for job in jobs {
            let bytes = self
                .tarballs
                .get(&job.integrity.to_string())
                .ok_or_else(|| StepError::failed(format!("{} is not on the shelf", job.url)))?;
            fs::write(&job.file, bytes)?;
            done.packages += 1;
            done.bytes += bytes.len() as u64;
            progress(done);
        }
        Ok(())
    }
}

/// Unpacks in this process: what a boundary would do inside.
pub(crate) struct Here;

impl Unpack for Here {
    fn unpack(&self, tarballs: &Path, tree: &Path) -> Result<(), StepError> {
        unpack_dir(tarballs, tree).map(drop).map_err(StepError::failed)
    }
}
