use std::os::unix::fs::symlink;

use super::*;

/// A lower and an upper tree, next to something that no link may lead to.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        for name in ["upper/etc", "lower/etc", "outside/agent"] {
            fs::create_dir_all(world.0.path().join(name)).unwrap();
        }
        world.file("outside/agent/secret");
        world
    }

    fn file(&self, name: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }

    fn link(&self, name: &str, to: &str) {
        symlink(to, self.0.path().join(name)).unwrap();
    }

    fn stack(&self) -> Stack {
        let trees = ["upper", "lower"].map(|name| self.0.path().join(name)).to_vec();
        Stack {
            trees,
            over_host: false,
            landing: Landing::Memory(ByteSize::from_bytes(1)),
            is_root: false,
            held: Arc::default(),
        }
    }

    fn located(&self, path: &str) -> Option<(PathBuf, String)> {
        let (inside, host) = self.stack().locate(Path::new(path))?;
        let host = host.strip_prefix(self.0.path()).unwrap().display().to_string();
        Some((inside, host))
    }
}

#[test]
fn a_link_for_home_leads_nowhere_on_the_host() {
    for target in ["../outside", "/outside"] {
        let world = World::new();
        world.link("lower/home", target);
        let seen = world.stack().seen().unwrap();
        let views: Vec<String> = seen.views.iter().map(|(path, _)| path.to_string()).collect();
        assert_eq!(views, ["/etc"], "{target}");
    }
}

#[test]
fn files_are_found_as_in_the_sandbox() {
    let world = World::new();
    world.file("lower/etc/certs/bundle");
    world.file("lower/etc/hidden/bundle");
    world.file("lower/etc/gone");
    world.link("upper/etc/by-upper", "certs/bundle");
    world.link("upper/etc/absolute", "/../etc/certs/./bundle");
    world.link("upper/etc/out", "../../outside/agent/secret");
    world.link("upper/etc/loop", "loop");
    world.link("upper/etc/hidden", "/nowhere");
    fs::create_dir(world.0.path().join("upper/etc/gone")).unwrap();
    let found = Some((PathBuf::from("/etc/certs/bundle"), "lower/etc/certs/bundle".to_owned()));
    for path in ["/etc/certs/bundle", "/etc/by-upper", "/etc/absolute"] {
        assert_eq!(world.located(path), found, "{path}");
    }
    for path in ["/etc/out", "/etc/loop", "/etc/hidden/bundle", "/etc/gone", "/etc/certs", "/no"] {
        assert_eq!(world.located(path), None, "{path}");
    }
}

#[test]
fn no_two_paths_share_a_landing() {
    let names: std::collections::BTreeSet<_> =
        ["/home/agent", "/home-agent", "/home%2Fagent", "/homeagent"]
            .iter()
            .map(|name| landing_name(Path::new(name)))
            .collect();
    assert_eq!(names.len(), 4);
}

#[test]
fn a_file_is_read_as_it_was_found_or_not_at_all() {
    let world = World::new();
    world.file("lower/etc/ssl/bundle");
    let read = |path| world.stack().read(Path::new(path), 5);
    assert_eq!(read("/etc/ssl/bundle").unwrap().unwrap(), b"lower");
    assert_eq!(read("/etc/ssl/other").unwrap(), None);
    // A tree that has become a link since it was named.
    fs::rename(world.0.path().join("lower"), world.0.path().join("moved")).unwrap();
    world.link("lower", "moved");
    let error = read("/etc/ssl/bundle").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
}
