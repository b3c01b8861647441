//! What a session may do in a stack, in words.

use std::io;
use std::path::{Path, PathBuf};

use pinfold_policy::access::Access;
use pinfold_policy::authority::{Authority, Entry, Explanation, HostTree, Kind, Tree, Verdict};
use pinfold_policy::path::{HostPath, PathError};

use super::{Found, Stack};
use crate::linked::{self, Links};

const OF_HOST: &str = "a file of this machine's own system, which can be replaced but not changed";
const WAY_OUT: &str = "put a copy in place first (cp -p F F.own && mv F.own F)";

impl Stack {
    /// Decides an access to a path in a sandbox that has this system, and says why. A grant of a system names its
    /// uppermost tree alone, so what is there is looked up in all of them.
    ///
    /// # Errors
    /// Returns an error when the path is relative or contains a NUL byte.
    pub fn explain(
        &self,
        authority: &Authority,
        links: &Links,
        access: Access,
        path: &Path,
    ) -> Result<Explanation, PathError> {
        let mut explanation = linked::explain(authority, self, links, access, path)?;
        let host = explanation.host.as_ref().map(HostPath::as_path);
        if host.is_none_or(|host| self.place_of(host).is_none()) {
            return Ok(explanation);
        }
        explanation.note = Some("what is changed there goes with the session".to_owned());
        if let Some((_, file)) = self.locate(explanation.inside.as_path()) {
            let is_foreign = self.place_of(&file).is_none();
            explanation.exists = true;
            explanation.host = HostPath::new(file).ok();
            if is_foreign && access.intersects(Access::CHANGING) {
                explanation.verdict = Verdict::Deny;
                explanation.reason = Some(OF_HOST.to_owned());
                explanation.hint = Some(WAY_OUT.to_owned());
            }
        }
        Ok(explanation)
    }

    /// Returns the place of a path of the host's in the tree that has it.
    fn place_of<'a>(&self, host: &'a Path) -> Option<&'a Path> {
        self.trees.iter().find_map(|tree| host.strip_prefix(tree).ok())
    }
}

/// The host's files, where what lies in one of the trees is what all of them show.
impl Tree for Stack {
    fn entry(&self, path: &HostPath) -> io::Result<Option<Entry>> {
        let Some(place) = self.place_of(path.as_path()) else { return HostTree.entry(path) };
        match self.found(place) {
            Some(Found::Link(target)) => {
                let size = target.as_os_str().len() as u64;
                Ok(Some(Entry { kind: Kind::Symlink, links: 1, size }))
            }
            Some(Found::File(file)) => {
                HostTree.entry(&HostPath::new(file).map_err(super::invalid)?)
            }
            Some(Found::Directory(_)) => {
                Ok(Some(Entry { kind: Kind::Directory, links: 1, size: 0 }))
            }
            None => Ok(None),
        }
    }

    fn read_link(&self, path: &HostPath) -> io::Result<PathBuf> {
        match self.place_of(path.as_path()).map(|place| self.found(place)) {
            Some(Some(Found::Link(target))) => Ok(target),
            _ => HostTree.read_link(path),
        }
    }
}
