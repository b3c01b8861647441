//! Systems that sessions run on.
//!
//! A base is a tree of files: an image's layers put over each other, or a tarball, each unpacked
//! inside a boundary ([`layer`]). A snapshot is what a repository's set-up commands changed in such
//! a base. Both lie in a [`Cache`] by their content's hash, and neither changes once it is there.
//!
//! This crate knows neither how to download nor how to start a boundary.

pub mod layer;
