//! Messages to the ssh-agent door, from inside, with everything that is read of them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_egress::read_agent_message;

fuzz_target!(|bytes: &[u8]| {
    read_agent_message(bytes);
});
