//! Questions for names (RFC 1035), from inside.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pinfold_egress::fuzzing::question(bytes));
