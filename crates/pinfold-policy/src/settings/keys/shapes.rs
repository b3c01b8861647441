//! Shapes of values that several tables have.

use crate::document::Shape;
use crate::env::NAME_PATTERN;

pub(crate) const SIZE: Shape = Shape::Pattern("^[0-9]*[1-9][0-9]*(B|[KMGTkmgt]|[KMGT]iB)?$");
pub(crate) const ENV: Shape = Shape::Map(NAME_PATTERN, &Shape::Text);
pub(crate) const TEXTS: Shape = Shape::List(&Shape::Text);
/// Names that appear in keys and messages: providers, secrets, agents.
pub const ID_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";
/// Regions and projects, which become parts of host names and paths.
pub const PLACE_PATTERN: &str = "^[a-z0-9][a-z0-9-]*$";
