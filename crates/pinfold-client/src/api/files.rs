//! Files of a session.

use pinfold_tools::{Bytes, Change, ReadDone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileContent {
    /// Size, kind and media type of the file.
    pub file: ReadDone,
    /// The bytes that were read.
    pub content: Bytes,
}

macro_rules! of_session {
    ($($(#[$doc:meta])* $name:ident($field:ident: $type:ty) $({ $($(#[$more:meta])* $extra:ident: $extra_type:ty,)* })?)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            /// The session's id or name.
            pub session: String,
            /// What to do, with its parameters.
            pub $field: $type,
            $($($(#[$more])* pub $extra: $extra_type,)*)?
        })*
    };
}

of_session! {
    /// Reads a file.
    FilesRead(read: pinfold_tools::Read)
    /// Writes a file.
    FilesWrite(write: pinfold_tools::Write) {
        /// The new content.
        content: Bytes,
    }
    /// Edits a file.
    FilesEdit(edit: pinfold_tools::Edit)
    /// Lists a directory.
    FilesList(list: pinfold_tools::List)
    /// Finds files.
    FilesFind(find: pinfold_tools::Find)
    /// Searches the lines of files.
    FilesGrep(grep: pinfold_tools::Grep)
    /// Returns what is at a path.
    FilesStat(stat: pinfold_tools::Stat)
    /// Creates a directory.
    FilesMakeDirectory(directory: pinfold_tools::MakeDirectory)
    /// Watches a path.
    FilesWatch(watch: pinfold_tools::Watch)
}

/// A watch that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchStarted {
    /// The watch's number on this connection.
    pub watch: u64,
}

/// Ends a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilesUnwatch {
    /// The watch's number.
    pub watch: u64,
}

/// A watched path has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilesChanged {
    /// The watch's number.
    pub watch: u64,
    /// What happened; absent if no more events follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// The path that changed.
    pub path: Bytes,
    /// Why no more events follow, if that is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
