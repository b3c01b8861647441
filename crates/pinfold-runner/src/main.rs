//! Serves the request of the socket that is its standard input.

use std::process::ExitCode;

use pinfold_runner::serve;

fn main() -> ExitCode {
    let socket = rustix::stdio::stdin();
    match serve::serve(socket) {
        Ok(started) => {
            eprintln!("pinfold-runner: {started}");
            ExitCode::SUCCESS
        }
        Err(refusal) => {
            serve::refuse(socket, &refusal);
            eprintln!("pinfold-runner: refused: {refusal}");
            ExitCode::FAILURE
        }
    }
}
