//! Serves the request of the socket that is its standard input, or the connections of one that listens.

use std::process::ExitCode;

use pinfold_runner::{listen, serve};

fn main() -> ExitCode {
    let socket = rustix::stdio::stdin();
    let is_callers = rustix::net::sockopt::socket_acceptconn(socket) != Ok(true);
    let served = if is_callers { serve::serve(socket) } else { listen::listen(socket) };
    match served {
        Ok(started) => {
            eprintln!("pinfold-runner: {started}");
            ExitCode::SUCCESS
        }
        Err(refusal) => {
            eprintln!("pinfold-runner: refused: {refusal}");
            if is_callers {
                serve::refuse(socket, &refusal);
                // A caller who asks for nothing again and again has few processes started.
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            ExitCode::FAILURE
        }
    }
}
