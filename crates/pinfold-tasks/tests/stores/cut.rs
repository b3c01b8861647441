//! The connection to the server is cut at each message. What is repeated then, as workers and users repeat it, happens once.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pinfold_tasks::{
    AttemptStatus, Completion, Queue, QueueError, Status, Store, StoreError, Usage,
};

use crate::server::{Server, open};
use crate::testing::{claim, draft, id};

/// Stands between a client and its server, and counts messages that do something or say that it was done.
struct Proxy {
    directory: tempfile::TempDir,
    /// How many such messages pass before the connection is cut; none is if it is negative.
    left: Arc<AtomicI64>,
}

impl Proxy {
    fn new(server: PathBuf) -> Self {
        let directory = tempfile::Builder::new().prefix("pf-cut-").tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join(".s.PGSQL.5432")).unwrap();
        let left = Arc::new(AtomicI64::new(-1));
        let counter = Arc::clone(&left);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = UnixStream::connect(&server) else { continue };
                let pairs = [(&client, &server, true), (&server, &client, false)];
                for (from, to, is_client) in pairs {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let counter = Arc::clone(&counter);
                    std::thread::spawn(move || {
                        // Either end may go first.
                        let _ = pass(&from, &to, is_client, &counter);
                        let _ = from.shutdown(std::net::Shutdown::Both);
                        let _ = to.shutdown(std::net::Shutdown::Both);
                    });
                }
            }
        });
        Self { directory, left }
    }

    fn url(&self, database: &str) -> String {
        let socket = self.directory.path().display().to_string().replace('/', "%2F");
        format!("postgresql://pinfold@{socket}/{database}")
    }
}

/// Passes messages on, until one is the last.
fn pass(
    mut from: &UnixStream,
    mut to: &UnixStream,
    is_client: bool,
    left: &AtomicI64,
) -> std::io::Result<()> {
    if is_client {
        // The first message has no type.
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
        from.read_exact(&mut rest)?;
        to.write_all(&[&length[..], &rest].concat())?;
    }
    loop {
        let mut head = [0; 5];
        from.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
        let mut rest = vec![0; length];
        from.read_exact(&mut rest)?;
        // Query and Execute; CommandComplete and ReadyForQuery.
        let counts = if is_client { b"QE" } else { b"CZ" }.contains(&head[0]);
        if counts {
            let before = left.load(Ordering::SeqCst);
            if before == 0 {
                return Ok(());
            }
            if before > 0 {
                left.fetch_sub(1, Ordering::SeqCst);
            }
        }
        to.write_all(&[&head[..], &rest].concat())?;
    }
}

/// Repeats what may succeed a moment later, once the connection is whole again.
fn repeat<T>(proxy: &Proxy, mut ask: impl FnMut() -> Result<T, QueueError>) -> (T, bool) {
    let first = ask();
    match first {
        Ok(done) => (done, false),
        Err(error) => {
            assert!(error.is_transient(), "{error}");
            proxy.left.store(-1, Ordering::SeqCst);
            let again = ask();
            (again.unwrap(), true)
        }
    }
}

/// How a task is claimed: as the next one, or as one that is placed and says what it changes.
#[derive(Clone, Copy, Debug)]
enum Way {
    Next,
    Placed,
}

/// A task from its beginning to its end. Returns how often something was repeated.
fn work<S: Store>(queue: &Queue<S>, proxy: &Proxy, number: u128, way: Way) -> usize {
    let completion = Completion { output: number.to_string(), usage: Usage::default() };
    let mut draft = draft(number);
    if let Way::Placed = way {
        draft.spec.touches.push("src/**".to_owned());
    }
    let added = repeat(proxy, || match queue.add(&draft) {
        // The same id twice adds nothing: the first one did.
        Err(QueueError::Store(StoreError::Exists)) => Ok(()),
        other => other.map(drop),
    });
    let (claimed, claiming) = repeat(proxy, || match way {
        Way::Next => queue.claim(&claim(number)),
        Way::Placed => queue.claim_attempt(id(number), 1, &claim(number), |_| Ok(true)),
    });
    let holder = claimed.expect("the task is queued").holder;
    let beaten = repeat(proxy, || queue.heartbeat(&holder, None));
    let settled = repeat(proxy, || queue.complete(&holder, &completion));
    usize::from(added.1) + usize::from(claiming) + usize::from(beaten.1) + usize::from(settled.1)
}

#[test]
fn connection_cut_at_any_message_repeats_nothing_and_loses_nothing() {
    cut_everywhere("connection_cut_at_any_message_repeats", Way::Next);
}

#[test]
fn connection_of_a_placed_attempt_cut_at_any_message_repeats_nothing_and_loses_nothing() {
    cut_everywhere("connection_of_a_placed_attempt", Way::Placed);
}

fn cut_everywhere(test: &str, way: Way) {
    let Some(server) = Server::start(test) else { return };
    let database = server.database();
    let direct = Queue::new(server.store(&database));
    let proxy = Proxy::new(server.0.path(".s.PGSQL.5432"));
    let mut cuts = 0;
    for number in 0.. {
        // A new connection: one that was cut would spoil the count.
        proxy.left.store(-1, Ordering::SeqCst);
        let queue = Queue::new(open(&proxy.url(&database)).unwrap());
        proxy.left.store(number as i64, Ordering::SeqCst);
        let repeated = work(&queue, &proxy, number, way);
        let (task, attempts) =
            (direct.task(id(number)).unwrap(), direct.attempts(id(number)).unwrap());
        assert_eq!((task.status, task.accepted), (Status::Completed, Some(1)), "cut at {number}");
        assert_eq!(attempts.len(), 1, "cut at {number}: the claim made two attempts");
        assert_eq!(attempts[0].status, AttemptStatus::Completed);
        assert_eq!(attempts[0].completion.as_ref().unwrap().output, number.to_string());
        assert!(direct.claim(&claim(1 << 64 | number)).unwrap().is_none(), "cut at {number}");
        cuts += repeated;
        if proxy.left.load(Ordering::SeqCst) > 0 {
            break;
        }
    }
    println!("cut {cuts} times");
    assert!(cuts > 40, "the connection was cut only {cuts} times");
}
