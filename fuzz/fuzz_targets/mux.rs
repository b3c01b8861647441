//! What a guest writes to the channel of its machine, and what a host writes to a guest.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_fuzz::assert_printable;
use pinfold_mux::{Endpoint, Event, MOST_HELD, NONCE, Side};

fuzz_target!(|bytes: &[u8]| {
    let whole = heard(bytes, bytes.len().max(1));
    assert_eq!(whole, heard(bytes, 3), "the cuts matter");
    if let Err(error) = whole {
        assert_printable(error);
    }
});

/// What a host that has streams of its own makes of these bytes, after the greeting: everything that it holds at
/// the end, or the lie.
fn heard(bytes: &[u8], size: usize) -> Result<Vec<u8>, String> {
    let mut host = Endpoint::new(Side::Host([7; NONCE]));
    let greeting = host.output().to_vec();
    host.written(greeting.len());
    host.receive(&greeting).map_err(|error| error.to_string())?;
    let own: Vec<_> = (0..3).filter_map(|_| host.open(b"own").ok()).collect();
    let mut opened = own.clone();
    host.send(own[0], &[1; 1000]);
    host.finish(own[1]);
    host.stop(own[2]);
    for part in bytes.chunks(size) {
        host.receive(part).map_err(|error| error.to_string())?;
        assert!(host.held_in_all() <= MOST_HELD);
    }
    while let Some(event) = host.next_event() {
        if let Event::Opened { id, .. } = event {
            opened.push(id);
        }
    }
    let mut held = Vec::new();
    for id in opened {
        let (first, second) = host.held(id);
        held.extend(first.iter().chain(second));
        held.push(host.ended(id).map_or(2, u8::from));
        host.take(id, held.len());
        host.finish(id);
    }
    assert!(host.held_in_all() <= MOST_HELD);
    Ok(held)
}
