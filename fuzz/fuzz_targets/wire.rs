//! Messages from init, which is hostile by assumption, and to it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_wire::{Order, Report, Wire};

fuzz_target!(|bytes: &[u8]| {
    same_again::<Order>(bytes);
    same_again::<Report>(bytes);
});

/// Whatever is a message has one meaning.
fn same_again<M: Wire + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(message) = M::decode(bytes) {
        assert_eq!(M::decode(&message.encode()).as_ref(), Ok(&message));
    }
}
