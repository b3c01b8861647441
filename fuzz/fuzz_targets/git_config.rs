//! Git's configuration as an agent may leave it behind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_git::config::{Config, write};
use pinfold_git::{keys, secrets};

fuzz_target!(|bytes: &[u8]| {
    let config = Config::parse(bytes);
    for setting in &config.settings {
        let _ = keys::judge(setting);
        let _ = config.last(&setting.key);
    }
    // What is written for git has the meaning that was judged.
    let again = Config::parse(&write(&config.settings));
    assert!(!again.broken);
    assert_eq!(again.settings, config.settings);
    if let Some(clean) = secrets::without_secrets(bytes) {
        assert_eq!(secrets::without_secrets(&clean), None);
    }
});
