//! Which store a user's tasks are in. This is the one place that decides it.

use pinfold_host::directories::Places;
use pinfold_tasks::{SqlTransaction, SqliteStore, Store, StoreError, SystemClock, TaskId};

use crate::address::{Address, AddressError, PASSWORD_FILE_VARIABLE, PASSWORD_VARIABLE};
use crate::store::PostgresStore;

/// The variable that names the database if the user's settings do not.
pub const DATABASE_VARIABLE: &str = "DATABASE_URL";
/// What names the database in the user's settings.
const SETTING: &str = "`task_database` in config.toml";
/// What the settings say for the file on this machine, whatever the variable says.
const LOCAL: &str = "local";

/// The variables that a password may come from, and all that may hold one.
const PASSWORDS: &[&str] = &[PASSWORD_VARIABLE, PASSWORD_FILE_VARIABLE];
const ALL: &[&str] = &[DATABASE_VARIABLE, PASSWORD_VARIABLE, PASSWORD_FILE_VARIABLE];

/// A user's store.
#[derive(Debug)]
pub enum AnyStore {
    /// A file on this machine.
    Local(SqliteStore),
    /// A database that a team shares, and the variables that may log in there.
    Shared(Box<PostgresStore>, &'static [&'static str]),
}

/// Why a user's store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// What names it is wrong.
    #[error("{named}: {error}")]
    Address {
        /// What names it.
        named: &'static str,
        /// What is wrong.
        error: AddressError,
    },
    /// Settings are shown and copied.
    #[error("`task_database` in config.toml has a password")]
    Password,
    /// It cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpenError {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Address { error, .. } => error.hint(),
            Self::Password => Some(
                "put it into ~/.pgpass or PGPASSWORD, or the whole URL into DATABASE_URL"
                    .to_owned(),
            ),
            Self::Store(error) => error.hint(),
        }
    }
}

impl AnyStore {
    /// Opens the store that the user's settings name (`task_database`), else the one that `DATABASE_URL` names, else the file of
    /// this machine. A `DATABASE_URL` of another kind of database is not meant for pinfold.
    ///
    /// # Errors
    /// Returns an error for one that is named and cannot be used. There is no other one instead.
    pub fn open(places: &Places, setting: Option<&str>) -> Result<Self, OpenError> {
        let variable = std::env::var_os(DATABASE_VARIABLE);
        let meant = variable.filter(|url| Address::is_meant(&url.to_string_lossy()));
        let not_text = || OpenError::Address {
            named: DATABASE_VARIABLE,
            error: AddressError::Url("it is not UTF-8; write other bytes as %XX"),
        };
        let (named, url, variables) = match setting {
            Some(LOCAL) => return Self::local(places),
            Some(url) => (SETTING, url.to_owned(), PASSWORDS),
            None => match meant {
                Some(url) => (DATABASE_VARIABLE, url.into_string().map_err(|_| not_text())?, ALL),
                None => return Self::local(places),
            },
        };
        let failed = |error| OpenError::Address { named, error };
        if setting.is_some() && Address::has_password(&url).map_err(failed)? {
            return Err(OpenError::Password);
        }
        let address = Address::parse(&url, places).map_err(failed)?;
        Ok(Self::Shared(Box::new(PostgresStore::open(address)?), variables))
    }

    /// Returns the variables of this process that may log in at the store. No sandbox gets them.
    #[must_use]
    pub fn variables(&self) -> &'static [&'static str] {
        match self {
            Self::Local(_) => &[],
            Self::Shared(_, variables) => variables,
        }
    }

    fn local(places: &Places) -> Result<Self, OpenError> {
        Ok(Self::Local(SqliteStore::open(places, Box::new(SystemClock))?))
    }
}

impl Store for AnyStore {
    type Transaction<'a> = SqlTransaction<'a>;

    fn write<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut SqlTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match self {
            Self::Local(store) => store.write(work),
            Self::Shared(store, _) => store.write(work),
        }
    }

    fn write_task<T, E: From<StoreError>>(
        &self,
        task: TaskId,
        work: impl FnOnce(&mut SqlTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match self {
            Self::Local(store) => store.write_task(task, work),
            Self::Shared(store, _) => store.write_task(task, work),
        }
    }

    fn read<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut SqlTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match self {
            Self::Local(store) => store.read(work),
            Self::Shared(store, _) => store.read(work),
        }
    }
}
