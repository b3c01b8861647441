//! The first bytes of a connection, and the head of a request for a tunnel.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_egress::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    fuzzing::beginning(bytes);
    fuzzing::connect(bytes);
});
