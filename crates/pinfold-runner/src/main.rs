//! Serves the request of the socket that is its standard input, or the connections of one that listens.

use std::process::ExitCode;

use pinfold_runner::{listen, serve};

fn main() -> ExitCode {
    let socket = rustix::stdio::stdin();
    // Who may start it with sudo has one request served, whatever socket it is.
    let is_sudo = std::env::var_os("SUDO_UID").is_some();
    let is_callers = is_sudo || rustix::net::sockopt::socket_acceptconn(socket) != Ok(true);
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
