//! A test program with one test, in one thread.

pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Runs the one test of a program, and answers what cargo-nextest asks of it.
pub(crate) fn run(name: &str, test: fn() -> Result<(), Failed>) -> Result<(), Failed> {
    let has = |word| std::env::args().any(|argument| argument == word);
    if has("--list") {
        if !has("--ignored") {
            println!("{name}: test");
        }
        return Ok(());
    }
    test()
}
