//! Questions to the user while a session runs: about which hosts, how long, and by which ways.

use std::time::Duration;

use super::fields::{list, sub_table, word};
use super::keys;
use super::url::BaseUrl;
use crate::document::{FileError, Item, Section};
use crate::limits::WallTime;
use crate::origin::{Origin, Valued};

/// What the settings say of questions. Only the user's own file and the command line say something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskSettings {
    /// Whether a connection that no rule names waits for an answer: if the table exists.
    pub connections: Valued<bool>,
    /// How long a user may take to answer a question about a connection.
    pub patience: Valued<WallTime>,
    /// A program by its absolute path, and its arguments: it gets each question.
    pub command: Vec<Valued<String>>,
    /// Where each question is posted to.
    pub webhook: Option<Valued<BaseUrl>>,
    /// The secret that signs what is posted.
    pub webhook_secret: Option<Valued<String>>,
    /// The port of answer links on this machine's loopback interface; any if absent.
    pub port: Option<Valued<u16>>,
    /// How answer links begin, where they lead to that port from elsewhere.
    pub base_url: Option<Valued<BaseUrl>>,
}

impl Default for AskSettings {
    fn default() -> Self {
        Self {
            connections: Valued::default_of(false),
            patience: Valued::default_of(WallTime::new(Duration::from_secs(120))),
            command: Vec::new(),
            webhook: None,
            webhook_secret: None,
            port: None,
            base_url: None,
        }
    }
}

impl AskSettings {
    /// Returns the same with the flag `--ask`.
    pub(super) fn with_flag(mut self, is_set: bool) -> Self {
        if is_set {
            self.connections = Valued::new(true, Origin::Flag { name: "--ask" });
        }
        self
    }
}

/// Reads `ask` of the user's file. A repository's has none: a clone neither asks its user nor answers.
pub(super) fn of_user(section: &Section<'_>) -> Result<AskSettings, FileError> {
    let default = AskSettings::default();
    let Some(table) = sub_table(section, keys::USER, "ask")? else { return Ok(default) };
    let said = section.get("ask").map_or(Origin::Default, |item| Origin::User(item.place()));
    let user = |item: &Item<'_>| Origin::User(item.place());
    let port = |item: &Item<'_>| {
        let port = u16::try_from(item.count()?).ok().filter(|port| *port >= 1024);
        let port = port.ok_or_else(|| item.invalid("expected a port between 1024 and 65535"))?;
        Ok(Valued::new(port, user(item)))
    };
    let command = list(Some(&table), "command", Origin::User, |item| Ok(item.text()?.to_owned()))?;
    if command.first().is_some_and(|program| !program.value.starts_with('/')) {
        return Err(table.require("command")?.invalid("expected a program by its absolute path"));
    }
    let webhook = word(&table, "webhook", Origin::User)?;
    let webhook_secret = table
        .read("webhook_secret", |item| Ok(Valued::new(item.text()?.to_owned(), user(item))))?;
    if webhook.is_some() && webhook_secret.is_none() {
        let hint = "a webhook needs webhook_secret, the name of the secret that signs questions";
        return Err(table.require("webhook")?.invalid(hint));
    }
    Ok(AskSettings {
        connections: table
            .read("connections", |item| Ok(Valued::new(item.flag()?, user(item))))?
            .unwrap_or(Valued::new(true, said)),
        patience: word(&table, "timeout", Origin::User)?.unwrap_or(default.patience),
        command,
        webhook,
        webhook_secret,
        port: table.read("port", port)?,
        base_url: word(&table, "base_url", Origin::User)?,
    })
}
