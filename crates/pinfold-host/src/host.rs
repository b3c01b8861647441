//! The user's machine, for what starts programs on it.

use crate::directories::Places;
use crate::launcher::Launcher;

/// The user's machine: where pinfold keeps its files, and what starts programs.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    /// Where pinfold keeps its files.
    pub places: &'a Places,
    /// What starts programs.
    pub launcher: &'a Launcher,
}
