//! Whose diary, and which.

use std::path::PathBuf;

use pinfold_content::Uuid;
use pinfold_host::directories::Places;

/// Which diary of which identity. Each has a file of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiaryName {
    identity: Option<String>,
    diary: String,
}

/// The error for a name that would not be one of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is not a valid {what}: use up to 64 letters, digits, `.`, `_` and `-`", name.escape_debug())]
pub struct InvalidName {
    what: &'static str,
    name: String,
}

impl DiaryName {
    /// The diary of an identity of which nobody names another.
    pub const DEFAULT: &str = "default";

    /// Returns the name of an identity's diary; of the user's own without an identity.
    ///
    /// # Errors
    /// Returns an error for a name with other characters, or one that begins with a dot.
    pub fn new(identity: Option<&str>, diary: Option<&str>) -> Result<Self, InvalidName> {
        let identity = identity.map(|name| checked("identity name", name)).transpose()?;
        let diary = checked("diary name", diary.unwrap_or(Self::DEFAULT))?;
        Ok(Self { identity, diary })
    }

    /// Returns the id that the name is, if it is one. In upper case it names another file, which gets an id of its own.
    pub(crate) fn id(&self) -> Option<Uuid> {
        self.diary.parse().ok().filter(|id: &Uuid| id.to_string() == self.diary)
    }

    /// Returns whether there is such a diary.
    #[must_use]
    pub fn is_there(&self, places: &Places) -> bool {
        self.path(places).exists()
    }

    /// Returns the diary's file.
    pub(crate) fn path(&self, places: &Places) -> PathBuf {
        let mut directory = places.state.join("memory");
        match &self.identity {
            Some(name) => directory.extend(["identities", name]),
            None => directory.push("own"),
        }
        directory.join(format!("{}.db", self.diary))
    }
}

fn checked(what: &'static str, name: &str) -> Result<String, InvalidName> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_valid = !name.is_empty()
        && name.len() <= 64
        && !name.starts_with('.')
        && name.bytes().all(is_plain);
    if is_valid { Ok(name.to_owned()) } else { Err(InvalidName { what, name: name.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::DiaryName;

    #[test]
    fn name_that_leaves_its_directory_is_refused() {
        for wrong in ["", ".", "..", "../x", "a/b", "a\0", "é", &"x".repeat(65)] {
            assert!(DiaryName::new(Some(wrong), None).is_err(), "{wrong}");
            assert!(DiaryName::new(None, Some(wrong)).is_err(), "{wrong}");
        }
        DiaryName::new(Some("builder"), Some("4f9c9c0e-8d0b-4c7e-9b52-0f3c1a6d2e11")).unwrap();
    }

    #[test]
    fn two_files_do_not_get_one_id() {
        let id = "4f9c9c0e-8d0b-4c7e-9b52-0f3c1a6d2e11";
        let of = |name: &str| DiaryName::new(None, Some(name)).unwrap().id();
        assert_eq!(of(id), id.parse().ok());
        assert_eq!(of(&id.to_uppercase()), None);
    }
}
