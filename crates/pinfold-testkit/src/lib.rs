//! A scripted model server and helpers for tests that run the real thing.
