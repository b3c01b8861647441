//! A server with stores.

use pinfold_host::directories::Places;
use pinfold_tasks::StoreError;
use pinfold_tasks_postgres::{Address, PostgresStore};
use pinfold_testkit::Postgres;

/// A server of PostgreSQL.
pub(crate) struct Server(pub(crate) Postgres);

impl Server {
    /// Starts one, or says why it cannot.
    pub(crate) fn start(test: &str) -> Option<Self> {
        Postgres::start(test).map(Self)
    }

    /// Returns the name of a new database.
    pub(crate) fn database(&self) -> String {
        self.0.database()
    }

    pub(crate) fn url(&self, database: &str) -> String {
        self.0.url(database)
    }

    /// Opens the store in a database.
    pub(crate) fn store(&self, database: &str) -> PostgresStore {
        open(&self.url(database)).unwrap()
    }
}

/// Opens a store by its URL.
pub(crate) fn open(url: &str) -> Result<PostgresStore, StoreError> {
    PostgresStore::open(Address::parse(url, &Places::find().unwrap()).unwrap())
}
