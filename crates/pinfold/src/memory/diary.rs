//! Which diary is meant, and what must not be in it.

use clap::Args;
use pinfold_content::SystemClock;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_memory::{Diary, DiaryName, KnownSecrets, Signer};
use pinfold_personal::identity::PrivateFiles;
use pinfold_secrets::Store;
use pinfold_session::prepare::{self, SettingsFiles};

use super::tools;
use crate::exit::Failure;

// No doc comment: clap would take it for the description of the command.
#[derive(Debug, Args)]
pub(crate) struct DiaryArgs {
    /// The identity whose diary it is; without it, your own
    #[arg(long, value_name = "NAME", help_heading = "Diary")]
    identity: Option<String>,
    /// The diary, by its name or id
    #[arg(long, value_name = "NAME", default_value = DiaryName::DEFAULT, help_heading = "Diary")]
    diary: String,
}

/// What the commands use.
pub(crate) struct Scene<'a> {
    pub(crate) places: &'a Places,
    pub(crate) launcher: &'a Launcher,
}

impl DiaryArgs {
    pub(crate) fn name(&self) -> Result<DiaryName, Failure> {
        DiaryName::new(self.identity.as_deref(), Some(&self.diary)).map_err(Failure::new)
    }

    /// Returns what the diary is called.
    pub(crate) fn shown(&self) -> &str {
        &self.diary
    }

    /// Opens the diary, and makes it if it is missing.
    pub(crate) fn open(&self, scene: &Scene<'_>) -> Result<Diary, Failure> {
        let settings = SettingsFiles::read(scene.places)?.own()?;
        let diary = Diary::open(scene.places, &self.name()?, Box::new(SystemClock))?;
        Ok(diary.limited(pinfold_mcp::limits(&settings.diary))?)
    }

    /// Returns who signs for the identity.
    pub(crate) fn signer(&self, scene: &Scene<'_>) -> Result<Option<Signer>, Failure> {
        let Some(name) = &self.identity else { return Ok(None) };
        let workspace = prepare::workspace(scene.places)?;
        let private = PrivateFiles::find(name, &workspace).map_err(tools::refused)?;
        let signer = tools::signer(&private)?;
        let none = || Failure::new(format!("the identity {name} has no key in moltnet.json"));
        signer.ok_or_else(none).map(Some)
    }

    /// Opens the diary if there is one. A command that only looks makes none.
    pub(crate) fn existing(&self, scene: &Scene<'_>) -> Result<Option<Diary>, Failure> {
        let is_there = self.name()?.is_there(scene.places);
        is_there.then(|| self.open(scene)).transpose()
    }

    /// Opens the diary that has to be there.
    pub(crate) fn required(&self, scene: &Scene<'_>) -> Result<Diary, Failure> {
        self.existing(scene)?.ok_or_else(|| {
            Failure::new(format!("there is no diary `{}`", self.diary))
                .hint(Some("`pinfold memory add` makes one".to_owned()))
        })
    }
}

impl Scene<'_> {
    /// Returns the secrets that must not be remembered.
    pub(crate) fn secrets(&self) -> Result<KnownSecrets, Failure> {
        let store = Store::new(self.places.secrets());
        KnownSecrets::of_store(&store, self.launcher).map_err(|error| {
            let hint =
                "`pinfold secret ls` shows where secrets are, `pinfold secret rm` removes one";
            Failure::new(error).hint(Some(hint.to_owned()))
        })
    }
}
