//! A JSON body as the gateway writes it again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pinfold_egress::fuzzing::body(bytes));
