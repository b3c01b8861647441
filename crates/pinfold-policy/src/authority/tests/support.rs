use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::access::Access;
use crate::authority::{
    Authority, AuthorityError, Decision, Effect, Entry, Grant, Kind, Reason, Restriction, Root,
    RootId, RootKind, Subject, Tree, Why,
};
use crate::origin::Origin;
use crate::path::{HostPath, InsidePath};

/// A node of a file system in memory.
#[derive(Clone, Debug)]
pub(super) enum Node {
    File { links: u64, size: u64 },
    Directory,
    Link(PathBuf),
}

/// A file system in memory. Parents are made as needed.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryTree(BTreeMap<HostPath, Node>);

impl MemoryTree {
    pub(super) fn file(self, path: &str) -> Self {
        self.with(host(path), Node::File { links: 1, size: 10 })
    }

    pub(super) fn directory(self, path: &str) -> Self {
        self.with(host(path), Node::Directory)
    }

    pub(super) fn link(self, path: &str, target: &str) -> Self {
        self.with(host(path), Node::Link(PathBuf::from(target)))
    }

    pub(super) fn with(mut self, path: HostPath, node: Node) -> Self {
        for ancestor in path.ancestors().skip(1) {
            self.0.entry(ancestor).or_insert(Node::Directory);
        }
        self.0.insert(path, node);
        self
    }
}

impl Tree for MemoryTree {
    fn entry(&self, path: &HostPath) -> io::Result<Option<Entry>> {
        Ok(self.0.get(path).map(|node| match node {
            Node::File { links, size } => Entry { kind: Kind::File, links: *links, size: *size },
            Node::Directory => Entry { kind: Kind::Directory, links: 2, size: 0 },
            Node::Link(_) => Entry { kind: Kind::Symlink, links: 1, size: 0 },
        }))
    }

    fn read_link(&self, path: &HostPath) -> io::Result<PathBuf> {
        match self.0.get(path) {
            Some(Node::Link(target)) => Ok(target.clone()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

pub(super) fn host(path: &str) -> HostPath {
    HostPath::new(path).unwrap()
}

pub(super) fn inside(path: &str) -> InsidePath {
    InsidePath::new(path).unwrap()
}

pub(super) fn grant(at: &str, from: &str, access: Access) -> Grant {
    let root = Root {
        id: RootId::new(at),
        kind: RootKind::Workspace,
        host: host(from),
        inside: inside(at),
    };
    Grant::new(root, access, Origin::Default)
}

pub(super) fn restriction(at: &str, effect: Effect) -> Restriction {
    let reason = Reason {
        why: Why::HostExecutes,
        text: "the host runs it".into(),
        opt_in: Some("it".into()),
    };
    Restriction { host: host(at), effect, reason, source: Origin::Default }
}

pub(super) fn subject() -> Subject {
    Subject::AgentSession { agent: "pi".into() }
}

pub(super) fn build(
    grants: impl IntoIterator<Item = Grant>,
    restrictions: impl IntoIterator<Item = Restriction>,
) -> Result<Authority, AuthorityError> {
    let builder = grants.into_iter().fold(Authority::builder(subject()), |b, g| b.grant(g));
    restrictions.into_iter().fold(builder, |b, r| b.restrict(r)).build(SystemTime::UNIX_EPOCH)
}

/// Returns a workspace that can be written, with one of each restriction, and a read-only /usr.
pub(super) fn workspace() -> Authority {
    build(
        [grant("/w", "/home/me/w", Access::FULL), grant("/usr", "/usr", Access::READ_ONLY)],
        [
            restriction("/home/me/w/.env", Effect::Hide),
            restriction("/home/me/w/.vscode", Effect::ReadOnly),
            restriction("/home/me/w/sub/.git/config", Effect::Private),
        ],
    )
    .unwrap()
}

pub(super) fn decide<'a>(
    authority: &'a Authority,
    tree: &dyn Tree,
    access: Access,
    path: &str,
) -> Decision<'a> {
    authority.decide_path(tree, access, path).unwrap().1
}
