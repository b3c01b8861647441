//! The scripted model server as a program, for tests written in shell.
//!
//! Prints `READY http://127.0.0.1:PORT` when it listens and runs until it is killed.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::ExitCode;

use pinfold_testkit::{ModelServer, Options, Script};

const USAGE: &str = "usage: pinfold-model-server [--port N] [--script FILE] [--log FILE]
                            [--require-key KEY]…

  --port N            port on 127.0.0.1; 0, the default, picks a free one
  --script FILE       what to answer; default: the loop that fixes the fixture's bug
  --log FILE          append one line of JSON for each request
  --require-key KEY   answer 401 unless this, or another one given so, is the credential";

fn main() -> ExitCode {
    match start() {
        Ok(server) => {
            println!("READY {}", server.base_url());
            loop {
                std::thread::park();
            }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn start() -> Result<ModelServer, Box<dyn std::error::Error>> {
    let mut options = Options::default();
    let mut script = Script::fix_the_bug();
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match flag.as_str() {
            "--port" => options.port = value.parse()?,
            "--script" => script = Script::load(Path::new(&value))?,
            "--log" => {
                options.log = Some(OpenOptions::new().create(true).append(true).open(value)?);
            }
            "--require-key" => options.require_keys.push(value),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(ModelServer::start_with(script, options)?)
}
