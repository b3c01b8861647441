//! Archives of systems: a small honest one, and whatever else a test needs.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

/// An archive under construction; names are written as they are.
pub(crate) struct Archive(Builder<Vec<u8>>);

impl Archive {
    pub(crate) fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// A system that has a shell and what belongs to it.
    pub(crate) fn system() -> Self {
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

    pub(crate) fn entry(
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
        // The library would refuse some of these.
        let fields = header.as_gnu_mut().unwrap();
        fields.name[..name.len()].copy_from_slice(name.as_bytes());
        fields.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        self.entry(EntryType::Regular, name, 0o644, "", content.as_bytes())
    }

    pub(crate) fn directory(self, name: &str) -> Self {
        self.entry(EntryType::Directory, name, 0o755, "", b"")
    }

    pub(crate) fn symlink(self, name: &str, to: &str) -> Self {
        self.entry(EntryType::Symlink, name, 0o777, to, b"")
    }

    pub(crate) fn hard_link(self, name: &str, to: &str) -> Self {
        self.entry(EntryType::Link, name, 0o644, to, b"")
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
