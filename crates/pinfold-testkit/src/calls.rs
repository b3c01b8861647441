//! The processor's system calls by name, for programs in Python that make them by number.

/// What the filter is built from: name, number on x86-64, number on aarch64, and more.
const CALLS: &str = include_str!("../../pinfold-seccomp/data/syscalls.txt");

/// Returns the name and the number of each system call that this processor has.
fn calls() -> impl Iterator<Item = (&'static str, u32)> {
    let column = if cfg!(target_arch = "x86_64") { 1 } else { 2 };
    CALLS.lines().filter(|line| !line.starts_with('#')).filter_map(move |line| {
        let words: Vec<_> = line.split_whitespace().collect();
        Some((*words.first()?, words.get(column)?.parse().ok()?))
    })
}

/// Returns the number of a system call.
///
/// # Panics
/// Panics if this processor does not have it.
pub fn call_number(name: &str) -> u32 {
    let Some((_, number)) = calls().find(|(call, _)| *call == name) else {
        panic!("this processor has no call {name}");
    };
    number
}

/// Joins parts of a program in Python: before them `NUMBERS`, the numbers of system calls by name, and after
/// them a call of `main` with the program's arguments.
pub fn python_program(parts: &[&str]) -> String {
    let numbers: Vec<_> = calls().map(|(name, number)| format!("'{name}': {number}")).collect();
    let numbers = format!("NUMBERS = {{{}}}", numbers.join(", "));
    [&[numbers.as_str()], parts, &["main(*sys.argv[1:])\n"]].concat().join("\n\n")
}
