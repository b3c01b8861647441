//! Thousands of connections at once, and what each costs in memory.

use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::servers::Servers;
use super::{Failed, MESSAGE, Way, client, runtime, usage};

const CONNECTIONS: usize = 2000;
/// Connections that are made at a time.
const AT_A_TIME: usize = 64;

/// Opens them all, sends a request on all, and measures the relay while they wait.
pub(super) fn run(ways: &[Way], servers: &Servers) -> Result<(), Failed> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    for way in ways {
        let pid = way.pid.ok_or("no relay")?;
        // What is made once is not counted.
        runtime()?.block_on(open(way, servers, 1))?;
        let before = usage::memory(pid)?;
        let (made, asked, after) = runtime()?.block_on(open(way, servers, CONNECTIONS))?;
        let each = (after.saturating_sub(before)) * 1024 / CONNECTIONS as u64;
        println!(
            "{CONNECTIONS} connections, {}: made in {made:.2} s, all answered in {asked:.2} s, \
             {each} bytes of memory each",
            way.name
        );
    }
    Ok(())
}

/// Seconds to make them and to be answered on all, and the relay's memory then.
async fn open(way: &Way, servers: &Servers, count: usize) -> Result<(f64, f64, u64), Failed> {
    let pid = way.pid.ok_or("no relay")?;
    let started = Instant::now();
    if way.name == "tunnel" {
        let streams = iter((0..count).map(|_| client::connect(way, servers.plain)));
        let streams: Vec<_> = streams.buffered(AT_A_TIME).collect().await;
        let mut streams = streams.into_iter().collect::<Result<Vec<_>, _>>()?;
        let made = started.elapsed().as_secs_f64();
        for stream in &mut streams {
            stream.write_all(&[b'p'; MESSAGE]).await?;
        }
        for stream in &mut streams {
            stream.read_exact(&mut [0; MESSAGE]).await?;
        }
        let asked = started.elapsed().as_secs_f64() - made;
        return Ok((made, asked, usage::memory(pid)?));
    }
    let senders = iter((0..count).map(|_| client::client(way, servers.tls)));
    let senders: Vec<_> = senders.buffered(AT_A_TIME).collect().await;
    let mut senders = senders.into_iter().collect::<Result<Vec<_>, _>>()?;
    let made = started.elapsed().as_secs_f64();
    for sender in &mut senders {
        client::one(sender, servers.tls).await?;
    }
    let asked = started.elapsed().as_secs_f64() - made;
    Ok((made, asked, usage::memory(pid)?))
}
