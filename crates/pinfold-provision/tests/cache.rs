//! A layer is whole or not there, whatever happens while it is made.
#![expect(clippy::unwrap_used, reason = "a failing helper is a failing test")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;

use common::{Here, Shelf, small_agent};
use pinfold_provision::{
    Cache, CacheError, Event, Fetch, Fetched, Job, Registry, StepError, Unpack,
};
use tempfile::TempDir;

fn cache(dir: &Path) -> Cache {
    Cache::new(dir.join("agents"), Registry::default())
}

fn quiet(_: Event) {}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// What is in the cache apart from lock files.
fn left(dir: &Path) -> Vec<String> {
    names(&dir.join("agents")).into_iter().filter(|name| !name.ends_with(".lock")).collect()
}

#[test]
fn a_layer_is_made_once_and_read_only() {
    let dir = TempDir::new().unwrap();
    let (recipe, tarball) = small_agent();
    let shelf = Shelf::with(&[&tarball]);
    let cache = cache(dir.path());
    assert_eq!(cache.get(&recipe).unwrap(), None);
    let events = Mutex::new(Vec::new());
    let (layer, lock) =
        cache.ensure(&recipe, &shelf, &Here, &|event| events.lock().unwrap().push(event)).unwrap();
    assert_eq!(cache.get(&recipe).unwrap().as_ref(), Some(&layer));
    assert_eq!(cache.ensure(&recipe, &shelf, &Here, &quiet).unwrap().0, layer);
    assert_eq!(shelf.asked.load(Ordering::SeqCst), 1);
    assert_eq!(left(dir.path()), [recipe.hash().unwrap().to_string()]);
    assert_eq!(layer.stats.files, 3);

    let mode = |path: &str| fs::metadata(layer.dir.join(path)).unwrap().mode() & 0o777;
    assert_eq!(mode("node_modules/agent/cli.js"), 0o555);
    assert_eq!(mode("node_modules/agent/package.json"), 0o444);
    assert_eq!(mode("node_modules/agent/lib"), 0o555);
    assert!(fs::read_link(layer.bin_dir.join("agent")).unwrap().is_relative());

    let id = recipe.hash().unwrap().to_string();
    // Nobody removes the layer of a session.
    assert_eq!(cache.prune().unwrap().in_use, std::slice::from_ref(&id));
    drop(lock);
    assert_eq!(cache.prune().unwrap().removed, [id]);
    assert_eq!(cache.get(&recipe).unwrap(), None);

    let bytes = Some(tarball.len() as u64);
    let fetching = |packages, done| {
        let done = Fetched { packages, bytes: done };
        Event::Fetching { done, packages: 1, bytes }
    };
    let expected = [
        fetching(0, 0),
        fetching(1, tarball.len() as u64),
        Event::Verifying,
        Event::Unpacking,
        Event::Sealing,
    ];
    assert_eq!(*events.lock().unwrap(), expected);
}

#[test]
fn concurrent_starts_do_the_work_once() {
    let dir = TempDir::new().unwrap();
    let (recipe, tarball) = small_agent();
    let shelf = Shelf::with(&[&tarball]);
    let (waiting, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let inside = Barrier::new(2);
    /// Goes on only when the other start says that it waits.
    struct Slow<'a>(&'a Shelf, &'a Barrier, &'a Mutex<mpsc::Receiver<()>>);
    impl Fetch for Slow<'_> {
        fn fetch_all(&self, jobs: &[Job], progress: &dyn Fn(Fetched)) -> Result<(), StepError> {
            self.1.wait();
            self.2.lock().unwrap().recv().unwrap();
            self.0.fetch_all(jobs, progress)
        }
    }
    let slow = Slow(&shelf, &inside, &wait);
    thread::scope(|scope| {
        let first = scope.spawn(|| cache(dir.path()).ensure(&recipe, &slow, &Here, &quiet));
        inside.wait();
        let on_event = |event| {
            if event == Event::Waiting {
                waiting.send(()).unwrap();
            }
        };
        let second = cache(dir.path()).ensure(&recipe, &shelf, &Here, &on_event).unwrap();
        assert_eq!(first.join().unwrap().unwrap().0, second.0);
    });
    assert_eq!(shelf.asked.load(Ordering::SeqCst), 1);
}

#[test]
fn a_download_that_is_not_what_was_locked_is_never_unpacked() {
    struct Liar;
    impl Fetch for Liar {
        fn fetch_all(&self, jobs: &[Job], _: &dyn Fn(Fetched)) -> Result<(), StepError> {
            jobs.iter().try_for_each(|job| Ok(fs::write(&job.file, b"something else")?))
        }
    }
    struct Never;
    impl Unpack for Never {
        fn unpack(&self, _: &Path, _: &Path) -> Result<(), StepError> {
            panic!("unpacked what was not verified")
        }
    }
    let dir = TempDir::new().unwrap();
    let (recipe, _) = small_agent();
    let error = cache(dir.path()).ensure(&recipe, &Liar, &Never, &quiet).unwrap_err();
    assert!(matches!(error, CacheError::Mismatch { .. }), "{error}");
    assert!(error.to_string().starts_with(
        "agent@1.0.0 from https://registry.npmjs.org/agent/-/agent-1.0.0.tgz is not what"
    ));
    assert_eq!(left(dir.path()), Vec::<String>::new());
}

#[test]
fn a_full_disk_is_named_and_nothing_is_left() {
    struct Full;
    impl Fetch for Full {
        fn fetch_all(&self, jobs: &[Job], _: &dyn Fn(Fetched)) -> Result<(), StepError> {
            fs::write(&jobs[0].file, b"part")?;
            Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into())
        }
    }
    impl Unpack for Full {
        fn unpack(&self, _: &Path, tree: &Path) -> Result<(), StepError> {
            fs::write(tree.join("part"), b"")?;
            Err(StepError::DiskFull)
        }
    }
    let dir = TempDir::new().unwrap();
    let (recipe, tarball) = small_agent();
    let shelf = Shelf::with(&[&tarball]);
    for (fetch, doing) in [(&Full as &dyn Fetch, "downloading"), (&shelf, "unpacking")] {
        let error = cache(dir.path()).ensure(&recipe, fetch, &Full, &quiet).unwrap_err();
        let agents = dir.path().join("agents");
        let expected = format!("no space left in {} while {doing};", agents.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert_eq!(left(dir.path()), Vec::<String>::new());
    }
}

#[test]
fn output_of_the_sandbox_is_checked() {
    type Evil = fn(&Path);
    struct After(Evil);
    impl Unpack for After {
        fn unpack(&self, tarballs: &Path, tree: &Path) -> Result<(), StepError> {
            Here.unpack(tarballs, tree)?;
            (self.0)(tree);
            Ok(())
        }
    }
    let cases: [(Evil, &str); 4] = [
        (|tree| symlink("/etc/passwd", tree.join("x")).unwrap(), "is a link that leaves"),
        (|tree| symlink("../../x", tree.join("bin/x")).unwrap(), "is a link that leaves"),
        (
            |tree| {
                fs::hard_link(tree.join("bin/../node_modules/agent/cli.js"), tree.join("x"))
                    .unwrap()
            },
            "has a second name",
        ),
        (
            |tree| {
                let mode = rustix::fs::Mode::from_raw_mode(0o644);
                let fifo = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(rustix::fs::CWD, tree.join("x"), fifo, mode, 0).unwrap();
            },
            "is neither a file nor a directory",
        ),
    ];
    let dir = TempDir::new().unwrap();
    let (recipe, tarball) = small_agent();
    for (evil, why) in cases {
        let shelf = Shelf::with(&[&tarball]);
        let error = cache(dir.path()).ensure(&recipe, &shelf, &After(evil), &quiet).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(left(dir.path()), Vec::<String>::new());
    }
}

/// Stops for good at one step of the work, after saying so. Run by the test below.
#[test]
#[ignore = "the victim of the test below"]
fn victim() {
    let Some(dir) = std::env::var_os("PINFOLD_TEST_CACHE") else { return };
    let step: usize = std::env::var("PINFOLD_TEST_STEP").unwrap().parse().unwrap();
    let (recipe, tarball) = small_agent();
    let shelf = Shelf::with(&[&tarball]);
    let seen = std::cell::Cell::new(0);
    let stop = |_| {
        seen.set(seen.get() + 1);
        if seen.get() == step {
            println!("\nat step {step}");
            loop {
                thread::park();
            }
        }
    };
    cache(Path::new(&dir)).ensure(&recipe, &shelf, &Here, &stop).unwrap();
    println!("\nno step {step}");
}

#[test]
fn killed_at_any_step_it_leaves_nothing_that_the_next_start_keeps() {
    let (recipe, tarball) = small_agent();
    let id = recipe.hash().unwrap().to_string();
    let mut steps = 0;
    for step in 1.. {
        let dir = TempDir::new().unwrap();
        #[expect(clippy::disallowed_methods, reason = "the test kills a process of its own")]
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "victim", "--nocapture", "--test-threads=1"])
            .env("PINFOLD_TEST_CACHE", dir.path())
            .env("PINFOLD_TEST_STEP", step.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        let said = lines.map(Result::unwrap).find(|line| line.contains(" step ")).unwrap();
        victim.kill().unwrap();
        victim.wait().unwrap();
        if said.contains("no step") {
            break;
        }
        steps = step;
        assert!(cache(dir.path()).get(&recipe).unwrap().is_none(), "half a layer at {step}");
        assert!(left(dir.path()).iter().all(|name| name.starts_with(&format!("{id}.tmp-"))));
        let shelf = Shelf::with(&[&tarball]);
        cache(dir.path()).ensure(&recipe, &shelf, &Here, &quiet).unwrap();
        assert_eq!(left(dir.path()), std::slice::from_ref(&id));
    }
    assert_eq!(steps, 5, "every step was tried");
}

#[test]
fn leftovers_of_a_killed_start_of_another_layer_go_too_unless_it_lives() {
    let dir = TempDir::new().unwrap();
    let agents = dir.path().join("agents");
    fs::create_dir_all(agents.join("dead.tmp-1/tree")).unwrap();
    fs::create_dir_all(agents.join("alive.tmp-2/tree")).unwrap();
    let lock = fs::File::create(agents.join("alive.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let (recipe, tarball) = small_agent();
    cache(dir.path()).ensure(&recipe, &Shelf::with(&[&tarball]), &Here, &quiet).unwrap();
    let left = left(dir.path());
    assert!(left.contains(&"alive.tmp-2".to_owned()) && left.len() == 2, "{left:?}");
}
