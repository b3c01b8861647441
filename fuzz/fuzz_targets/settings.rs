//! Settings files of every layer. A repository's file comes from strangers: whatever it says, it
//! grants nothing.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use pinfold_fuzz::assert_printable;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::path::HostPath;
use pinfold_policy::settings::{Layers, Project, Settings, SettingsError};

fuzz_target!(|input: &[u8]| {
    let Some((kind, bytes)) = input.split_first() else { return };
    let Ok(home) = HostPath::new("/home/me") else { return };
    let file = |path| SettingsFile { path: Path::new(path), bytes };
    let empty = Layers { home: Some(&home), ..Layers::default() };
    let project = |path| Project::read(&[file(path)]);
    let layers = match kind % 4 {
        0 => project("sandbox.json").map(|project| Layers { project, ..empty }),
        1 => project("sandbox.toml").map(|project| Layers { project, ..empty }),
        2 => Ok(Layers { user: Some(file("config.toml")), ..empty }),
        _ => Ok(Layers { ceiling: Some(file("policy.toml")), ..empty }),
    };
    let layers = match layers {
        Ok(layers) => layers,
        Err(error) => return refused(&error),
    };
    let is_project = layers.project.is_some();
    match Settings::resolve(layers) {
        Ok(settings) if is_project => grants_nothing(&settings),
        Ok(_) => {}
        Err(error) => refused(&error),
    }
});

fn refused(error: &SettingsError) {
    assert_printable(error);
    assert_printable(error.hint().unwrap_or_default());
}

fn grants_nothing(settings: &Settings) {
    let Ok(default) = Settings::resolve(Layers::default()) else { unreachable!() };
    assert!(settings.files.read.is_empty() && settings.files.write.is_empty());
    assert!(settings.files.sockets.is_empty() && settings.files.opt_in.is_empty());
    assert!(settings.forward_env.is_empty() && settings.providers.is_empty());
    assert!(!settings.scalars.allow_weaker.value);
    assert_eq!(settings.files.state.value, default.files.state.value);
}
