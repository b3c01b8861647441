//! Which diary is meant, and what must not be in it.

use clap::Args;
use pinfold_content::SystemClock;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_mcp::{Agent, Purpose};
use pinfold_memory::{Diary, DiaryName, DiaryStore, KnownSecrets};
use pinfold_personal::identity::PrivateFiles;
use pinfold_policy::settings::BaseUrl;
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
    /// Use the diary on this machine, also where the settings name a server
    #[arg(long, help_heading = "Diary")]
    local: bool,
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

    /// Opens the diary, on the server that the settings name or here. One here is made if it is missing.
    pub(crate) fn open(
        &self,
        scene: &Scene<'_>,
        purpose: Purpose,
    ) -> Result<Box<dyn DiaryStore>, Failure> {
        match self.server(scene)? {
            Some(server) => self.served(&server, scene, purpose),
            None => Ok(Box::new(self.open_here(scene, purpose)?)),
        }
    }

    /// Opens the diary on this machine, and makes it if it is missing.
    pub(crate) fn open_here(&self, scene: &Scene<'_>, purpose: Purpose) -> Result<Diary, Failure> {
        let signer =
            if purpose == Purpose::Sign { self.agent(scene, purpose)?.signer } else { None };
        let settings = SettingsFiles::read(scene.places)?.own()?;
        let diary = Diary::open(scene.places, &self.name()?, Box::new(SystemClock))?;
        Ok(diary.signed_by(signer).limited(pinfold_mcp::limits(&settings.diary))?)
    }

    fn server(&self, scene: &Scene<'_>) -> Result<Option<BaseUrl>, Failure> {
        let server = SettingsFiles::read(scene.places)?.own()?.diary.server;
        Ok(server.map(|server| server.value).filter(|_| !self.local))
    }

    fn served(
        &self,
        server: &BaseUrl,
        scene: &Scene<'_>,
        purpose: Purpose,
    ) -> Result<Box<dyn DiaryStore>, Failure> {
        let agent = self.agent(scene, purpose)?;
        Ok(Box::new(pinfold_mcp::served(server, (&*self.diary).into(), agent, purpose)?))
    }

    /// Returns what the identity has for diaries, if one is named.
    fn agent(&self, scene: &Scene<'_>, purpose: Purpose) -> Result<Agent, Failure> {
        let Some(name) = &self.identity else { return Ok(Agent::default()) };
        let workspace = prepare::workspace(scene.places)?;
        let private = PrivateFiles::find(name, &workspace).map_err(tools::refused)?;
        let agent = tools::agent(Some(&private))?;
        if purpose == Purpose::Sign && agent.signer.is_none() {
            return Err(Failure::new(format!("the identity {name} has no key in moltnet.json")));
        }
        Ok(agent)
    }

    /// Opens the diary if there is one. A command that only looks makes none.
    pub(crate) fn existing(
        &self,
        scene: &Scene<'_>,
    ) -> Result<Option<Box<dyn DiaryStore>>, Failure> {
        let is_there = self.server(scene)?.is_some() || self.name()?.is_there(scene.places);
        is_there.then(|| self.open(scene, Purpose::Read)).transpose()
    }

    /// Opens the diary that has to be there.
    pub(crate) fn required(
        &self,
        scene: &Scene<'_>,
        purpose: Purpose,
    ) -> Result<Box<dyn DiaryStore>, Failure> {
        match self.server(scene)? {
            Some(server) => self.served(&server, scene, purpose),
            None => Ok(Box::new(self.required_here(scene)?)),
        }
    }

    /// Opens the diary that has to be on this machine.
    pub(crate) fn required_here(&self, scene: &Scene<'_>) -> Result<Diary, Failure> {
        if self.name()?.is_there(scene.places) {
            return self.open_here(scene, Purpose::Write);
        }
        Err(Failure::new(format!("there is no diary `{}`", self.diary))
            .hint(Some("`pinfold memory add` makes one".to_owned())))
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
