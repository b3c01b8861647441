//! From a policy to a running session: supervisor, audit, launcher.
