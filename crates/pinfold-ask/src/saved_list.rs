//! A list in a file next to the user's settings, which sessions add to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use pinfold_host::directories::Places;
use pinfold_host::owned;
use rustix::fs::FlockOperation;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A list of what a user has answered `always` about.
#[derive(Debug)]
pub struct SavedList<T> {
    path: PathBuf,
    directory: PathBuf,
    of: PhantomData<T>,
}

impl<T: Clone + PartialEq + Serialize + DeserializeOwned> SavedList<T> {
    /// Returns the list in this file of the user's.
    #[must_use]
    pub fn new(places: &Places, name: &str) -> Self {
        let directory = places.config.clone();
        Self { path: directory.join(name), directory, of: PhantomData }
    }

    /// Returns all that it has.
    ///
    /// # Errors
    /// Returns the error of reading; a file that cannot be read is not taken for none.
    pub fn all(&self) -> io::Result<Vec<T>> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
        };
        match owned::read(&self.path)? {
            // A live session may have put an empty one where a link leads to nothing.
            Some(bytes) if bytes.is_empty() => Ok(Vec::new()),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| named(error.into())),
            None => Ok(Vec::new()),
        }
    }

    /// Adds one.
    ///
    /// # Errors
    /// Returns the error of reading and writing.
    pub fn add(&self, one: &T) -> io::Result<()> {
        self.change(|all| {
            if !all.contains(one) {
                all.push(one.clone());
            }
        })
    }

    /// Takes one away; whether it was there.
    ///
    /// # Errors
    /// Returns the error of reading and writing.
    pub fn remove(&self, one: &T) -> io::Result<bool> {
        let mut was_there = false;
        self.change(|all| {
            let before = all.len();
            all.retain(|known| known != one);
            was_there = all.len() < before;
        })?;
        Ok(was_there)
    }

    /// Changes it under a lock: two sessions may each add one.
    fn change(&self, change: impl FnOnce(&mut Vec<T>)) -> io::Result<()> {
        Places::make_private(&self.directory)?;
        let lock = self.path.with_extension("lock");
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(lock)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        let mut all = self.all()?;
        change(&mut all);
        let new = self.path.with_extension(format!("new-{}", std::process::id()));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(&all)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        File::open(&self.directory)?.sync_all()
    }
}
