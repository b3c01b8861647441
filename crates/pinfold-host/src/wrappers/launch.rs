//! Launches inside a boundary.

use super::{Launch, Wrappers};
use crate::Refusal;
use crate::search_path::SearchPath;

/// The variable that says inside which boundary and wrappers handled a launch.
const HANDLED_BY: &str = "PINFOLD_HANDLED_BY";

impl Wrappers {
    /// Has the wrappers handle what is to be launched inside.
    ///
    /// # Errors
    /// Returns a refusal if a wrapper refuses or fails.
    pub(crate) fn wrapped(
        &self,
        boundary: &str,
        launch: Launch,
        path: &SearchPath,
    ) -> Result<Launch, Refusal> {
        let mut launch = self
            .wrap(boundary, launch, path)
            .map_err(|error| Refusal::new(&error).with_hint(error.hint()))?;
        launch.env.retain(|(name, _)| name != HANDLED_BY);
        launch.env.push((HANDLED_BY.into(), launch.handled_by.join(" + ").into()));
        Ok(launch)
    }
}
