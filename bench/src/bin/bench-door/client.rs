//! The client: one thread of tokio's, which waits for each answer before it asks on.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Failed, MESSAGE, STREAM, Way, runtime};

/// What was done in how long.
pub(super) struct Took {
    pub(super) what: f64,
    pub(super) seconds: f64,
}

/// Opens a connection with a server.
pub(super) async fn connect(way: &Way, port: u16) -> Result<TcpStream, Failed> {
    let Some(proxy) = way.proxy else {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        return Ok(stream);
    };
    let mut stream = TcpStream::connect(proxy).await?;
    stream.set_nodelay(true)?;
    let request = format!("CONNECT localhost:{port} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await?);
    }
    if answer.get(9..12) != Some(b"200") {
        return Err(format!("{}: {}", way.name, answer.escape_ascii()).into());
    }
    Ok(stream)
}

/// Questions and answers each second.
pub(super) fn ask(
    way: &Way,
    port: u16,
    connections: usize,
    length: Duration,
) -> Result<Took, Failed> {
    runtime()?.block_on(async {
        let streams = (0..connections).map(|_| connect(way, port));
        let streams = try_join_all(streams).await?;
        let started = Instant::now();
        let each = streams.into_iter().map(|mut stream| async move {
            let mut message = [b'p'; MESSAGE];
            let mut count = 0_u32;
            while started.elapsed() < length {
                stream.write_all(&message).await?;
                stream.read_exact(&mut message).await?;
                count += 1;
            }
            Ok::<_, io::Error>(count)
        });
        let total: u32 = try_join_all(each).await?.into_iter().sum();
        Ok(Took { what: f64::from(total), seconds: started.elapsed().as_secs_f64() })
    })
}

/// Megabytes each second of one long answer.
pub(super) fn stream(way: &Way, port: u16) -> Result<Took, Failed> {
    runtime()?.block_on(async {
        let mut stream = connect(way, port).await?;
        stream.write_all(&[b's'; MESSAGE]).await?;
        let mut buffer = vec![0; 256 << 10];
        let (started, mut left) = (Instant::now(), STREAM);
        while left > 0 {
            left -= stream.read(&mut buffer).await?.min(left);
        }
        Ok(Took { what: STREAM as f64 / 1e6, seconds: started.elapsed().as_secs_f64() })
    })
}

/// Makes a connection for requests, over TLS.
pub(super) async fn client(way: &Way, port: u16) -> Result<SendRequest<Full<Bytes>>, Failed> {
    let stream = connect(way, port).await?;
    let stream = way.tls.connect(ServerName::try_from("localhost")?, stream).await?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Sends one request.
pub(super) async fn one(sender: &mut SendRequest<Full<Bytes>>, port: u16) -> Result<(), Failed> {
    let request = Request::get("/").header("host", format!("localhost:{port}"));
    sender.ready().await?;
    let response = sender.send_request(request.body(Full::default())?).await?;
    if !response.status().is_success() {
        return Err(format!("answered {}", response.status()).into());
    }
    response.into_body().collect().await?;
    Ok(())
}

/// Requests each second on one connection.
pub(super) fn get(way: &Way, port: u16, length: Duration) -> Result<Took, Failed> {
    runtime()?.block_on(async {
        let mut sender = client(way, port).await?;
        let (started, mut count) = (Instant::now(), 0_u32);
        while started.elapsed() < length {
            one(&mut sender, port).await?;
            count += 1;
        }
        Ok(Took { what: f64::from(count), seconds: started.elapsed().as_secs_f64() })
    })
}

/// Connections each second, each with one request.
pub(super) fn greet(way: &Way, port: u16, length: Duration) -> Result<Took, Failed> {
    runtime()?.block_on(async {
        let (started, mut count) = (Instant::now(), 0_u32);
        while started.elapsed() < length {
            one(&mut client(way, port).await?, port).await?;
            count += 1;
        }
        Ok(Took { what: f64::from(count), seconds: started.elapsed().as_secs_f64() })
    })
}

/// Prints the median time of an answer about a name that is refused.
pub(super) fn ask_names(door: SocketAddr) -> Result<(), Failed> {
    const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01";
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut times = Vec::new();
    let mut buffer = [0; 1500];
    for _ in 0..10_000 {
        let started = Instant::now();
        socket.send_to(QUESTION, door)?;
        socket.recv_from(&mut buffer)?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    println!("names, p50 {:?}, p99 {:?}", times[5_000], times[9_900]);
    Ok(())
}
