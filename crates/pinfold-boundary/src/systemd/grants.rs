//! What of the host a unit gets, and the plan as seen from in there.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_runner::Refusal;
use pinfold_runner::grant::is_in;
use pinfold_runner::request::Wanted;

use super::{Terms, home};
use crate::LaunchError;
use crate::managed::errand::Look;
use crate::namespace::{self, HANDED};
use crate::plan::{Changes, Entry, LaunchPlan, Lower, Place};

/// What a unit shows its processes otherwise than the host does (`ProtectHome`, `PrivateTmp`, `PrivateDevices`).
const OTHER_THERE: [&str; 6] = ["/home", "/root", "/run/user", "/tmp", "/var/tmp", "/dev"];

/// The grants of a plan.
#[derive(Default)]
pub(super) struct Grants {
    /// What the runner is to mount.
    pub(super) wanted: Vec<Wanted>,
    /// Descriptors of these files and directories.
    pub(super) files: Vec<OwnedFd>,
    /// What the unit sees by its name.
    pub(super) looks: Vec<Look>,
}

/// The number of the mount that has caches of tools. The request's come next.
const CACHES: usize = 0;

/// How a grant is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// As everybody may use it.
    Read,
    /// As its owner reads it.
    Own,
    /// As its owner writes to it.
    Write,
}

impl Grants {
    /// Lists them, and puts what stands for the runner's mounts into the plan. What lies in a directory that the
    /// policy gives comes from the runner; the rest is the system's, which the service user reads by its name.
    ///
    /// # Errors
    /// Returns a path that is not there, to which a link leads, or that the policy does not give.
    pub(super) fn make(plan: &mut LaunchPlan, terms: &Terms) -> Result<Self, LaunchError> {
        let mut grants = Self::default();
        let mut links = Vec::new();
        for entry in &mut plan.tree {
            if let Place::ReadOnly(host) | Place::Writable(host) = &entry.place
                && terms.projects().any(|root| host.as_path().starts_with(root))
            {
                links.push(host.as_path().to_owned());
            }
            match &mut entry.place {
                Place::ReadOnly(host) | Place::System(host) => {
                    grants.put(host, Use::Read, terms)?
                }
                Place::Writable(host) => grants.put(host, Use::Write, terms)?,
                Place::Overlay { lower, changes } => {
                    for layer in lower {
                        match layer {
                            Lower::Owned(host) => grants.put(host, Use::Own, terms)?,
                            Lower::Foreign(host) => grants.put(host, Use::Read, terms)?,
                        }
                    }
                    if let Changes::Kept(host) = changes {
                        grants.put(host, Use::Write, terms)?;
                    }
                }
                Place::Private | Place::File { .. } | Place::Symlink(_) => {}
            }
        }
        let home = plan.identity.home.as_path();
        let mut add = |path: PathBuf, place: Place| -> Result<(), LaunchError> {
            let failed = |error| LaunchError::Source {
                path: path.display().to_string(),
                source: std::io::Error::other(error),
            };
            let path = InsidePath::new(path.clone()).map_err(failed)?;
            if !plan.tree.iter().any(|entry| entry.path == path) {
                plan.tree.push(Entry { path, place });
            }
            Ok(())
        };
        let caches = HostPath::new(format!("{HANDED}/{CACHES}")).map_err(|error| {
            LaunchError::Source { path: HANDED.to_owned(), source: std::io::Error::other(error) }
        })?;
        add(home.join(".cache"), Place::Writable(caches))?;
        for project in links {
            let link = home.join("projects").join(home::alias(&project));
            add(link, Place::Symlink(project.into()))?;
        }
        Ok(grants)
    }

    fn put(&mut self, host: &mut HostPath, how: Use, terms: &Terms) -> Result<(), LaunchError> {
        let failed = |source| LaunchError::Source { path: host.to_string(), source };
        let opened = namespace::open_host(host.as_path()).map_err(|errno| failed(errno.into()))?;
        let path = host.as_path().to_owned();
        if is_in(&terms.directories, &path) {
            let standing = format!("{HANDED}/{}", CACHES + 1 + self.wanted.len());
            *host =
                HostPath::new(standing).map_err(|error| failed(std::io::Error::other(error)))?;
            self.wanted.push(Wanted { path, is_writable: how == Use::Write });
            self.files.push(opened);
            return Ok(());
        }
        if how != Use::Read || is_other_there(&path, &terms.policy.state_dir) {
            return Err(not_given(&path, terms).into());
        }
        let found = rustix::fs::fstat(opened).map_err(|errno| failed(errno.into()))?;
        self.looks.push(Look { path, identity: (found.st_dev, found.st_ino) });
        Ok(())
    }
}

fn is_other_there(path: &Path, state: &Path) -> bool {
    OTHER_THERE.iter().map(Path::new).chain([state]).any(|other| path.starts_with(other))
}

fn not_given(path: &Path, Terms { account, service, directories, .. }: &Terms) -> Refusal {
    let given: Vec<_> = directories.iter().map(PathBuf::as_path).map(Path::display).collect();
    let given: Vec<String> = given.iter().map(ToString::to_string).collect();
    Refusal::new(
        format!(
            "{} is in no project of {}, and {} cannot use it",
            path.display(),
            account.name,
            service.name
        ),
        format!("the administrator gives: {}", given.join(", ")),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::is_other_there;

    #[test]
    fn system_is_read_by_its_name_and_homes_are_not() {
        let is_other = |path: &str| is_other_there(Path::new(path), Path::new("/var/lib/pi-agent"));
        for path in
            ["/home/bob/x", "/root", "/tmp/x", "/run/user/1000/bus", "/var/lib/pi-agent/users/bob"]
        {
            assert!(is_other(path), "{path}");
        }
        for path in ["/usr", "/etc/ssl/certs", "/var/lib/pi", "/homes", "/opt/tool"] {
            assert!(!is_other(path), "{path}");
        }
    }
}
