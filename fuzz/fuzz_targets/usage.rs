//! What an answer of a model used, as a stream and as a whole, cut where the first byte says.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((cut, answer)) = bytes.split_first() {
        for content_type in ["text/event-stream", "application/json"] {
            pinfold_egress::fuzzing::usage(content_type, answer, usize::from(*cut));
        }
    }
});
