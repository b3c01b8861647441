//! The shipped recipes against the real registry. It needs the network, so it runs by hand:
//!
//! ```sh
//! PINFOLD_RECIPE=agents/recipes/codex.json PINFOLD_LAYERS=$(mktemp -d) \
//!     cargo test --release -p pinfold-provision --test registry -- --ignored --nocapture
//! ```
//! It unpacks without a boundary: look at the result as an ordinary user, or not at all.
#![expect(clippy::unwrap_used, reason = "a failing helper is a failing test")]

use std::fmt::Write;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use pinfold_provision::unpack::unpack_dir;
use pinfold_provision::{
    Cache, Event, Fetch, Fetched, Job, Libc, Platform, Recipe, Registry, StepError, Unpack,
};

struct Curl;

impl Fetch for Curl {
    fn fetch_all(&self, jobs: &[Job], progress: &dyn Fn(Fetched)) -> Result<(), StepError> {
        let mut config = String::new();
        for job in jobs {
            writeln!(config, "url = \"{}\"\noutput = \"{}\"", job.url, job.file.display()).unwrap();
        }
        #[expect(clippy::disallowed_methods, reason = "a test by hand, with the tool at hand")]
        let mut curl = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--parallel", "--config", "-"])
            .stdin(Stdio::piped())
            .spawn()?;
        curl.stdin.take().unwrap().write_all(config.as_bytes())?;
        let status = curl.wait()?;
        progress(Fetched { packages: jobs.len(), bytes: 0 });
        if status.success() { Ok(()) } else { Err(StepError::failed("curl failed")) }
    }
}

struct Here;

impl Unpack for Here {
    fn unpack(&self, tarballs: &Path, tree: &Path) -> Result<(), StepError> {
        let start = Instant::now();
        let stats = unpack_dir(tarballs, tree).map_err(StepError::failed)?;
        println!("unpacked {stats:?} in {:?}", start.elapsed());
        Ok(())
    }
}

#[test]
#[ignore = "needs the network; run by hand"]
fn a_shipped_recipe_becomes_a_layer() {
    let file = std::env::var("PINFOLD_RECIPE").expect("set PINFOLD_RECIPE to a recipe file");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recipe = Recipe::parse(&std::fs::read(root.join(file)).unwrap()).unwrap();
    let platform = Platform::this_machine(Libc::Glibc).unwrap();
    let recipe = recipe.for_platform(platform).unwrap();
    let dir = PathBuf::from(std::env::var_os("PINFOLD_LAYERS").expect("set PINFOLD_LAYERS"));
    let cache = Cache::new(dir, Registry::default());
    let start = Instant::now();
    let report = |event: Event| println!("{:8.2?} {event:?}", start.elapsed());
    let (layer, _lock) = cache.ensure(&recipe, &Curl, &Here, &report).unwrap();
    println!("{:8.2?} {layer:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(cache.get(&recipe).unwrap(), Some(layer));
    println!("found again in {:?}", start.elapsed());
}
