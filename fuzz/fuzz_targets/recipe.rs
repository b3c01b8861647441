//! Recipes, which users and administrators may add.
#![no_main]

use std::path::{Component, Path};

use libfuzzer_sys::fuzz_target;
use pinfold_fuzz::assert_printable;
use pinfold_provision::{Cpu, Libc, Platform, Recipe, Registry};

fuzz_target!(|bytes: &[u8]| {
    let recipe = match Recipe::parse(bytes) {
        Ok(recipe) => recipe,
        Err(error) => return assert_printable(error),
    };
    let written = recipe.to_bytes().expect("a recipe can be written");
    let again = Recipe::parse(&written).expect("what was written can be read");
    assert_eq!(again.to_bytes().expect("a recipe can be written"), written);
    for package in recipe.packages() {
        let is_below = |part| matches!(part, Component::Normal(_));
        assert!(Path::new(package.path.as_str()).components().all(is_below));
    }
    for job in recipe.jobs(&Registry::default(), Path::new("/tarballs")) {
        assert_eq!(job.file.parent(), Some(Path::new("/tarballs")));
        assert!(job.url.starts_with("https://registry.npmjs.org/"), "{}", job.url);
    }
    let _ = recipe.for_platform(Platform { cpu: Cpu::X64, libc: Libc::Glibc });
});
