//! A server that lies ends in errors, never in a panic, a hang or a terminal that it drives.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use pinfold_tasks::{Queue, StoreError};

use crate::server::open;
use crate::testing::id;

/// Returns a message of a server.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind][..], &length, body].concat()
}

/// Returns the answer to a query: rows of texts, and that the server is ready.
fn rows(rows: &[&[Option<&str>]]) -> Vec<u8> {
    let columns = rows.first().map_or(0, |row| row.len());
    let mut description = (columns as u16).to_be_bytes().to_vec();
    for _ in 0..columns {
        // A name, and where the column is from: a text (type 25).
        description.extend_from_slice(b"c\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0");
    }
    let mut answer = message(b'T', &description);
    for row in rows {
        let mut fields = (row.len() as u16).to_be_bytes().to_vec();
        for field in *row {
            match field {
                Some(text) => {
                    fields.extend_from_slice(&(text.len() as u32).to_be_bytes());
                    fields.extend_from_slice(text.as_bytes());
                }
                None => fields.extend_from_slice(&(-1_i32).to_be_bytes()),
            }
        }
        answer.extend(message(b'D', &fields));
    }
    [answer, message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat()
}

fn refusal(text: &str) -> Vec<u8> {
    let fields = [b"SERROR\0C42601\0M", text.as_bytes(), b"\0\0"].concat();
    [message(b'E', &fields), message(b'Z', b"I")].concat()
}

/// What a server says to queries that contain a text.
type Answers = Vec<(&'static str, Vec<u8>)>;

/// A server that a store can be opened on.
fn honest() -> Answers {
    vec![
        ("pg_is_in_recovery", rows(&[&[Some("f")]])),
        ("server_encoding", rows(&[&[Some("UTF8"), Some("t"), Some("9"), Some("t")]])),
        ("BEGIN", rows(&[&[Some("1"), Some("1700000000000")]])),
        ("SELECT format", rows(&[&[Some("1")]])),
    ]
}

fn serve(mut client: UnixStream, answers: &Answers) -> std::io::Result<()> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    client.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize - 4])?;
    let greeting = [message(b'R', &[0; 4]), message(b'K', &[0; 8]), message(b'Z', b"I")];
    client.write_all(&greeting.concat())?;
    loop {
        let mut head = [0; 5];
        client.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
        let mut body = vec![0; length];
        client.read_exact(&mut body)?;
        let text = String::from_utf8_lossy(&body).into_owned();
        let answer = answers.iter().find(|(about, _)| text.contains(about));
        match (head[0], answer) {
            (b'Q' | b'P', Some((_, answer))) => client.write_all(answer)?,
            (b'Q', None) => client.write_all(&rows(&[]))?,
            _ => {}
        }
    }
}

/// Returns what a store says of a server which gives these answers before those of an honest one: when it is opened, or when it is
/// used.
fn said(lies: Answers) -> (String, bool) {
    let directory = tempfile::Builder::new().prefix("pf-lie-").tempdir().unwrap();
    let listener = UnixListener::bind(directory.path().join(".s.PGSQL.5432")).unwrap();
    let answers: Answers = lies.into_iter().chain(honest()).collect();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // The client goes when it has heard enough.
            let _ = serve(client, &answers);
        }
    });
    let socket = directory.path().display().to_string().replace('/', "%2F");
    let error = match open(&format!("postgresql://me@{socket}/x")) {
        Ok(store) => match Queue::new(store).task(id(1)) {
            Ok(task) => panic!("a task came from nowhere: {task:?}"),
            Err(error) => return (error.to_string(), error.is_transient()),
        },
        Err(error) => error,
    };
    let is_transient = error.is_transient();
    if let StoreError::Newer { known, .. } = error {
        assert_eq!(known, 1);
    }
    (error.to_string(), is_transient)
}

#[test]
fn server_that_lies_ends_in_a_clear_error() {
    let no_row: &[&[Option<&str>]] = &[];
    for (lie, expected) in [
        (vec![("pg_is_in_recovery", rows(&[&[None]]))], "written to"),
        (vec![("pg_is_in_recovery", rows(no_row))], "written to"),
        (vec![("pg_is_in_recovery", rows(&[&[Some("t")]]))], "read-only"),
        (vec![("server_encoding", rows(&[&[Some("UTF8")]]))], "does not say what is in it"),
        (
            vec![("server_encoding", rows(&[&[Some("LATIN1"), Some("t"), Some("9"), Some("t")]]))],
            "UTF8",
        ),
        (
            vec![("server_encoding", rows(&[&[Some("UTF8"), Some("f"), Some("9"), Some("t")]]))],
            "another user",
        ),
        (
            vec![("server_encoding", rows(&[&[Some("UTF8"), Some("t"), Some("9"), Some("f")]]))],
            "another program",
        ),
        (vec![("SELECT format FROM", rows(&[&[Some("99")]]))], "newer pinfold"),
        (vec![("SELECT format FROM", rows(&[&[None]]))], "not one row"),
        (vec![("SELECT format FROM", rows(&[&[Some("1")], &[Some("1")]]))], "not one row"),
        (vec![("SELECT format FROM", rows(&[&[Some("-1")]]))], "format"),
        (vec![("BEGIN", rows(&[&[Some("1"), Some("now")]]))], "time is not a number"),
        (vec![("BEGIN", rows(&[&[Some("1"), None]]))], "not one row"),
        (vec![("BEGIN", rows(&[&[Some("99"), Some("1")]]))], "newer pinfold"),
        (vec![("BEGIN", b"Z\0\0\0\0".to_vec())], "cannot be used"),
        (vec![("FROM task", message(b'?', b""))], "cannot be used"),
    ] {
        let (said, _) = said(lie);
        assert!(said.contains(expected), "expected {expected:?}: {said}");
    }
}

#[test]
fn text_of_a_server_drives_no_terminal_and_is_cut() {
    let text = format!("\x1b]0;title\x07{}", "x".repeat(5_000));
    let (said, is_transient) = said(vec![("BEGIN", refusal(&text))]);
    assert!(!said.contains(['\x1b', '\x07']) && said.len() < 1_000, "{said:?}");
    assert!(!is_transient, "a worker would try for ever");
}
