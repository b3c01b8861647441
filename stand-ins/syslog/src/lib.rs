//! Nothing: the library of `virtiofsd` logs by the crate `log`, and its program is not built.
