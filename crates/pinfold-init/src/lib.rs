//! The first process inside every boundary.
