//! What a client says to the SSH server: as it comes, and as messages of one that has exchanged keys.
#![no_main]

use std::fs::File;
use std::io;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use pinfold_ssh::{Command, HostKey, Program, Size, StartProgram, Started, What, fuzzing, serve};

static KEY: LazyLock<HostKey> = LazyLock::new(|| {
    let document = HostKey::generate().expect("random bytes");
    HostKey::read(&document).expect("a key")
});

/// Starts a program that ends at once, or none.
struct Starter;

struct Ended;

impl Program for Ended {
    fn wait(&self) -> u32 {
        7
    }

    fn resize(&self, _: Size) {}

    fn signal(&self, name: &str) {
        assert!(name.len() < 256 << 10);
    }

    fn kill(&self) {}
}

impl StartProgram for Starter {
    fn start(&self, command: Command) -> io::Result<Started> {
        assert!(command.env.len() <= 64, "too many variables");
        if command.what == What::Sftp {
            return Err(io::ErrorKind::NotFound.into());
        }
        let null = || File::options().read(true).write(true).open("/dev/null");
        Ok(Started {
            input: null()?.into(),
            output: null()?.into(),
            errors: None,
            program: Arc::new(Ended),
        })
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    if first & 1 == 0 {
        // Connections end with errors.
        let _ = serve(rest, io::sink(), &KEY, &Starter);
        return;
    }
    // Each message has its length in front of it, in two bytes.
    let mut rest = rest;
    let messages = std::iter::from_fn(|| {
        let (length, after) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length)).min(after.len());
        let (message, after) = after.split_at(length);
        rest = after;
        Some(message)
    });
    fuzzing::serve_messages(messages, &KEY, &Starter);
});
