//! Tar archives of systems: a small working one, and malformed ones.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

/// A tar archive under construction. Names are written unchanged, also invalid ones.
pub struct Archive(Builder<Vec<u8>>);

impl Archive {
    /// Creates an empty archive.
    #[must_use]
    pub fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// Creates an archive of a system with a shell and its basic programs.
    #[must_use]
    pub fn system() -> Self {
        const APPLETS: &str = "cat chmod chown dd echo env false find grep head id ls mkdir mv rm \
                               rmdir sed sh sleep stat touch tr true wget";
        let busybox = std::fs::read("/bin/busybox").unwrap();
        let mut system = Self::new();
        for name in ["bin", "etc", "tmp", "usr/bin", "var"] {
            system = system.directory(name);
        }
        system = system.entry(EntryType::Regular, "bin/busybox", 0o755, "", &busybox);
        for name in APPLETS.split_whitespace() {
            system = system.symlink(&format!("bin/{name}"), "busybox");
        }
        system.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nwww:x:33:33::/:/bin/false\n")
    }

    /// Adds an entry of any kind.
    #[must_use]
    pub fn entry(
        mut self,
        kind: EntryType,
        name: &str,
        mode: u32,
        link: &str,
        content: &[u8],
    ) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        // The library's own setters refuse invalid names.
        let fields = header.as_gnu_mut().unwrap();
        fields.name[..name.len()].copy_from_slice(name.as_bytes());
        fields.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    /// Adds a regular file.
    #[must_use]
    pub fn file(self, name: &str, content: &str) -> Self {
        self.entry(EntryType::Regular, name, 0o644, "", content.as_bytes())
    }

    /// Adds a directory.
    #[must_use]
    pub fn directory(self, name: &str) -> Self {
        self.entry(EntryType::Directory, name, 0o755, "", b"")
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn symlink(self, name: &str, to: &str) -> Self {
        self.entry(EntryType::Symlink, name, 0o777, to, b"")
    }

    /// Adds a hard link.
    #[must_use]
    pub fn hard_link(self, name: &str, to: &str) -> Self {
        self.entry(EntryType::Link, name, 0o644, to, b"")
    }

    /// Returns the finished archive.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

impl Default for Archive {
    fn default() -> Self {
        Self::new()
    }
}

/// Compresses bytes with gzip.
#[must_use]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
