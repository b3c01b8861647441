//! Whose name the sandbox works in: an identity directory of the repository's owner.
//!
//! `.moltnet/NAME/`, or `.pinfold/identities/NAME/`, in the root of the main worktree. A repository
//! can hold such a directory as well as its owner can, so one that git tracks is refused, and so
//! is one that another user owns or can write to. No symbolic link in it is followed.

mod directory;
mod inject;
pub mod variables;

use std::path::{Path, PathBuf};

use pinfold_boundary::Entry;
use pinfold_git::config::{Config, Setting};
use pinfold_git::github::configuration;
use pinfold_git::user_config;
use pinfold_host::directories::Places;
use pinfold_policy::env::{EnvLayer, EnvVar};
use pinfold_policy::origin::Origin;
use pinfold_policy::settings::{IdentityMode, Settings};
use pinfold_terminal::notify;
use pinfold_worktree::workspace::Workspace;
use zeroize::Zeroizing;

use self::directory::Directory;
use crate::refusal;
use pinfold_host::Refusal;

/// The variable that names an identity's diary.
const DIARY: &str = "MOLTNET_DIARY_ID";
const ORIGIN: Origin = Origin::Flag { name: "--identity" };

/// What a run in somebody's name needs.
#[derive(Debug, Default)]
pub struct Identity {
    /// Variables that enter.
    pub env: Vec<EnvVar>,
    /// Files that enter; none in the mode `brokered`.
    pub files: Vec<Entry>,
    /// The key that signs outside, if there is one; none in the mode `inject`.
    pub key: Option<PathBuf>,
    /// What the identity says about when git signs.
    pub signing: Vec<Setting>,
    /// Its directory, for what stays outside; none in the mode `inject`.
    pub private: Option<PrivateFiles>,
}

/// The directory of an identity, as it was checked.
#[derive(Debug)]
pub struct PrivateFiles(Directory);

impl PrivateFiles {
    /// Finds the identity of this name.
    ///
    /// # Errors
    /// Returns an error for a directory that is missing, or that cannot be trusted.
    pub fn find(name: &str, workspace: &Workspace) -> Result<Self, Refusal> {
        Directory::find(name, workspace).map(Self)
    }

    /// Returns the diary that the identity's `env` names, by its id.
    ///
    /// # Errors
    /// Returns an error for a file that others can read or write, or a name that is no UUID.
    pub fn diary(&self) -> Result<Option<String>, Refusal> {
        let file = self.0.secret(Path::new("env"))?;
        let shown = self.0.shown("env");
        let all = variables::parse(&shown, &file)?;
        let named = all.into_iter().rev().find(|(name, _)| name.as_str() == DIARY);
        let Some((_, id)) = named.filter(|(_, id)| !id.is_empty()) else { return Ok(None) };
        let groups = id.split('-').map(str::len);
        let is_digit = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        if !groups.eq([8, 4, 4, 4, 12]) || !id.bytes().all(is_digit) {
            return Err(refusal(format!("{shown}: {DIARY}: expected a UUID"), None));
        }
        Ok(Some(id.to_ascii_lowercase()))
    }

    /// Reads `moltnet.json`, in which the identity's key is.
    ///
    /// # Errors
    /// Returns an error for a file that is missing, or that others can read or write.
    pub fn moltnet(&self) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        self.0.secret(Path::new("moltnet.json"))
    }
}

impl Identity {
    /// Returns the identity that the settings name.
    ///
    /// # Errors
    /// Returns an error for a directory that is missing or incomplete, or that cannot be trusted, each
    /// with the hint.
    pub fn find(settings: &Settings, workspace: &Workspace) -> Result<Option<Self>, Refusal> {
        let Some(name) = &settings.scalars.identity else { return Ok(None) };
        let directory = Directory::find(&name.value, workspace)?;
        let identity = match settings.scalars.identity_mode.value {
            IdentityMode::Brokered => Self::brokered(directory)?,
            IdentityMode::Inject => inject::inject(&directory)?,
        };
        Ok(Some(identity))
    }

    /// Returns who commits, and the key that signs, which stays outside with everything that is secret.
    fn brokered(directory: Directory) -> Result<Self, Refusal> {
        directory.require(Path::new("moltnet.json"))?;
        let file = directory.secret(Path::new("env"))?;
        let mut env = variables::public(&directory.shown("env"), &file)?;
        let config = match directory.read(Path::new("gitconfig"))? {
            Some(bytes) => Config::parse(&bytes),
            None => Config::default(),
        };
        if config.broken {
            let what = format!("{} cannot be read as git reads it", directory.shown("gitconfig"));
            return Err(refusal(what, None));
        }
        env.extend(author(&config, EnvLayer::Identity, &ORIGIN));
        let key = directory.path(Path::new("ssh/id_ed25519"))?;
        let signs =
            |setting: &Setting| matches!(setting.key.as_str(), "commit.gpgsign" | "tag.gpgsign");
        let signing = config.settings.into_iter().filter(signs).collect();
        if key.is_none() {
            let key = directory.shown("ssh/id_ed25519");
            notify!("pinfold: note: there is no {key}, so nothing is signed in this run");
        }
        let private = Some(PrivateFiles(directory));
        Ok(Self { env, files: Vec::new(), key, signing, private })
    }
}

/// Returns the variables that say who commits, in sessions of a group: as git on the host would have it.
/// Every other way to say it wins over them.
pub fn author_of_group(settings: &Settings, workspace: &Workspace, places: &Places) -> Vec<EnvVar> {
    let Some(group) = &settings.scalars.group else { return Vec::new() };
    let mut all = Config::of(user_config::files(places));
    all.settings.extend(configuration(&workspace.git_directory()).settings);
    author(&all, EnvLayer::Profile, &group.origin).collect()
}

/// Returns the variables that say who commits.
fn author(
    config: &Config,
    layer: EnvLayer,
    origin: &Origin,
) -> impl Iterator<Item = EnvVar> + use<> {
    let of = |key: &str, names: [&str; 2]| {
        let value = config.last(key);
        let names = names.into_iter().filter_map(|name| name.parse().ok());
        let variable = |name| {
            let (value, origin) = (value.clone()?, origin.clone());
            Some(EnvVar { name, value, layer, origin })
        };
        names.filter_map(variable).collect::<Vec<_>>()
    };
    let name = of("user.name", ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"]);
    let email = of("user.email", ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"]);
    name.into_iter().chain(email)
}

#[cfg(test)]
mod tests;
