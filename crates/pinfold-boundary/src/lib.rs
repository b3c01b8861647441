//! Where a session runs: the boundary trait, the launch plan, and one module for each boundary.
