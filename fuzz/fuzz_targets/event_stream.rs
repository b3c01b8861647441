//! What an answer in one of Amazon's event streams used, cut where the first two bytes say.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((cut, answer)) = bytes.split_first_chunk() {
        pinfold_egress::fuzzing::event_stream(answer, u16::from_le_bytes(*cut).into());
    }
});
