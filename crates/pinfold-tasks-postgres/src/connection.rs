//! A connection to a server. Every step of it has an end: a server that does not answer must not hold a worker.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pinfold_tasks::{StoreError, TaskId, Timestamp};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::NoTls;
use tokio_postgres::{Client, Config, SimpleQueryMessage, Statement};

use crate::address::{Address, Server, plain};
use crate::error;
use crate::stream::{Allowance, Stream};
use crate::tls::Tls;

/// How long it may take to log in to one server.
const LOGIN: Duration = Duration::from_secs(10);
/// How long a transaction may take, from its first statement to the answer to its last one.
const TRANSACTION: Duration = Duration::from_secs(30);
/// How long the server may take to undo one. If the connection is closed it does the same.
const UNDOING: Duration = Duration::from_secs(2);
/// How long a connection may take to say goodbye.
const FAREWELL: Duration = Duration::from_millis(100);
/// The most that a server may say while it lets somebody in, in bytes.
const GREETING: u64 = 1 << 20;

/// What each transaction sets. It ends with the transaction, so that nothing depends on what else uses the server's session.
///
/// - A transaction waits 10 s for others, and a process that holds it up and does not go on for 5 s loses it. So one that
///   was suspended, or whose machine is gone, blocks nobody for longer.
/// - No function or table of others is found by its name.
/// - A commit is on the disk when it is answered, also where the server's settings have it otherwise. Stricter ones stay.
const SETTINGS: &str = "SET LOCAL search_path = pg_catalog, pinfold, pg_temp; \
     SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = '15s'; \
     SET LOCAL idle_in_transaction_session_timeout = '5s'; \
     SELECT pg_catalog.set_config('synchronous_commit', 'on', true) \
     WHERE pg_catalog.current_setting('synchronous_commit') = 'off';";

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It changes something, and excludes others that do.
    Write,
    /// It changes something of one task, and excludes others that change the same one or exclude all.
    WriteTask(TaskId),
    /// It sees one state.
    Read,
    /// It makes or changes tables.
    Migrate,
}

/// What a transaction finds when it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    /// The format of the tables.
    pub(crate) format: i64,
    /// The server's time, read when all others were excluded.
    pub(crate) now: Timestamp,
}

/// A statement, as it is sent.
pub(crate) enum Known {
    /// One that the server has parsed.
    Prepared(Statement),
    /// Its text, whose parameters have a `$`.
    Text(String),
}

/// What is known of a statement that was used.
enum Used {
    /// How often its text was sent.
    Times(u32),
    Prepared(Statement),
}

/// How often a statement is sent as a text before it is prepared. That takes an exchange with the server of its own, which is
/// saved once for each time before: a process that works on one attempt uses most of its statements once.
const TEXTS: u32 = 2;

/// A connection.
pub(crate) struct Connection {
    runtime: Runtime,
    /// None only while it is dropped.
    client: Option<Client>,
    driver: Option<JoinHandle<()>>,
    /// What ended the connection.
    said: Arc<Mutex<Option<String>>>,
    statements: HashMap<String, Used>,
    allowance: Allowance,
    /// When the transaction has to be over.
    deadline: Instant,
    /// Whether a statement of the transaction failed: the server would answer a commit with a silent rollback.
    has_failed: bool,
}

impl Connection {
    /// Connects to the first server that lets the user in and can be written to.
    ///
    /// # Errors
    /// Returns the last server's error.
    pub(crate) fn open(address: &Address) -> Result<Self, StoreError> {
        let mut last = StoreError::Unreachable("no server is named".to_owned());
        for server in &address.servers {
            match Self::open_at(address, server) {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn open_at(address: &Address, server: &Server) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let unreachable = |error: io::Error| {
            let error = plain(&error.to_string());
            StoreError::Unreachable(format!("{}: {error}", server.host))
        };
        let host = server.host.to_string();
        let tls = if server.host.is_local() && host.starts_with('/') {
            None
        } else {
            Tls::new(address, &host).map_err(unreachable)?
        };
        let mut config = Config::new();
        config.user(&address.user).dbname(&address.database).application_name("pinfold");
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        if let Some(password) = &server.password {
            config.password(password.as_str());
        }
        let allowance = Allowance::new();
        allowance.renew(GREETING);
        let said = Arc::new(Mutex::new(None));
        let logging_in = async {
            let stream = Stream::connect(server, allowance.clone()).await.map_err(unreachable)?;
            log_in(&config, stream, tls, &said).await.map_err(|error| match error {
                StoreError::Unreachable(text) => {
                    StoreError::Unreachable(format!("{}: {text}", server.host))
                }
                other => other,
            })
        };
        let late = |_| unreachable(io::ErrorKind::TimedOut.into());
        let logged_in = runtime.block_on(async { timeout(LOGIN, logging_in).await });
        let (client, driver) = logged_in.map_err(late)??;
        let mut connection = Self {
            runtime,
            client: Some(client),
            driver: Some(driver),
            said,
            statements: HashMap::new(),
            allowance,
            deadline: Instant::now() + LOGIN,
            has_failed: false,
        };
        let standby = connection.ask("SELECT pg_catalog.pg_is_in_recovery()")?;
        match standby.first().and_then(|row| row.first()).and_then(Option::as_deref) {
            Some("f") => Ok(connection),
            Some("t") => Err(StoreError::ReadOnly),
            _ => Err(invalid("the server does not say whether it can be written to")),
        }
    }

    /// Begins a transaction, which excludes others of its store as its mode says.
    ///
    /// # Errors
    /// Returns [`StoreError::Busy`] if others go on for long.
    pub(crate) fn begin(&mut self, mode: Mode) -> Result<Option<Beginning>, StoreError> {
        self.deadline = Instant::now() + TRANSACTION;
        self.has_failed = false;
        // `READ COMMITTED`: with a stricter level the first statement, which waits for the lock, would say what is seen.
        let (level, lock) = match mode {
            Mode::Write => (
                "READ COMMITTED READ WRITE",
                "LOCK TABLE pinfold.store IN SHARE ROW EXCLUSIVE MODE;".to_owned(),
            ),
            // The first lock lets in others of its kind alone. All take it first, so no two wait for each other.
            Mode::WriteTask(task) => (
                "READ COMMITTED READ WRITE",
                format!(
                    "LOCK TABLE pinfold.store IN ROW EXCLUSIVE MODE; \
                     SELECT 1 FROM pinfold.task WHERE id = '{task}' FOR NO KEY UPDATE;"
                ),
            ),
            Mode::Read => ("REPEATABLE READ READ ONLY", String::new()),
            // There is no table yet that could be locked. The number is SQLite's mark of a store, "pfQ1".
            Mode::Migrate => (
                "READ COMMITTED READ WRITE",
                "SELECT pg_catalog.pg_advisory_xact_lock(1885753649);".to_owned(),
            ),
        };
        let ask = match mode {
            Mode::Write | Mode::WriteTask(_) | Mode::Read => {
                "SELECT format, (extract(epoch FROM clock_timestamp()) * 1000)::bigint \
                 FROM pinfold.store"
            }
            Mode::Migrate => "",
        };
        let rows = self.ask(&format!("BEGIN ISOLATION LEVEL {level}; {SETTINGS} {lock} {ask}"))?;
        if mode == Mode::Migrate {
            return Ok(None);
        }
        let last = rows.last().map(Vec::as_slice);
        let Some([Some(format), Some(millis)]) = last else {
            return Err(invalid("the table \"store\" has not one row"));
        };
        let format = format.parse().map_err(|_| invalid("its format is not a number"))?;
        let millis = millis.parse().map_err(|_| invalid("the server's time is not a number"))?;
        Ok(Some(Beginning { format, now: Timestamp::from_millis(millis) }))
    }

    /// Ends the transaction, whose changes are on the disk then.
    ///
    /// # Errors
    /// Returns [`StoreError::Undecided`] if the connection ends before the answer comes.
    pub(crate) fn commit(&mut self) -> Result<(), StoreError> {
        if self.has_failed {
            let what = "a statement failed and the transaction went on";
            return Err(StoreError::Database(what.into()));
        }
        self.ask("COMMIT").map(drop).map_err(|error| match error {
            // The server may have done it before.
            StoreError::Unreachable(text) => StoreError::Undecided(text),
            other => other,
        })
    }

    /// Undoes the transaction.
    ///
    /// # Errors
    /// Returns an error for a connection that is of no use any more.
    pub(crate) fn roll_back(&mut self) -> Result<(), StoreError> {
        self.deadline = self.deadline.min(Instant::now() + UNDOING);
        self.ask("ROLLBACK").map(drop)
    }

    /// Executes statements without parameters, and returns the rows of all of them, as texts.
    ///
    /// # Errors
    /// Returns the server's error.
    pub(crate) fn ask(&mut self, statements: &str) -> Result<Vec<Vec<Option<String>>>, StoreError> {
        let messages = self.wait(async |client| client.simple_query(statements).await)?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let texts = rows.map(|row| {
            let columns = 0..row.len();
            let texts =
                columns.map(|column| row.try_get(column).map(|text| text.map(str::to_owned)));
            texts.collect::<Result<_, _>>()
        });
        texts.collect::<Result<_, _>>().map_err(|error| invalid(error::in_words(&error)))
    }

    /// Returns a statement as it is to be sent: it is prepared if it is used often.
    ///
    /// # Errors
    /// Returns the server's error.
    pub(crate) fn know(&mut self, statement: &str) -> Result<Known, StoreError> {
        match self.statements.get_mut(statement) {
            Some(Used::Prepared(prepared)) => return Ok(Known::Prepared(prepared.clone())),
            Some(Used::Times(times)) if *times < TEXTS => *times += 1,
            Some(Used::Times(_)) => {
                let its = statement.replace('?', "$");
                let prepared = self.wait(async |client| client.prepare(&its).await)?;
                let used = Used::Prepared(prepared.clone());
                self.statements.insert(statement.to_owned(), used);
                return Ok(Known::Prepared(prepared));
            }
            None => drop(self.statements.insert(statement.to_owned(), Used::Times(1))),
        }
        Ok(Known::Text(statement.replace('?', "$")))
    }

    /// Does something with the server, as long as the transaction lasts.
    ///
    /// # Errors
    /// Returns its error.
    pub(crate) fn wait<T>(
        &mut self,
        step: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let closed = || StoreError::Unreachable("the connection is closed".to_owned());
        let client = self.client.as_ref().ok_or_else(closed)?;
        self.allowance.renew(Allowance::ANSWER);
        let deadline = self.deadline;
        let done = self.runtime.block_on(async { timeout_at(deadline, step(client)).await });
        let error = match done {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => error::of(&error, self.said.lock().as_deref()),
            Err(_) => StoreError::Unreachable("it does not answer".to_owned()),
        };
        self.has_failed = true;
        Err(error)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.client.take());
        if let Some(driver) = self.driver.take() {
            // The server notices in any case that the socket is closed.
            let _ = self.runtime.block_on(async { timeout(FAREWELL, driver).await });
        }
    }
}

/// Logs in on a connection, and has it driven whenever something is waited for.
async fn log_in(
    config: &Config,
    stream: Stream,
    tls: Option<Tls>,
    said: &Arc<Mutex<Option<String>>>,
) -> Result<(Client, JoinHandle<()>), StoreError> {
    let said = Arc::clone(said);
    let failed = |error: tokio_postgres::Error| error::of(&error, None);
    Ok(match tls {
        Some(tls) => {
            let (client, connection) = config.connect_raw(stream, tls).await.map_err(failed)?;
            (client, tokio::spawn(drive(connection, said)))
        }
        None => {
            let (client, connection) = config.connect_raw(stream, NoTls).await.map_err(failed)?;
            (client, tokio::spawn(drive(connection, said)))
        }
    })
}

/// Moves bytes between the socket and who waits for answers, until the connection ends.
async fn drive(
    connection: impl Future<Output = Result<(), tokio_postgres::Error>>,
    said: Arc<Mutex<Option<String>>>,
) {
    if let Err(error) = connection.await {
        let text = match error.as_db_error() {
            Some(database) => plain(database.message()),
            None => plain(&error::in_words(&error)),
        };
        *said.lock() = Some(text);
    }
}

fn invalid(reason: impl ToString) -> StoreError {
    StoreError::Invalid { what: "answer", reason: reason.to_string() }
}
