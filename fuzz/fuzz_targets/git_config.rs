//! Git's configuration as an agent may leave it behind.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/pinfold-session/src/git"]
mod git {
    pub(crate) mod config;
    pub(crate) mod keys;
    pub(crate) mod secrets;
}

use git::config::{Config, write};

fuzz_target!(|bytes: &[u8]| {
    let config = Config::parse(bytes);
    for setting in &config.settings {
        let _ = git::keys::judge(setting);
        let _ = config.last(&setting.key);
    }
    // What is written for git has the meaning that was judged.
    let again = Config::parse(&write(&config.settings));
    assert!(!again.broken);
    assert_eq!(again.settings, config.settings);
    if let Some(clean) = git::secrets::without_secrets(bytes) {
        assert_eq!(git::secrets::without_secrets(&clean), None);
    }
});
