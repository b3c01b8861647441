//! Hashes of what an image is made of. All are SHA-256 (FIPS 180-4), as lower-case hexadecimal digits
//! where they enter another one.
//!
//! | hash | over |
//! |---|---|
//! | extensions | of each file, sorted by the bytes of its path below the extensions folder: path, NUL, content, NUL |
//! | image | `<hash of the Dockerfile>:<hash of the base's digest>`, then `:<extensions>` if there are any |
//! | layer | `<the agent's tag>:<Dockerfile>`, then `:<files>` if the repository's context has others |
//!
//! A tag has the first eight digits of the last two. That is too little to tell an image by, and
//! leaves out what the format has always left out (the agent's other files, which files may be executed):
//! so an image also carries a [`label`] over everything.

use std::fmt;

use data_encoding::HEXLOWER;
use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};

use crate::tag::ImageTag;

/// A SHA-256, shown as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sha256([u8; SHA256_OUTPUT_LEN]);

impl Sha256 {
    /// Returns the hash of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(bytes);
        Self::finish(context)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn bytes(self) -> [u8; SHA256_OUTPUT_LEN] {
        self.0
    }

    pub(crate) fn finish(context: Context) -> Self {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(context.finish().as_ref());
        Self(hash)
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// What a tag has of a hash: its first eight digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageHash(String);

impl ImageHash {
    /// Returns the hash of an agent's image. `base` is the digest of what it builds on, empty where that
    /// cannot be known.
    #[must_use]
    pub fn of_agent(dockerfile: &[u8], base: &str, extensions: Option<Sha256>) -> Self {
        let (dockerfile, base) = (Sha256::of(dockerfile), Sha256::of(base.as_bytes()));
        let mut combined = format!("{dockerfile}:{base}");
        if let Some(extensions) = extensions {
            combined = format!("{combined}:{extensions}");
        }
        Self::first_digits(combined.as_bytes())
    }

    /// Returns the hash of what a repository adds to an agent's image.
    #[must_use]
    pub fn of_layer(agent: &ImageTag, dockerfile: &[u8], files: Option<Sha256>) -> Self {
        let mut combined = agent.to_string().into_bytes();
        combined.push(b':');
        combined.extend_from_slice(dockerfile);
        if let Some(files) = files {
            combined.extend_from_slice(format!(":{files}").as_bytes());
        }
        Self::first_digits(&combined)
    }

    fn first_digits(combined: &[u8]) -> Self {
        let mut digits = Sha256::of(combined).to_string();
        digits.truncate(8);
        Self(digits)
    }
}

impl fmt::Display for ImageHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns what an image says that it was made of: the hash of its whole context, and what it was built on.
#[must_use]
pub fn label(context: Sha256, base: &str) -> Sha256 {
    Sha256::of(format!("pinfold-image-1\0{context}\0{base}").as_bytes())
}

/// The hash of a whole context: of each file, in order, the path there, whether it may be executed, and
/// the content with its length.
pub(crate) struct ContextDigest(Context);

impl Default for ContextDigest {
    fn default() -> Self {
        let mut context = Context::new(&SHA256);
        context.update(b"pinfold-context-1\0");
        Self(context)
    }
}

impl ContextDigest {
    /// Begins a file. As many bytes as are said have to follow.
    pub(crate) fn file(&mut self, path: &[u8], may_be_executed: bool, length: u64) {
        let kind: &[u8] = if may_be_executed { b"program" } else { b"file" };
        for field in [kind, path, length.to_string().as_bytes()] {
            self.0.update(field);
            self.0.update(b"\0");
        }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Sha256 {
        Sha256::finish(self.0)
    }
}

#[cfg(test)]
mod tests;
