//! Groups in the user's `config.toml`, read as they are there, added and removed. All else in the file stays to the byte.

use pinfold_policy::settings::{GroupFiles, InvalidGroup};
use serde_json::{Map, Value};
use toml::Table;

/// Why groups in a text cannot be edited.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupEditError {
    /// The text is not TOML.
    #[error("config.toml is not valid: {0}")]
    Invalid(#[from] toml::de::Error),
    /// A group has this name already.
    #[error("there is a group {0} already")]
    Exists(String),
    /// No group has this name.
    #[error("there is no group {0}")]
    Missing(String),
    /// It is written in a way that is not edited.
    #[error("group {0} is not in tables of its own; edit config.toml by hand")]
    Woven(String),
    /// No group can have this name.
    #[error(transparent)]
    Name(#[from] InvalidGroup),
}

/// What a new group has.
#[derive(Clone, Debug, Default)]
pub struct NewGroup {
    /// `trust`.
    pub trust: Option<String>,
    /// `folder`.
    pub folder: Option<String>,
    /// `timeout`.
    pub timeout: Option<String>,
    /// `concurrency`.
    pub concurrency: Option<u32>,
}

/// Returns the groups of a text by their names, with their settings.
///
/// # Errors
/// Returns an error for a text that is not TOML.
pub fn groups_of(text: &str) -> Result<Map<String, Value>, GroupEditError> {
    let whole: Table = toml::from_str(text)?;
    let groups = whole.get("groups").and_then(|groups| serde_json::to_value(groups).ok());
    Ok(match groups {
        Some(Value::Object(groups)) => groups,
        _ => Map::new(),
    })
}

/// Returns the text with one more group at its end.
///
/// # Errors
/// Returns an error if there is such a group, or for a name that no group can have.
pub fn with_group(text: &str, name: &str, group: &NewGroup) -> Result<String, GroupEditError> {
    GroupFiles::of_unnamed(name)?;
    if groups_of(text)?.contains_key(name) {
        return Err(GroupEditError::Exists(name.to_owned()));
    }
    let mut table = Table::new();
    let NewGroup { trust, folder, timeout, concurrency } = group.clone();
    for (key, value) in [("trust", trust), ("folder", folder), ("timeout", timeout)] {
        table.extend(value.map(|value| (key.to_owned(), value.into())));
    }
    table.extend(concurrency.map(|count| ("concurrency".to_owned(), i64::from(count).into())));
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    // A name that a group can have needs quotes for its dots alone.
    let after = format!("{text}{gap}[groups.\"{name}\"]\n{table}");
    let mut expected: Table = toml::from_str(text)?;
    let groups = expected.entry("groups").or_insert_with(|| Table::new().into());
    if let Some(groups) = groups.as_table_mut() {
        groups.insert(name.to_owned(), table.into());
    }
    // As where `groups` is one line, to which no table can be added.
    match toml::from_str::<Table>(&after) {
        Ok(made) if made == expected => Ok(after),
        _ => Err(GroupEditError::Woven(name.to_owned())),
    }
}

/// Returns the text without a group: without its tables, which begin with a line like `[groups.NAME]` and end before the next
/// table and the comments before that.
///
/// # Errors
/// Returns an error if there is no such group, or if more or less than it would go.
pub fn without_group(text: &str, name: &str) -> Result<String, GroupEditError> {
    if !groups_of(text)?.contains_key(name) {
        return Err(GroupEditError::Missing(name.to_owned()));
    }
    let mut is_its = false;
    let mut after = String::new();
    // Comments behind the last setting: they are about what comes next.
    let mut comments = String::new();
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        if start.starts_with('[') {
            let header: Option<Table> = toml::from_str(line).ok();
            let groups = header.as_ref().and_then(|header| header.get("groups")?.as_table());
            is_its = groups.is_some_and(|groups| groups.contains_key(name));
            if !is_its {
                after.push_str(&comments);
            }
            comments.clear();
        }
        if !is_its {
            after.push_str(line);
        } else if start.starts_with('#') || (start.is_empty() && !comments.is_empty()) {
            comments.push_str(line);
        } else {
            comments.clear();
        }
    }
    after.push_str(&comments);
    let mut expected: Table = toml::from_str(text)?;
    if let Some(groups) = expected.get_mut("groups").and_then(|groups| groups.as_table_mut()) {
        groups.remove(name);
    }
    let is_empty = |table: &Table| {
        table.get("groups").and_then(|groups| groups.as_table()).is_some_and(Table::is_empty)
    };
    if is_empty(&expected) {
        expected.remove("groups");
    }
    // A line of a text with several lines can look like the beginning of a table.
    match toml::from_str::<Table>(&after) {
        Ok(mut made) => {
            if is_empty(&made) {
                made.remove("groups");
            }
            if made == expected { Ok(after) } else { Err(GroupEditError::Woven(name.to_owned())) }
        }
        Err(_) => Err(GroupEditError::Woven(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::{GroupEditError, NewGroup, groups_of, with_group, without_group};

    const TEXT: &str = "# mine\nagent = \"pi\" # kept\n\n[groups.main]\ntrust = \"admin\"\n\n[groups.dev] # theirs\nfolder = \"d\"\n\
                        [[groups.dev.mounts]]\nhost_path = \"/x\"\n[groups.\"dev.two\"]\n\n[budget]\nusd = 1\n";

    fn new() -> NewGroup {
        NewGroup { trust: Some("member".to_owned()), concurrency: Some(3), ..NewGroup::default() }
    }

    #[test]
    fn group_that_is_added_and_removed_leaves_the_rest_to_the_byte() {
        for text in ["", "agent = \"pi\"", TEXT] {
            let with = with_group(text, "new.one", &new()).unwrap();
            assert!(with.starts_with(text), "{with}");
            let group = &groups_of(&with).unwrap()["new.one"];
            assert_eq!(group.to_string(), r#"{"concurrency":3,"trust":"member"}"#);
            assert_eq!(without_group(&with, "new.one").unwrap().trim_end(), text.trim_end());
            let again = with_group(&with, "new.one", &new()).unwrap_err();
            assert!(matches!(again, GroupEditError::Exists(_)), "{again}");
        }
    }

    #[test]
    fn group_goes_with_its_mounts_and_nothing_else() {
        let without = without_group(TEXT, "dev").unwrap();
        let expected = TEXT.replace(
            "[groups.dev] # theirs\nfolder = \"d\"\n[[groups.dev.mounts]]\nhost_path = \"/x\"\n",
            "",
        );
        assert_eq!(without, expected);
        assert!(matches!(without_group(TEXT, "de"), Err(GroupEditError::Missing(_))));
    }

    #[test]
    fn comments_of_what_comes_next_stay() {
        for (text, expected) in [
            (
                "[groups.dev]\n# its\nfolder = 'd'\n\n# mine\n\n# too\n[budget]\n",
                "# mine\n\n# too\n[budget]\n",
            ),
            ("[groups.dev]\nfolder = 'd'\n# last", "# last"),
            ("[groups.dev]\n# its\n[[groups.dev.mounts]]\nhost_path = '/x'\n", ""),
            ("[groups.dev]\nfolder = '''\n# text\n'''\n[budget]\n", "[budget]\n"),
        ] {
            assert_eq!(without_group(text, "dev").unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_in_tables_of_its_own_is_left_to_the_user() {
        for text in [
            "groups = { dev = {} }\n",
            "[groups]\ndev = { folder = \"d\" }\n",
            "groups.dev.folder = \"d\"\n",
            "note = '''\n[groups.dev]\n'''\n[groups.dev]\n",
            "[groups.dev]\nfolder = '''\n[x]\n'''\n",
        ] {
            let error = without_group(text, "dev").unwrap_err();
            assert!(matches!(error, GroupEditError::Woven(_)), "{text}: {error}");
        }
        assert!(matches!(
            with_group("groups = { dev = {} }\n", "a", &new()),
            Err(GroupEditError::Woven(_))
        ));
        for name in ["", "../x", "a/b", "a\"b", "a\nb", "-a", "ä"] {
            assert!(with_group("", name, &new()).is_err(), "{name}");
        }
        assert!(matches!(with_group("a = ", "x", &new()), Err(GroupEditError::Invalid(_))));
    }
}
