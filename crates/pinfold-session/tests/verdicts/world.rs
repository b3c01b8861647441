//! Random trees on the host and random policies over them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pinfold_policy::access::Access;
use pinfold_policy::authority::{
    Authority, AuthorityBuilder, Effect, Grant, Reason, Restriction, Root, RootId, RootKind,
    Subject, Why,
};
use pinfold_policy::origin::Origin;
use pinfold_policy::path::{HostPath, InsidePath};

/// Where the prober lies inside; it is also what scripts name as their interpreter.
pub(crate) const PROBER: &str = "/probe";

/// A random number generator whose whole state can be printed (SplitMix64, Steele et al. 2014).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File,
    Link,
}

/// Something in the tree.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
}

/// A tree on the host. Binds in it are undone when it goes.
pub(crate) struct World {
    pub(crate) base: PathBuf,
    pub(crate) nodes: Vec<Node>,
    bound: Vec<PathBuf>,
}

impl World {
    /// Makes a tree in an empty directory; with binds if the caller may mount.
    pub(crate) fn make(base: &Path, dice: &mut Dice, may_mount: bool) -> io::Result<Self> {
        let mut world = Self { base: base.to_owned(), nodes: Vec::new(), bound: Vec::new() };
        for root in 0..=dice.below(3) {
            let root = base.join(format!("root{root}"));
            world.directory(root.clone())?;
            world.grow(&root, dice, 0)?;
        }
        if may_mount && dice.percent(40) {
            world.bind(dice)?;
        }
        for _ in 0..dice.below(8) {
            world.link(dice)?;
        }
        Ok(world)
    }

    fn directory(&mut self, path: PathBuf) -> io::Result<()> {
        fs::create_dir(&path)?;
        self.nodes.push(Node { path, kind: Kind::Directory });
        Ok(())
    }

    fn grow(&mut self, directory: &Path, dice: &mut Dice, depth: usize) -> io::Result<()> {
        for _ in 0..=dice.below(4) {
            let path = directory.join(name(dice));
            if fs::symlink_metadata(&path).is_ok() {
                continue;
            }
            if depth < 3 && dice.percent(45) {
                self.directory(path.clone())?;
                self.grow(&path, dice, depth + 1)?;
            } else {
                self.file(path, dice)?;
            }
        }
        Ok(())
    }

    /// A file that says which one it is; some can be executed, some are a second name.
    fn file(&mut self, path: PathBuf, dice: &mut Dice) -> io::Result<()> {
        let files: Vec<_> = self.of(Kind::File).cloned().collect();
        let wanted = !files.is_empty() && dice.percent(15);
        // No second name on another mount.
        let linked = wanted && fs::hard_link(dice.pick(&files), &path).is_ok();
        if !linked {
            fs::write(&path, format!("#!{PROBER} nothing\n<{}>\n", self.nodes.len()))?;
            let mode = if dice.percent(40) { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        }
        self.nodes.push(Node { path, kind: Kind::File });
        Ok(())
    }

    fn link(&mut self, dice: &mut Dice) -> io::Result<()> {
        let directories: Vec<_> = self.of(Kind::Directory).cloned().collect();
        let path = dice.pick(&directories).join(name(dice));
        let other = dice.pick(&self.nodes).path.clone();
        let up = |count: usize| PathBuf::from("../".repeat(count));
        let target = match dice.below(8) {
            0..=2 => other,
            3..=4 => match (other.strip_prefix(&self.base), path.strip_prefix(&self.base)) {
                (Ok(other), Ok(own)) => up(own.components().count() - 1).join(other),
                _ => other,
            },
            5 => PathBuf::from("nowhere"),
            6 => path.clone(),
            _ => up(12).join("elsewhere").join(name(dice)),
        };
        if fs::symlink_metadata(&path).is_err() {
            symlink(target, &path)?;
            self.nodes.push(Node { path, kind: Kind::Link });
        }
        Ok(())
    }

    /// Mounts a directory that lies in no root over one that does.
    fn bind(&mut self, dice: &mut Dice) -> io::Result<()> {
        let directories: Vec<_> = self.of(Kind::Directory).cloned().collect();
        let (from, to) =
            (self.base.join("bound"), dice.pick(&directories).join("where it is bound"));
        fs::create_dir(&from)?;
        self.directory(to.clone())?;
        rustix::mount::mount_bind(&from, &to)?;
        self.bound.push(to.clone());
        self.grow(&to, dice, 2)
    }

    /// Whether the host has mounted something there, which nobody may move or remove.
    pub(crate) fn is_bound(&self, path: &Path) -> bool {
        self.bound.iter().any(|bound| bound == path)
    }

    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = &PathBuf> {
        self.nodes.iter().filter(move |node| node.kind == kind).map(|node| &node.path)
    }

    /// Everything that a change would show in: names, what they are, and what files hold.
    pub(crate) fn picture(&self) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
        let mut picture = Vec::new();
        let mut directories = vec![self.base.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                let (path, kind) = (entry.path(), entry.file_type()?);
                let holds = if kind.is_dir() {
                    directories.push(path.clone());
                    b"directory".to_vec()
                } else if kind.is_symlink() {
                    fs::read_link(&path)?.into_os_string().into_vec()
                } else {
                    fs::read(&path)?
                };
                picture.push((path, holds));
            }
        }
        picture.sort();
        Ok(picture)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for path in &self.bound {
            // What stays mounted shows when the directory cannot be removed.
            let _ = rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

fn name(dice: &mut Dice) -> OsString {
    const NAMES: [&[u8]; 16] = [
        b"a",
        b"a",
        b"ab",
        b"b",
        b"c",
        b".env",
        b".git",
        b"two words",
        b"new\nline",
        b"-f",
        b"back\\slash",
        "ünï".as_bytes(),
        b"\xff\xfe",
        b"..x",
        b"*",
        b"tab\t",
    ];
    if dice.percent(3) {
        return OsString::from_vec(vec![b'l'; 255]);
    }
    OsString::from_vec(dice.pick(&NAMES).to_vec())
}

/// A policy that the authority accepts and whose mounts have somewhere to go.
pub(crate) fn policy(world: &World, dice: &mut Dice) -> Authority {
    for _ in 0..200 {
        let builder = (0..=dice.below(4)).fold(
            Authority::builder(Subject::AgentSession { agent: "prober".into() }),
            |builder, number| builder.grant(grant(world, number, dice)),
        );
        let restrictions = dice.below(6);
        let builder = (0..restrictions).fold(builder, |builder, _| restrict(builder, world, dice));
        let Ok(authority) = builder.build(SystemTime::now()) else { continue };
        if has_places(&authority) {
            return authority;
        }
    }
    let grant = Grant::new(
        root(0, &world.nodes[0].path, &world.nodes[0].path),
        Access::FULL,
        Origin::Default,
    );
    let builder = Authority::builder(Subject::Core).grant(grant);
    builder.build(SystemTime::now()).expect("one grant contradicts nothing")
}

fn root(number: usize, host: &Path, inside: &Path) -> Root {
    Root {
        id: RootId::new(format!("grant {number}")),
        kind: RootKind::Workspace,
        host: HostPath::new(host).expect("nodes have absolute paths"),
        inside: InsidePath::new(inside).expect("nodes have absolute paths"),
    }
}

fn grant(world: &World, number: usize, dice: &mut Dice) -> Grant {
    let kind = if dice.percent(80) { Kind::Directory } else { Kind::File };
    let nodes: Vec<_> = world.of(kind).collect();
    let host = if nodes.is_empty() { &world.nodes[0].path } else { *dice.pick(&nodes) };
    let inside = match dice.below(10) {
        0 => PathBuf::from(format!("/elsewhere/{number}")),
        1 => PathBuf::from(format!("/elsewhere/{}/deep", dice.below(3))),
        2 if !nodes.is_empty() => (*dice.pick(&nodes)).clone(),
        _ => host.clone(),
    };
    let access = if dice.percent(50) { Access::FULL } else { Access::READ_ONLY };
    Grant::new(root(number, host, &inside), access, Origin::Default)
}

fn restrict(builder: AuthorityBuilder, world: &World, dice: &mut Dice) -> AuthorityBuilder {
    let host = HostPath::new(&dice.pick(&world.nodes).path).expect("nodes have absolute paths");
    builder.restrict(Restriction {
        host,
        effect: if dice.percent(50) { Effect::Hide } else { Effect::ReadOnly },
        reason: Reason { why: Why::Denied, text: "the dice say so".into(), opt_in: None },
        source: Origin::Default,
    })
}

/// Whether each grant that lies in another has something of its kind to be mounted on (settings
/// grant what exists where it exists, and so do we), and does not show its own mount point: then
/// a name could be moved and not be moved back.
fn has_places(authority: &Authority) -> bool {
    authority.grants().all(|grant| {
        let (host, inside) = (grant.root.host.as_path(), &grant.root.inside);
        let Some(above) = inside.parent() else { return false };
        let Some(outer) = authority.governing(&above) else { return true };
        let Some(place) = outer.host_of(inside) else { return false };
        let place = place.as_path();
        let is_real = fs::canonicalize(place).is_ok_and(|real| real == place);
        let shows_itself = place != host && place.starts_with(host);
        is_real && !shows_itself && place.is_dir() == host.is_dir()
    })
}
