//! The least that a relay can be, for what this machine itself allows: one thread, epoll, and for
//! each message one call to take it and one to pass it on. It decides nothing, waits for a peer
//! that does not read, and knows no errors.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use rustix::event::epoll;
use rustix::net::RecvFlags;
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::Failed;

/// Bytes moved at once.
const LARGEST: usize = 1 << 20;

/// How bytes get from one connection to the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// recv(2) and send(2).
    Copy,
    /// splice(2) into a pipe and out of it.
    Pipe,
}

/// Starts a relay that takes `CONNECT localhost:PORT`.
pub(super) fn start(by: By) -> Result<SocketAddr, Failed> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let poll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
    let (accepting, relaying) = (Arc::clone(&poll), poll);
    // Connections are prepared on a thread of their own, which sleeps while bytes move.
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || -> Result<(), Failed> {
        let mut number = 0;
        for client in listener.incoming() {
            let (client, upstream) = open(client?)?;
            for (from, to) in [(&client, &upstream), (&upstream, &client)] {
                let (from, to) = (from.try_clone()?, to.try_clone()?);
                let data = epoll::EventData::new_u64(number);
                epoll::add(&*accepting, &from, data, epoll::EventFlags::IN)?;
                sender.send((from, to))?;
                number += 1;
            }
        }
        Ok(())
    });
    thread::spawn(move || -> Result<(), Failed> {
        let mut ways = Vec::new();
        let mut buffer = vec![0; LARGEST];
        let pipe = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::pipe::fcntl_setpipe_size(&pipe.1, LARGEST)?;
        loop {
            let mut events = Vec::with_capacity(64);
            epoll::wait(&*relaying, rustix::buffer::spare_capacity(&mut events), None)?;
            for event in &events {
                let event: &epoll::Event = event;
                let at = usize::try_from(event.data.u64())?;
                while ways.len() <= at {
                    ways.push(receiver.recv()?);
                }
                let (from, to): &(TcpStream, TcpStream) = &ways[at];
                let moved = match by {
                    By::Copy => copy(from, to, &mut buffer),
                    By::Pipe => splice(from, to, &pipe),
                };
                if moved.unwrap_or(0) == 0 {
                    epoll::delete(&*relaying, from)?;
                    let _ = to.shutdown(std::net::Shutdown::Write);
                }
            }
        }
    });
    Ok(address)
}

/// Answers `CONNECT`.
fn open(mut client: TcpStream) -> Result<(TcpStream, TcpStream), Failed> {
    client.set_nodelay(true)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head)?;
    let port = head.split([':', ' ']).nth(2).ok_or("no port")?.parse()?;
    let upstream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    upstream.set_nodelay(true)?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    Ok((client, upstream))
}

fn copy(from: &TcpStream, mut to: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let (_, count) = rustix::net::recv(from, &mut *buffer, RecvFlags::DONTWAIT)?;
    to.write_all(&buffer[..count])?;
    Ok(count)
}

fn splice(from: impl AsFd, to: impl AsFd, pipe: &(OwnedFd, OwnedFd)) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE;
    let taken = rustix::pipe::splice(&from, None, &pipe.1, None, LARGEST, flags)?;
    let mut left = taken;
    while left > 0 {
        left -= rustix::pipe::splice(&pipe.0, None, &to, None, left, flags)?;
    }
    Ok(taken)
}
