//! What a session may do: settings, grants, rules and decisions, without I/O of its own.
