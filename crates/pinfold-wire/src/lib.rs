//! The messages between a session's supervisor and the init inside.
