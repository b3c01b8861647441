//! The model that a request names, in a body that is cut where its first byte says.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((cut, body)) = bytes.split_first() {
        pinfold_egress::fuzzing::model(body, usize::from(*cut));
    }
});
