//! Agent files: read, resolved for each provider, and filled in.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use pinfold_fuzz::assert_printable;
use pinfold_agents::{Registry, Selection, TemplateValues};
use pinfold_policy::document::SettingsFile;

fuzz_target!(|bytes: &[u8]| {
    let registry = Registry::new(vec![SettingsFile { path: Path::new("agents/fuzz.toml"), bytes }]);
    let profile = match registry.load("fuzz") {
        Ok(profile) => profile,
        Err(error) => return assert_printable(error),
    };
    let providers = profile.providers.keys().cloned().map(Some).chain([None]);
    for provider in providers {
        let selection = Selection {
            provider: provider.as_deref(),
            model: Some("some-model"),
            auth_mode: None,
            settings: None,
        };
        let agent = match profile.clone().resolve(selection) {
            Ok(agent) => agent,
            Err(error) => {
                assert_printable(error);
                continue;
            }
        };
        let values = TemplateValues {
            gateway: Some("http://127.0.0.1:1"),
            key: Some("the \"key\""),
            home: Some("/home/agent"),
            workspace: Some("/w\n"),
            ..TemplateValues::default()
        };
        // Filled in or refused, but without a panic, and below the home.
        let _ = (agent.args(&values), agent.env(&values));
        for file in agent.files(&values).into_iter().flatten() {
            let is_below = |part| matches!(part, std::path::Component::Normal(_));
            assert!(file.path.components().all(is_below), "{:?}", file.path);
        }
    }
});
