//! The local API: one connection is one client.

mod approvals;
mod connection;
mod events;
mod going_on;
mod methods;
mod outgoing;
mod requests;
mod socket;

use std::io::{self, BufRead, Write};

use pinfold_host::directories::Places;

pub use socket::listen;

/// Serves the local API.
#[derive(Debug, Clone)]
pub struct Api {
    places: Places,
}

impl Api {
    /// Serves what belongs to the user of these places.
    #[must_use]
    pub fn new(places: Places) -> Self {
        Self { places }
    }

    /// Answers one client until it says nothing more. Then what it has started ends.
    ///
    /// # Errors
    /// Returns the error of reading and writing.
    pub fn serve(&self, from: impl BufRead, to: impl Write + Send + 'static) -> io::Result<()> {
        requests::serve(self.places.clone(), from, to)
    }
}
