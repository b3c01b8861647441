//! Mixed traffic for a long time, and what stays behind of it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use super::relay::{self, Relay};
use super::servers::{self, Servers};
use super::{Failed, MESSAGE, Way, client, runtime, usage};

/// Clients at once.
const CLIENTS: usize = 16;
/// Before the first look: what is made once is there by then.
const WARM: f64 = 0.1;
/// How long after the traffic it is looked: connections end, and the kernel lets go of them.
const REST: Duration = Duration::from_secs(2);

/// Kibibytes that memory may have grown by between the first look and the last, in addition to a
/// tenth.
const MORE_MEMORY: u64 = 1024;
/// Descriptors, and sockets of the whole machine, that there may be more.
const MORE_DESCRIPTORS: usize = 4;
const MORE_SOCKETS: u64 = 200;

/// A look at the relay while nothing is asked of it.
struct Look {
    memory: u64,
    descriptors: usize,
    slab: u64,
    sockets: u64,
}

/// Tunnels, intercepted requests, refused connections and names, and answers of a model, for so
/// many minutes.
///
/// # Errors
/// Growth beyond the bounds above, and whatever is not answered as it should be.
pub(super) fn run(arguments: &[String]) -> Result<(), Failed> {
    let minutes: f64 = arguments.first().map_or(Ok(10.0), |text| text.parse())?;
    let whole = Duration::from_secs_f64(minutes * 60.0);
    let servers = servers::start()?;
    let relay = relay::start("intercepted", &servers)?;
    let mut looks = Vec::new();
    let mut done = 0;
    for (name, part) in [("start", WARM), ("middle", 0.5 - WARM), ("end", 0.5)] {
        done += runtime()?.block_on(traffic(&relay, &servers, whole.mul_f64(part)))?;
        // Not a wait for an event: no event says "the kernel has forgotten".
        std::thread::sleep(REST);
        let pid = relay.child.id();
        let (slab, sockets) = usage::kernel()?;
        let (memory, descriptors) = (usage::memory(pid)?, usage::descriptors(pid)?);
        println!(
            "{name:<6} after {done} tasks: {memory} KiB of memory, {descriptors} descriptors; the \
             machine's: {slab} KiB slab, {sockets} TCP sockets"
        );
        looks.push(Look { memory, descriptors, slab, sockets });
    }
    let [first, .., last] = looks.as_slice() else { return Ok(()) };
    println!("slab of the whole machine: {:+} KiB", last.slab as i64 - first.slab as i64);
    let bounds = [
        ("memory", last.memory, first.memory + first.memory / 10 + MORE_MEMORY),
        ("descriptors", last.descriptors as u64, (first.descriptors + MORE_DESCRIPTORS) as u64),
        ("sockets", last.sockets, first.sockets + MORE_SOCKETS),
    ];
    for (what, is, bound) in bounds {
        if is > bound {
            return Err(format!("{what} has grown to {is}, beyond {bound}").into());
        }
    }
    println!("no growth beyond the bounds");
    Ok(())
}

/// Clients that take one task after the other; gives how many were done.
async fn traffic(relay: &Relay, servers: &Servers, length: Duration) -> Result<u64, Failed> {
    let way = Way::through(relay, "intercepted", servers)?;
    let until = Instant::now() + length;
    let clients = (0..CLIENTS).map(|first| {
        let way = &way;
        async move {
            let mut done = 0;
            while Instant::now() < until {
                match (first + usize::try_from(done)?) % 6 {
                    0 => tunnel(way, servers.plain).await?,
                    1 => intercepted(way, servers.tls).await?,
                    2 => refused(relay.proxy).await?,
                    3 => name(relay.names).await?,
                    4 => cut(way, servers.plain).await?,
                    _ => model(relay).await?,
                }
                done += 1;
            }
            Ok::<u64, Failed>(done)
        }
    });
    Ok(try_join_all(clients).await?.into_iter().sum())
}

async fn tunnel(way: &Way, port: u16) -> Result<(), Failed> {
    let mut stream = client::connect(way, port).await?;
    for _ in 0..10 {
        stream.write_all(&[b'p'; MESSAGE]).await?;
        stream.read_exact(&mut [0; MESSAGE]).await?;
    }
    Ok(())
}

/// Sends a long stream, of which the client takes a part and goes.
async fn cut(way: &Way, port: u16) -> Result<(), Failed> {
    let mut stream = client::connect(way, port).await?;
    stream.write_all(&[b's'; MESSAGE]).await?;
    stream.read_exact(&mut vec![0; 1 << 20]).await?;
    Ok(())
}

async fn intercepted(way: &Way, port: u16) -> Result<(), Failed> {
    let mut sender = client::client(way, port).await?;
    for _ in 0..3 {
        client::one(&mut sender, port).await?;
    }
    Ok(())
}

async fn refused(proxy: SocketAddr) -> Result<(), Failed> {
    let mut stream = TcpStream::connect(proxy).await?;
    stream.write_all(b"CONNECT no.example.com:443 HTTP/1.1\r\nHost: no\r\n\r\n").await?;
    let mut said = Vec::new();
    // A session with an authority would explain itself through TLS, which this client does not
    // begin: then it is cut off.
    match stream.read_to_end(&mut said).await {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(()),
        read => expect(read.is_ok() && said.starts_with(b"HTTP/1.1 403"), &said),
    }
}

async fn name(names: SocketAddr) -> Result<(), Failed> {
    const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01";
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    socket.send_to(QUESTION, names).await?;
    let mut answer = [0; 1500];
    let length = socket.recv(&mut answer).await?;
    // "No such name" (RFC 1035, 4.1.1).
    expect(answer[3] & 15 == 3, &answer[..length])
}

/// Reads the whole answer of a model.
async fn model(relay: &Relay) -> Result<(), Failed> {
    let stream = TcpStream::connect(relay.gateway).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let body = Full::new(Bytes::from_static(b"{\"model\":\"m\",\"stream\":true}"));
    let request = Request::post("/v1/messages")
        .header("host", relay.gateway.to_string())
        .header("x-api-key", &relay.key)
        .header("content-type", "application/json");
    let response = sender.send_request(request.body(body)?).await?;
    let status = response.status();
    let answer = response.into_body().collect().await?.to_bytes();
    expect(status.is_success(), &answer)
}

fn expect(is: bool, said: &[u8]) -> Result<(), Failed> {
    if is { Ok(()) } else { Err(said.escape_ascii().to_string().into()) }
}
