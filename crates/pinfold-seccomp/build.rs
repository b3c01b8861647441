//! Turns `data/syscalls.txt` into a table sorted by number for the target's architecture.

use std::fmt::Write as _;

fn main() {
    println!("cargo::rerun-if-changed=data/syscalls.txt");
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let column = match architecture.as_str() {
        "x86_64" => 1,
        "aarch64" => 2,
        other => {
            println!("cargo::error=no system call numbers for {other} in data/syscalls.txt");
            return;
        }
    };
    let text = match std::fs::read_to_string("data/syscalls.txt") {
        Ok(text) => text,
        Err(error) => {
            println!("cargo::error=data/syscalls.txt: {error}");
            return;
        }
    };
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(number), Some(verdict)) =
            (words.first(), words.get(column), words.get(3))
        else {
            println!("cargo::error=data/syscalls.txt: cannot read `{line}`");
            return;
        };
        let Ok(number) = number.parse::<u32>() else { continue };
        rows.push((number, *name, *verdict));
    }
    rows.sort_unstable();
    let mut table = String::from("pub(super) static TABLE: &[Row] = &[\n");
    for (number, name, verdict) in rows {
        let mut variant = verdict.to_owned();
        variant[..1].make_ascii_uppercase();
        let _ = writeln!(
            table,
            "    Row {{ number: {number}, name: \"{name}\", verdict: Verdict::{variant} }},"
        );
    }
    table.push_str("];\n");
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    if let Err(error) = std::fs::write(format!("{out}/syscalls.rs"), table) {
        println!("cargo::error={out}/syscalls.rs: {error}");
    }
}
