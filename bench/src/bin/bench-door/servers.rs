//! What is asked: a server that echoes short messages and streams on demand, and one that speaks
//! https. Both on one thread of tokio's, on loopback.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::{Failed, MESSAGE, STREAM, runtime};

/// The servers, each on its port of loopback.
pub(super) struct Servers {
    pub(super) plain: u16,
    pub(super) tls: u16,
    pub(super) certificate: CertificateDer<'static>,
    /// The same, for a process that gets it by its arguments.
    pub(super) file: PathBuf,
    _directory: tempfile::TempDir,
}

pub(super) fn start() -> Result<Servers, Failed> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = certified.cert.der().clone();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der())?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (plain, tls) = (listener()?, listener()?);
    let ports = (plain.local_addr()?.port(), tls.local_addr()?.port());
    thread::spawn(move || -> Result<(), Failed> {
        runtime()?.block_on(async {
            let plain = tokio::net::TcpListener::from_std(plain)?;
            let tls = tokio::net::TcpListener::from_std(tls)?;
            loop {
                tokio::select! {
                    accepted = plain.accept() => { tokio::spawn(echo(accepted?.0)); }
                    accepted = tls.accept() => {
                        tokio::spawn(https(acceptor.clone(), accepted?.0));
                    }
                }
            }
        })
    });
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("certificate");
    std::fs::write(&file, &certificate)?;
    Ok(Servers { plain: ports.0, tls: ports.1, certificate, file, _directory: directory })
}

fn listener() -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    // Thousands come at once.
    rustix::net::listen(&listener, 4096)?;
    Ok(listener)
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = [0; MESSAGE];
    loop {
        stream.read_exact(&mut message).await?;
        if message[0] == b's' {
            let chunk = vec![b'x'; 256 << 10];
            for _ in 0..STREAM / chunk.len() {
                stream.write_all(&chunk).await?;
            }
        } else {
            stream.write_all(&message).await?;
        }
    }
}

async fn https(acceptor: TlsAcceptor, stream: TcpStream) -> Result<(), Failed> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await?;
    Ok(())
}

/// Returns a short answer, or that of a model, in pieces and with a usage.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    const BEGIN: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":\
                         {\"model\":\"m\",\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n";
    const MORE: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\
                        \"delta\":{\"type\":\"text_delta\",\"text\":\"some words of an answer\"}}\n\n";
    if request.uri().path() != "/v1/messages" {
        return Ok(Response::new(Full::new(Bytes::from_static(&[b'x'; MESSAGE]))));
    }
    let mut response = Response::new(Full::new(Bytes::from(BEGIN.to_owned() + &MORE.repeat(500))));
    let value = http::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(http::header::CONTENT_TYPE, value);
    Ok(response)
}
