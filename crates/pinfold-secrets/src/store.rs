//! The store: which source a secret comes from, and its value.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::fallback::fallbacks_for;
use crate::private_dir::PrivateDir;
use crate::record::{Record, Source};
use crate::{
    AuthMode, EnvName, Error, FALLBACKS, Found, Login, Looked, Place, Report, RunCommand, Secret,
    SecretId, env_is_set, keyring,
};

/// Where records are kept, next to the values. No [`SecretId`] begins with a dot.
const RECORDS: &str = ".sources";

/// Where logins are kept: apart from plain values, so that the record alone decides which of the
/// two is in force.
const LOGINS: &str = ".logins";

/// Secrets by id. Making one does no I/O.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
    variable: Option<Variable>,
}

/// A variable that stands in for one secret besides those that are known for it.
#[derive(Debug, Clone)]
struct Variable {
    id: SecretId,
    name: EnvName,
    auth: AuthMode,
}

/// What to keep under an id.
pub enum Entry {
    /// The value, in a file of the store.
    Value(Secret),
    /// The value, in the keyring of the desktop session.
    Keyring(Secret),
    /// Only the name of a variable; its value is read at each use.
    Env(EnvName),
    /// Only a command, such as `["gh", "auth", "token"]`; it is run at each use.
    Command(Vec<String>),
    /// A login, which is refreshed.
    Login(Login),
}

/// A secret with its value.
pub struct Resolved {
    pub secret: Secret,
    /// Where it came from, and its kind.
    pub found: Found,
}

/// Returns the store's directory: `$XDG_CONFIG_HOME/pinfold/secrets`, by default
/// `~/.config/pinfold/secrets`. A relative `XDG_CONFIG_HOME` is ignored, as the XDG Base Directory
/// Specification (0.8) asks.
///
/// # Errors
/// Returns [`Error::NoHome`] when neither variable holds an absolute path.
pub fn default_dir(
    xdg_config_home: Option<OsString>,
    home: Option<OsString>,
) -> Result<PathBuf, Error> {
    let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|p| p.is_absolute());
    let config = absolute(xdg_config_home)
        .or_else(|| absolute(home).map(|home| home.join(".config")))
        .ok_or(Error::NoHome)?;
    Ok(config.join("pinfold").join("secrets"))
}

impl Store {
    /// Returns a store in a directory, which need not exist yet.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, variable: None }
    }

    /// Returns the same store, in which a variable stands in for a secret that nothing else holds.
    #[must_use]
    pub fn with_variable(self, id: SecretId, name: EnvName, auth: AuthMode) -> Self {
        Self { variable: Some(Variable { id, name, auth }), ..self }
    }

    /// Keeps an entry, replacing whatever was kept under the id, and says where it is now.
    /// `auth` overrides the kind that the value's shape or the variable's name shows.
    ///
    /// # Errors
    /// Returns [`Error::EmptyCommand`], [`Error::NoKeyring`], or the file system's error. Either the
    /// old or the new entry is in force afterwards, never a mixture.
    pub fn set(
        &self,
        id: &SecretId,
        entry: Entry,
        auth: Option<AuthMode>,
        runner: &dyn RunCommand,
    ) -> Result<Found, Error> {
        let values = PrivateDir::create(&self.dir)?;
        let records = PrivateDir::create(&self.dir.join(RECORDS))?;
        let before = self.record(id)?;
        let (source, shown) = match &entry {
            Entry::Value(secret) => {
                values.write(id.as_str(), secret.expose().as_bytes())?;
                (Source::File {}, AuthMode::of(secret))
            }
            Entry::Keyring(secret) => {
                keyring::store(id, secret, runner)?;
                (Source::Keyring {}, AuthMode::of(secret))
            }
            Entry::Env(name) => (Source::Env { name: name.clone() }, auth_of_variable(name)),
            Entry::Command(argv) if argv.first().is_none_or(String::is_empty) => {
                return Err(Error::EmptyCommand { id: id.clone() });
            }
            Entry::Command(argv) => (Source::Command { argv: argv.clone() }, AuthMode::ApiKey),
            Entry::Login(login) => {
                let logins = PrivateDir::create(&self.dir.join(LOGINS))?;
                logins.write(id.as_str(), &login.to_bytes(&logins, id)?)?;
                (Source::Login {}, AuthMode::Oauth)
            }
        };
        let record = Record { source, auth: auth.unwrap_or(shown) };
        // The record decides, so the change takes effect here, at once.
        write_record(&records, id, &record)?;
        if record.source != (Source::File {}) {
            values.remove(id.as_str())?;
        }
        if record.source != (Source::Login {})
            && let Some(logins) = self.logins()?
        {
            logins.remove(id.as_str())?;
        }
        let in_keyring = |source: &Source| *source == Source::Keyring {};
        if before.is_some_and(|old| in_keyring(&old.source)) && !in_keyring(&record.source) {
            keyring::clear(id, runner)?;
        }
        Ok(Found { place: self.place(id, &record.source), auth: record.auth })
    }

    /// Looks for a secret by the outside of things: file metadata and whether a variable is
    /// set. **No value is read or copied**, no command is run, no keyring is opened, so this
    /// may be called before a process is cloned that must not carry secrets.
    ///
    /// # Errors
    /// Returns an error if a file is not private ([`Error::ModeTooWide`], [`Error::ForeignOwner`],
    /// [`Error::WrongKind`]), or a record cannot be read.
    pub fn check(&self, id: &SecretId) -> Result<Report, Error> {
        let mut report = Report { id: id.clone(), found: None, looked: Vec::new() };
        if let Some(record) = self.record(id)? {
            // A user chose this source: an empty one is reported, not replaced by another.
            let place = self.place(id, &record.source);
            let found = match &record.source {
                Source::File {} => self.holds(id)?,
                Source::Env { name } => env_is_set(name.as_str()),
                Source::Command { .. } | Source::Keyring {} => true,
                Source::Login {} => self.logins()?.map_or(Ok(false), |d| d.holds(id.as_str()))?,
            };
            report.add(place, found, record.auth);
            return Ok(report);
        }
        let file = Place::File(self.dir.join(id.as_str()));
        report.add(file, self.holds(id)?, AuthMode::ApiKey);
        let known =
            fallbacks_for(id.as_str()).map(|known| Ok((EnvName::new(known.name)?, known.auth)));
        let mut variables = known.collect::<Result<Vec<_>, Error>>()?;
        if let Some(own) = self.variable.as_ref().filter(|own| own.id == *id)
            && !variables.iter().any(|(name, _)| *name == own.name)
        {
            variables.push((own.name.clone(), own.auth));
        }
        for (name, auth) in variables {
            if report.found.is_some() {
                break;
            }
            let found = env_is_set(name.as_str());
            report.add(Place::Env(name), found, auth);
        }
        Ok(report)
    }

    /// Returns every secret that is kept here, and every known one that the environment holds.
    ///
    /// # Errors
    /// Returns the errors of [`Store::check`], for the first secret that cannot be looked at.
    pub fn list(&self) -> Result<Vec<Report>, Error> {
        let mut names: Vec<String> = FALLBACKS.iter().map(|f| f.id.to_owned()).collect();
        for dir in [self.dir.clone(), self.dir.join(RECORDS)] {
            if let Some(dir) = PrivateDir::open(&dir)? {
                names.extend(dir.names()?);
            }
        }
        names.sort_unstable();
        names.dedup();
        let mut reports = Vec::new();
        for id in names.into_iter().filter_map(|name| SecretId::new(name).ok()) {
            let recorded = self.record(&id)?.is_some();
            let report = self.check(&id)?;
            if recorded || report.found.is_some() {
                reports.push(report);
            }
        }
        Ok(reports)
    }

    /// Forgets a secret: its file, its record, its keyring entry. Says what was removed, in
    /// order; a variable or a command itself is not touched.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] when nothing is kept under the id, or the file system's error.
    pub fn remove(&self, id: &SecretId, runner: &dyn RunCommand) -> Result<Vec<Place>, Error> {
        let record = self.record(id)?;
        let mut removed = Vec::new();
        if let Some(Record { source: Source::Keyring {}, .. }) = record {
            keyring::clear(id, runner)?;
        }
        if let Some(values) = PrivateDir::open(&self.dir)?
            && values.remove(id.as_str())?
        {
            removed.push(Place::File(values.path_of(id.as_str())));
        }
        if let Some(logins) = self.logins()?
            && logins.remove(id.as_str())?
        {
            removed.push(Place::Login(logins.path_of(id.as_str())));
        }
        if let (Some(record), Some(records)) = (record, self.records()?) {
            records.remove(id.as_str())?;
            let place = self.place(id, &record.source);
            if !removed.contains(&place) {
                removed.push(place);
            }
        }
        if removed.is_empty() {
            let looked = vec![Place::File(self.dir.join(id.as_str()))];
            return Err(Error::Missing { id: id.clone(), looked });
        }
        Ok(removed)
    }

    /// Reads a secret from where [`Store::check`] finds it.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] with the places looked at; [`Error::Unusable`] when what is there is
    /// no secret; what the command or the file system says.
    pub fn resolve(&self, id: &SecretId, runner: &dyn RunCommand) -> Result<Resolved, Error> {
        let report = self.check(id)?;
        let Some(found) = report.found else {
            let looked = report.looked.into_iter().map(|looked| looked.place).collect();
            return Err(Error::Missing { id: id.clone(), looked });
        };
        let missing = || Error::Missing { id: id.clone(), looked: vec![found.place.clone()] };
        let value = match &found.place {
            Place::File(_) => {
                let values = PrivateDir::open(&self.dir)?.ok_or_else(missing)?;
                values.read(id.as_str())?.ok_or_else(missing)?.to_vec()
            }
            Place::Env(name) => std::env::var_os(name.as_str()).ok_or_else(missing)?.into_vec(),
            Place::Command(argv) => run_for_secret(argv, runner)?,
            Place::Login(_) => {
                let secret = self.login(id)?.ok_or_else(missing)?.access;
                return Ok(Resolved { secret, found });
            }
            Place::Keyring => {
                let secret = keyring::lookup(id, runner)?;
                return Ok(Resolved { secret, found });
            }
        };
        let secret = Secret::from_bytes(value)
            .map_err(|cause| Error::Unusable { place: found.place.clone(), cause })?;
        Ok(Resolved { secret, found })
    }

    /// Returns whether something is kept under an id: a value, or a record of where it is.
    ///
    /// # Errors
    /// Returns an error if a file is not private, or a record cannot be read.
    pub fn keeps(&self, id: &SecretId) -> Result<bool, Error> {
        Ok(self.record(id)?.is_some() || self.holds(id)?)
    }

    /// Returns a number that changes when what is kept under an id does. Reads no value.
    #[must_use]
    pub fn stamp(&self, id: &SecretId) -> u64 {
        let mut hasher = DefaultHasher::new();
        for dir in [&self.dir, &self.dir.join(RECORDS), &self.dir.join(LOGINS)] {
            let path = dir.join(id.as_str());
            let metadata = std::fs::symlink_metadata(path).ok();
            metadata.map(|m| (m.ino(), m.size(), m.ctime(), m.ctime_nsec())).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn holds(&self, id: &SecretId) -> Result<bool, Error> {
        PrivateDir::open(&self.dir)?.map_or(Ok(false), |dir| dir.holds(id.as_str()))
    }

    fn records(&self) -> Result<Option<PrivateDir>, Error> {
        PrivateDir::open(&self.dir.join(RECORDS))
    }

    pub(crate) fn logins(&self) -> Result<Option<PrivateDir>, Error> {
        PrivateDir::open(&self.dir.join(LOGINS))
    }

    pub(crate) fn record(&self, id: &SecretId) -> Result<Option<Record>, Error> {
        let Some(records) = self.records()? else { return Ok(None) };
        let Some(content) = records.read(id.as_str())? else { return Ok(None) };
        serde_json::from_slice(&content)
            .map(Some)
            .map_err(|cause| Error::BadRecord { path: records.path_of(id.as_str()), cause })
    }

    fn place(&self, id: &SecretId, source: &Source) -> Place {
        match source {
            Source::File {} => Place::File(self.dir.join(id.as_str())),
            Source::Env { name } => Place::Env(name.clone()),
            Source::Command { argv } => Place::Command(argv.clone()),
            Source::Keyring {} => Place::Keyring,
            Source::Login {} => Place::Login(self.dir.join(LOGINS).join(id.as_str())),
        }
    }
}

impl Report {
    /// Notes one place: the finding, or that it holds nothing.
    fn add(&mut self, place: Place, found: bool, auth: AuthMode) {
        if found {
            self.found = Some(Found { place, auth });
            return;
        }
        let outcome = match place {
            Place::File(_) | Place::Login(_) => "no such file, or empty",
            Place::Env(_) => "not set",
            Place::Command(_) | Place::Keyring => "empty",
        };
        self.looked.push(Looked { place, outcome });
    }
}

fn write_record(records: &PrivateDir, id: &SecretId, record: &Record) -> Result<(), Error> {
    let content = serde_json::to_vec(record)
        .map_err(|cause| Error::BadRecord { path: records.path_of(id.as_str()), cause })?;
    records.write(id.as_str(), &content)
}

fn auth_of_variable(name: &EnvName) -> AuthMode {
    let known = FALLBACKS.iter().find(|fallback| fallback.name == name.as_str());
    known.map_or(AuthMode::ApiKey, |fallback| fallback.auth)
}

fn run_for_secret(argv: &[String], runner: &dyn RunCommand) -> Result<Vec<u8>, Error> {
    let output = runner
        .run(argv, None)
        .map_err(|cause| Error::CommandStart { command: argv.join(" "), cause })?;
    keyring::succeeded(argv, &output)?;
    Ok(output.stdout.to_vec())
}
