//! Inquiries between the process of a session and the worker: a line of JSON, and content behind it.

use std::io::{self, BufRead, Read as _, Write};

use pinfold_content::read;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Inquiry, Reply};
use crate::artifact::LARGEST_ARTIFACT;

/// The longest line, in bytes: an answer of a server has up to 16 MiB, which JSON may write twice as long.
const LONGEST: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Request {
    inquiry: Inquiry,
    size: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Answer {
    Reply { value: String, size: usize },
    Error(String),
}

impl Inquiry {
    /// Asks through a stream, and returns the answer.
    ///
    /// # Errors
    /// Returns the error of the stream; the inner one is what the agent reads.
    pub fn ask(
        &self,
        from: &mut impl BufRead,
        to: &mut impl Write,
        content: &[u8],
    ) -> io::Result<Result<Reply, String>> {
        let request = Request { inquiry: self.clone(), size: content.len() };
        send(to, &request, content)?;
        match receive(from)? {
            Answer::Reply { value, size } => {
                let value = read(&value).map_err(io::Error::other)?;
                Ok(Ok(Reply { value, content: bytes(from, size)? }))
            }
            Answer::Error(what) => Ok(Err(what)),
        }
    }

    /// Reads what is asked at the other end of a stream, has it answered, and sends the answer.
    ///
    /// # Errors
    /// Returns the error of the stream.
    pub fn serve(
        from: &mut impl BufRead,
        to: &mut impl Write,
        answer: impl FnOnce(&Self, &[u8]) -> Result<Reply, String>,
    ) -> io::Result<()> {
        let Request { inquiry, size } = receive(from)?;
        let content = bytes(from, size)?;
        match answer(&inquiry, &content) {
            Ok(Reply { value, content }) => {
                let answer = Answer::Reply { value: value.to_string(), size: content.len() };
                send(to, &answer, &content)
            }
            Err(what) => send(to, &Answer::Error(what), &[]),
        }
    }
}

fn send(to: &mut impl Write, message: &impl Serialize, content: &[u8]) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.write_all(content)?;
    to.flush()
}

fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<T> {
    let mut line = Vec::new();
    from.take(LONGEST).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}

fn bytes(from: &mut impl BufRead, size: usize) -> io::Result<Vec<u8>> {
    if size > LARGEST_ARTIFACT {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut content = vec![0; size];
    from.read_exact(&mut content)?;
    Ok(content)
}
