//! JSON as JavaScript reads and writes it: what is written is read as the same, and checking it never fails by itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_content::{Cid, read};

fuzz_target!(|text: &str| {
    if let Ok(value) = read(text) {
        let written = value.to_string();
        let again = read(&written).map(|value| value.to_string());
        assert_eq!(again.as_ref(), Ok(&written));
        let _ = Cid::of_json(&value);
    }
});
