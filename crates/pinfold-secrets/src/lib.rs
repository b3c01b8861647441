//! Where secrets come from and how they are kept.
