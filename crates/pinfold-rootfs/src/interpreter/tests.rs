use super::*;

#[test]
fn a_program_says_what_runs_it() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    for (content, expected) in [
        ("#!/usr/bin/env node\nconsole.log()", Some("node")),
        ("#! /usr/bin/env -S node --no-warnings\n", Some("node")),
        ("#!/usr/bin/env A=b python3", Some("python3")),
        ("#!/bin/sh -e\n", Some("/bin/sh")),
        ("\u{7f}ELF\0\0/lib64/ld-linux-x86-64.so.2\0GNU", Some("/lib64/ld-linux-x86-64.so.2")),
        ("\u{7f}ELF\0/lib/ld-musl-x86_64.so.1\0", Some("/lib/ld-musl-x86_64.so.1")),
        ("\u{7f}ELF\0static", None),
        ("", None),
    ] {
        std::fs::write(&program, content).unwrap();
        assert_eq!(of(&program).unwrap().as_deref(), expected, "{content}");
    }
}
