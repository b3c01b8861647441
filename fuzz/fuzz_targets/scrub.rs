//! Secrets in a stream that is cut anywhere: the first four lines are patterns, the fifth says
//! where to cut, and the rest is the stream.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.splitn(6, |byte| *byte == b'\n');
    let patterns: Vec<&[u8]> = lines.by_ref().take(4).collect();
    let (cuts, text) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    pinfold_egress::fuzzing::scrub(&patterns, text, cuts);
});
