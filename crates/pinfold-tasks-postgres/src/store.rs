//! The store: one connection, made again when it is lost.

use parking_lot::Mutex;
use pinfold_tasks::{Clock, SqlTransaction, Store, StoreError, TaskId, Timestamp};

use crate::address::Address;
use crate::connection::{Connection, Mode};
use crate::schema;

/// A store in a database. A process needs one connection only: it does one thing after the other.
pub struct PostgresStore {
    address: Address,
    /// None if it was lost, or while a transaction has it. What a panic leaves is closed, not used again.
    connection: Mutex<Option<Connection>>,
    clock: Option<Box<dyn Clock>>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("address", &self.address).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects to a store, and makes it if the database has none.
    ///
    /// # Errors
    /// Returns an error for a server that cannot be reached or lets the user not in, and for tables that are no store that this program
    /// knows.
    pub fn open(address: Address) -> Result<Self, StoreError> {
        let mut connection = Connection::open(&address)?;
        schema::prepare(&mut connection, &address)?;
        Ok(Self { address, connection: Mutex::new(Some(connection)), clock: None })
    }

    /// Returns the store with another clock than the server's, for what has a time of its own.
    #[must_use]
    pub fn with_clock(self, clock: Box<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Returns where it is.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    fn transact<T, E: From<StoreError>>(
        &self,
        mode: Mode,
        work: impl FnOnce(&mut SqlTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut kept = self.connection.lock();
        let (mut connection, now) = self.begin(kept.take(), mode)?;
        let now = self.clock.as_ref().map_or(now, |clock| clock.now());
        match work(&mut SqlTransaction::new(&mut connection, now)) {
            Ok(done) => {
                connection.commit()?;
                *kept = Some(connection);
                Ok(done)
            }
            Err(error) => {
                // Closed, it is undone as well.
                if connection.roll_back().is_ok() {
                    *kept = Some(connection);
                }
                Err(error)
            }
        }
    }

    /// Begins a transaction. A connection that ended while nothing was done with it is made again.
    fn begin(
        &self,
        kept: Option<Connection>,
        mode: Mode,
    ) -> Result<(Connection, Timestamp), StoreError> {
        if let Some(mut connection) = kept {
            match self.begin_on(&mut connection, mode) {
                Ok(now) => return Ok((connection, now)),
                Err(StoreError::Unreachable(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let mut connection = Connection::open(&self.address)?;
        let now = self.begin_on(&mut connection, mode)?;
        Ok((connection, now))
    }

    /// Begins a transaction on a store whose format nobody has changed.
    fn begin_on(&self, connection: &mut Connection, mode: Mode) -> Result<Timestamp, StoreError> {
        let begun = connection.begin(mode)?;
        let Some(begun) = begun else {
            return Err(StoreError::Database("only a migration begins so".into()));
        };
        schema::check(begun.format, &self.address)?;
        Ok(begun.now)
    }
}

impl Store for PostgresStore {
    type Transaction<'a> = SqlTransaction<'a>;

    fn write<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut SqlTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact(Mode::Write, work)
    }

    fn write_task<T, E: From<StoreError>>(
        &self,
        task: TaskId,
        work: impl FnOnce(&mut SqlTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact(Mode::WriteTask(task), work)
    }

    fn read<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut SqlTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact(Mode::Read, work)
    }
}
