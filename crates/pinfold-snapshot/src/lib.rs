//! Unpacking the systems that sessions run on.
//!
//! A system is a tree of files: an image's layers put over each other, or a tarball, unpacked
//! inside a boundary ([`layer`]), as far as the disk has room ([`disk`]). This crate knows neither how
//! to download nor how to start one.

pub mod disk;
pub mod layer;
