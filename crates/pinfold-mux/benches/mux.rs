//! What the multiplexer costs against a bare socket pair, in turns: bytes each second, and a round trip of one
//! byte, with the other streams idle or carrying bulk. `cargo bench -p pinfold-mux`.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use pinfold_mux::{Local, Multiplexer, Notice};

const BULK: usize = 256 << 20;
const ROUNDS: u32 = 20_000;
const TURNS: usize = 5;

type Failed = Box<dyn Error + Send + Sync>;

/// Serves a multiplexer until its channel ends. The other ends of opened streams go to `opened`.
fn serve(
    mut multiplexer: Multiplexer,
    mut streams: Vec<UnixStream>,
    opened: &std::sync::mpsc::Sender<UnixStream>,
) -> Result<(), Failed> {
    loop {
        // The end of the channel is the end of this program.
        let Ok((_, notices)) = multiplexer.turn(&[], None) else { return Ok(()) };
        for notice in notices {
            match notice {
                Notice::Ready => {
                    for stream in streams.drain(..) {
                        multiplexer.open(b"bench", Local::socket(stream.into())?)?;
                    }
                }
                Notice::Opened { id, .. } => {
                    let (near, far) = UnixStream::pair()?;
                    multiplexer.attach(id, Local::socket(far.into())?);
                    opened.send(near)?;
                }
                Notice::Closed(_) => {}
            }
        }
    }
}

/// Returns pairs of connected sockets, each a stream of one channel.
fn connected(count: usize) -> Result<Vec<(UnixStream, UnixStream)>, Failed> {
    let (left, right) = UnixStream::pair()?;
    let pairs = (0..count).map(|_| UnixStream::pair()).collect::<Result<Vec<_>, _>>()?;
    let (near, far): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let (host, guest) = (Multiplexer::host(left.into())?, Multiplexer::guest(right.into())?);
    let (sender, opened) = std::sync::mpsc::channel();
    let unused = sender.clone();
    std::thread::spawn(move || serve(host, far, &unused));
    std::thread::spawn(move || serve(guest, Vec::new(), &sender));
    let others = near.iter().map(|_| opened.recv()).collect::<Result<Vec<_>, _>>()?;
    Ok(near.into_iter().zip(others).collect())
}

/// Returns megabytes each second.
fn bulk((mut from, mut to): (UnixStream, UnixStream)) -> Result<f64, Failed> {
    let start = Instant::now();
    let writer = std::thread::spawn(move || -> std::io::Result<()> {
        let chunk = vec![7; 64 << 10];
        (0..BULK / chunk.len()).try_for_each(|_| from.write_all(&chunk))
    });
    let (mut buffer, mut count) = (vec![0; 64 << 10], 0);
    while count < BULK {
        match to.read(&mut buffer)? {
            0 => return Err("the stream ended early".into()),
            more => count += more,
        }
    }
    writer.join().map_err(|_| "the writer panicked")??;
    Ok(BULK as f64 / 1e6 / start.elapsed().as_secs_f64())
}

/// Returns the median of a round trip.
fn round_trip((mut near, mut far): (UnixStream, UnixStream)) -> Result<Duration, Failed> {
    std::thread::spawn(move || {
        let mut byte = [0];
        while far.read_exact(&mut byte).and_then(|()| far.write_all(&byte)).is_ok() {}
    });
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        near.write_all(b"x")?;
        near.read_exact(&mut [0])?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// Returns the median round trip while another stream of the channel carries bulk.
fn round_trip_under_load() -> Result<Duration, Failed> {
    let mut pairs = connected(2)?.into_iter();
    let (Some(idle), Some((mut from, mut to))) = (pairs.next(), pairs.next()) else {
        return Err("a stream is missing".into());
    };
    std::thread::spawn(move || while from.write_all(&[7; 64 << 10]).is_ok() {});
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while to.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    round_trip(idle)
}

fn one() -> Result<(UnixStream, UnixStream), Failed> {
    connected(1)?.pop().ok_or_else(|| "a stream is missing".into())
}

fn main() -> Result<(), Failed> {
    println!("turn  bulk MB/s: bare, through  round trip µs: bare, through, next to bulk");
    for turn in 1..=TURNS {
        let (bare, through) = (bulk(UnixStream::pair()?)?, bulk(one()?)?);
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let trips =
            [round_trip(UnixStream::pair()?)?, round_trip(one()?)?, round_trip_under_load()?];
        let [first, second, third] = trips.map(micros);
        println!("{turn}  {bare:.0} {through:.0}  {first:.1} {second:.1} {third:.1}");
    }
    Ok(())
}
