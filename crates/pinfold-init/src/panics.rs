//! What a panic does to a process that is a copy of another.

/// Exit status of a process that a panic has ended; that of any Rust program.
pub const PANICKED: i32 = 101;

/// Has a panic end this process at once, from now on. Unwinding would run the destructors of the
/// process that this one is a copy of, and go on as that one.
pub fn end_on_panic() {
    std::panic::set_hook(Box::new(|_| {
        // SAFETY: _exit(2) has no preconditions.
        unsafe { libc::_exit(PANICKED) }
    }));
}
