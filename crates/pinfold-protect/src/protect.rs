//! What in a granted directory must look different inside, by its name or its nature.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pinfold_host::beneath::join_beneath;
use pinfold_names::{
    Class, DIRECTORY_ENVIRONMENT, Folded, Protection, Site, may_be_on_build, on_build,
};
use pinfold_policy::authority::{Effect, Reason, Why};
use pinfold_policy::origin::Origin;
use pinfold_policy::settings::FileSettings;
use rustix::fs::FileType;

use crate::own::Own;
use crate::set_aside::is_set_aside;
use crate::survey::{Listing, Tag};

/// Where packages are installed. What lies in them is code that the host runs as soon as it uses
/// them, so their editor settings add nothing; the keys in them were published with them; and
/// package managers move and remove these directories, which a mount in them would forbid.
pub const INSTALLED: [&[u8]; 2] = [b"node_modules", b"site-packages"];
/// Directories of a git directory that hold only what git made, or that are masked as a whole.
const OF_GIT: [&[u8]; 7] = [b"objects", b"refs", b"logs", b"lfs", b"rr-cache", b"hooks", b"info"];

/// What kind of place a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// Files that people and programs work with.
    Tree,
    /// Installed packages.
    Installed,
    /// A git directory.
    Git,
    /// Within a git directory: git directories of submodules and worktrees.
    WithinGit,
}

impl Tag for Zone {
    fn tag(&self) -> u8 {
        match self {
            Self::Tree => 0,
            Self::Installed => 1,
            Self::Git => 2,
            Self::WithinGit => 3,
        }
    }

    fn of_tag(tag: u8) -> Option<Self> {
        [Self::Tree, Self::Installed, Self::Git, Self::WithinGit].get(usize::from(tag)).copied()
    }
}

/// Which of the two looks at a granted directory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Before the command starts: what is found will be masked, so what lies in something hidden
    /// need not be found.
    Before,
    /// After everything has ended: what is new has been masked for nobody.
    After,
}

/// Something that the walk found.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Absolute, on the host.
    pub path: PathBuf,
    /// What it is; a link is a link.
    pub kind: FileType,
    /// What it means.
    pub what: What,
}

impl Finding {
    /// Returns the path of settings of the shell's directory hook.
    pub fn directory_hook(&self) -> Option<&Path> {
        let What::Named(class) = &self.what else { return None };
        let opt_in = class.executed()?.reason().opt_in;
        let is_it = self.kind != FileType::Directory
            && opt_in.is_some_and(|it| it == DIRECTORY_ENVIRONMENT);
        is_it.then_some(&self.path)
    }
}

/// What a finding means.
#[derive(Debug, Clone)]
pub enum What {
    /// A socket or FIFO: a bind mount leaves it connected to its listener on the host.
    Socket,
    /// Its name is protected.
    Named(Class),
    /// It is a link with the name of a directory in which names are protected.
    Leads(Vec<(&'static Path, Class)>),
    /// The user or the administrator denied it.
    Denied(Reason, Origin),
    /// An earlier session's look set it aside.
    SetAside,
    /// It is another name of a file of pinfold's own.
    Own,
    /// A git directory.
    GitDirectory,
    /// A `.git` that is not a directory.
    GitFile,
    /// A directory of a tree that git takes for a repository although it is not called `.git`.
    BareRepository,
}

/// The rules by which names are judged.
#[derive(Debug)]
pub struct Rules<'a> {
    /// Which names are protected.
    pub protection: Protection,
    /// What the settings say of files.
    pub files: &'a FileSettings,
    /// What is pinfold's own.
    pub own: &'a Own,
    /// Granted roots: each is walked on its own, and what is granted by name is wanted.
    pub roots: Vec<PathBuf>,
}

/// Judges the listings of one granted root.
pub struct Surveyor<'a> {
    rules: &'a Rules<'a>,
    root: &'a Path,
    site: &'a Site,
    writable: bool,
    look: Look,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What tools on the host run on a build, in a writable root.
    pub built: Vec<PathBuf>,
    /// Last components of the granted roots.
    root_names: Vec<&'a [u8]>,
}

impl<'a> Surveyor<'a> {
    /// Judges names below a granted directory.
    pub fn new(
        rules: &'a Rules<'a>,
        root: &'a Path,
        site: &'a Site,
        writable: bool,
        look: Look,
    ) -> Self {
        // Only a root within this one is met in it.
        let within = rules.roots.iter().filter(|other| *other != root && other.starts_with(root));
        let names = within.filter_map(|other| other.file_name()).map(OsStr::as_bytes);
        let root_names = names.collect();
        let (findings, built) = (Vec::new(), Vec::new());
        Self { rules, root, site, writable, look, findings, built, root_names }
    }

    /// Returns whether a name that means nothing by itself may mean something to these rules.
    pub fn needs_all_names(&self) -> bool {
        !self.rules.files.deny.is_empty()
            || !self.root_names.is_empty()
            || self.rules.own.has_linked()
    }

    /// Judges one directory and names those below that are to be looked at.
    pub fn visit(&mut self, listing: &Listing, zone: Zone, below: &mut Vec<(Vec<u8>, Zone)>) {
        match zone {
            Zone::Git => self.git_directory(listing, below),
            Zone::WithinGit if is_git_layout(listing) => self.git_directory(listing, below),
            Zone::WithinGit => self.names(listing, zone, below),
            Zone::Tree | Zone::Installed => {
                // What looks like git is protected as git, and looked at as any other directory.
                if is_git_layout(listing) {
                    let path = listing.path().to_owned();
                    self.found(path, FileType::Directory, What::BareRepository);
                }
                self.names(listing, zone, below);
            }
        }
    }

    /// Protects a git directory. What git does not take for a repository yet has nothing to be copied; the
    /// look at the end
    /// sees what became of it.
    fn git_directory(&mut self, listing: &Listing, below: &mut Vec<(Vec<u8>, Zone)>) {
        if self.look == Look::After || is_git_layout(listing) {
            self.found(listing.path().to_owned(), FileType::Directory, What::GitDirectory);
        }
        self.names(listing, Zone::WithinGit, below);
        below.retain(|(name, _)| !OF_GIT.contains(&name.as_slice()));
    }

    /// Finds further names of pinfold's own files: their content is the same whatever they are
    /// called.
    fn own(&mut self, listing: &Listing) {
        for (name, kind, number) in listing.inodes() {
            if kind != FileType::RegularFile || !self.rules.own.may_hold(number) {
                continue;
            }
            let relative = join_beneath(listing.path(), Path::new(OsStr::from_bytes(name)));
            if self.rules.own.has_several(&self.root.join(&relative)) {
                self.found(relative, kind, What::Own);
            }
        }
    }

    fn names(&mut self, listing: &Listing, zone: Zone, below: &mut Vec<(Vec<u8>, Zone)>) {
        if self.rules.own.has_linked() {
            self.own(listing);
        }
        for (name, kind) in listing.entries() {
            let folded = Folded::of(name);
            let judged = self.judge(listing.path(), name, &folded, kind, zone);
            self.note_built(listing.path(), name, &folded, zone);
            if kind != FileType::Directory || judged == Judged::Gone {
                continue;
            }
            let zone = match zone {
                Zone::Tree | Zone::Installed if name == b".git" => Zone::Git,
                Zone::Tree if INSTALLED.contains(&name) => Zone::Installed,
                Zone::Tree | Zone::Installed | Zone::Git | Zone::WithinGit => zone,
            };
            below.push((name.to_vec(), zone));
        }
    }

    fn note_built(&mut self, directory: &Path, name: &[u8], folded: &Folded<'_>, zone: Zone) {
        let is_seen = zone == Zone::Tree || (zone == Zone::Installed && name == b".bin");
        if self.writable && is_seen && may_be_on_build(folded) {
            let relative = join_beneath(directory, Path::new(OsStr::from_bytes(name)));
            if on_build(&relative).is_some() {
                self.built.push(join_beneath(self.root, &relative));
            }
        }
    }

    fn judge(
        &mut self,
        directory: &Path,
        name: &[u8],
        folded: &Folded<'_>,
        kind: FileType,
        zone: Zone,
    ) -> Judged {
        let in_tree = matches!(zone, Zone::Tree | Zone::Installed);
        let by_kind = match kind {
            _ if self.look == Look::Before && is_set_aside(name) => Some(What::SetAside),
            FileType::Socket | FileType::Fifo => Some(What::Socket),
            FileType::Directory => None,
            _ if in_tree && name == b".git" => Some(What::GitFile),
            _ => None,
        };
        let may_lead = zone == Zone::Tree && kind == FileType::Symlink && self.writable;
        let by_name = zone == Zone::Tree && Protection::may_match(folded);
        if by_kind.is_none()
            && !by_name
            && !may_lead
            && self.rules.files.deny.is_empty()
            && !self.root_names.contains(&name)
        {
            return Judged::Stays;
        }
        let relative = join_beneath(directory, Path::new(OsStr::from_bytes(name)));
        let host = self.root.join(&relative);
        if kind != FileType::Symlink && self.rules.roots.contains(&host) {
            return Judged::Gone;
        }
        let denied = || {
            let files = &self.rules.files.deny;
            let glob = files.iter().find(|glob| glob.value.matches(&relative))?;
            let text = format!("denied by \"{}\"", glob.value).into();
            let reason = Reason { why: Why::Denied, text, opt_in: None };
            Some(What::Denied(reason, glob.origin.clone()))
        };
        let named = || {
            let class = self.rules.protection.classify(self.site, &relative).filter(|_| by_name)?;
            let is_meant = kind != FileType::Directory || !class.is_only_of_files();
            if !is_meant {
                return None;
            }
            (self.writable || class.effect() == Effect::Hide).then_some(What::Named(class))
        };
        let leads = || {
            let led = may_lead.then(|| self.rules.protection.leads_to(self.site, &relative));
            led.filter(|led| !led.is_empty()).map(What::Leads)
        };
        let is_wanted = |what: &What| {
            let sockets = &self.rules.files.sockets;
            matches!(what, What::Socket) && sockets.iter().any(|s| s.value.as_path() == host)
        };
        let what =
            denied().or(by_kind).or_else(named).or_else(leads).filter(|what| !is_wanted(what));
        let hidden = self.look == Look::Before && what.as_ref().is_some_and(What::hides);
        if let Some(what) = what {
            self.found(relative, kind, what);
        }
        if hidden { Judged::Gone } else { Judged::Stays }
    }

    fn found(&mut self, relative: PathBuf, kind: FileType, what: What) {
        let path = join_beneath(self.root, &relative);
        self.findings.push(Finding { path, kind, what });
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    /// It is there inside, so what lies in it is looked at.
    Stays,
    /// It is hidden, or a grant of its own.
    Gone,
}

impl What {
    fn hides(&self) -> bool {
        match self {
            Self::Socket | Self::Denied(..) | Self::SetAside | Self::Own => true,
            Self::Named(class) => class.effect() == Effect::Hide,
            Self::Leads(_) | Self::GitDirectory | Self::GitFile | Self::BareRepository => false,
        }
    }
}

/// Returns whether git takes this for a git directory (`is_git_directory` in its setup.c): a HEAD, and the rest
/// here or where `commondir` says.
fn is_git_layout(listing: &Listing) -> bool {
    listing.kind(b"HEAD").is_some()
        && (listing.kind(b"commondir").is_some()
            || (listing.kind(b"objects").is_some() && listing.kind(b"refs").is_some()))
}
