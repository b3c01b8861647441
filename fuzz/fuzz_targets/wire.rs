//! Messages from init, which is hostile by assumption, and to it; and those at the host-exec door, of which
//! either end is hostile to the other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_wire::{
    Call, Frames, HostCommand, LaunchOrder, LineIn, LineOut, Order, Reply, Report, Wire,
};

fuzz_target!(|bytes: &[u8]| {
    same_again::<LaunchOrder>(bytes);
    same_again::<Order>(bytes);
    same_again::<Report>(bytes);
    same_again::<LineIn>(bytes);
    same_again::<LineOut>(bytes);
    same_again::<HostCommand>(bytes);
    same_again::<Call>(bytes);
    same_again::<Reply>(bytes);
    let mut frames = Frames::default();
    for part in bytes.chunks(7) {
        frames.add(part);
        while let Ok(Some(_)) = frames.take::<Call>() {}
    }
});

/// Whatever is a message has one meaning.
fn same_again<M: Wire + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(message) = M::decode(bytes) {
        assert_eq!(M::decode(&message.encode()).as_ref(), Ok(&message));
    }
}
