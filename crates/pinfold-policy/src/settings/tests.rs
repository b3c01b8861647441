//! Tests of the layers together.

use std::path::Path;

use super::*;
use crate::document::SettingsFile;
use crate::origin::{Origin, Valued};
use crate::path::HostPath;
use proptest::prelude::*;

mod branch;
mod files;
mod group;
mod merging;
mod narrowing;
mod network;
mod project;
mod ssh;

/// The layers of a test, as text.
#[derive(Clone, Debug, Default)]
struct Case {
    ceiling: &'static str,
    user: &'static str,
    project: &'static str,
    flags: Flags,
    trust: Trust,
    agent_loop: &'static str,
}

impl Case {
    fn resolve(&self) -> Result<Settings, SettingsError> {
        let home = HostPath::new("/home/me").unwrap();
        let file = |path: &'static str, text: &'static str| {
            (!text.is_empty())
                .then(|| SettingsFile { path: Path::new(path), bytes: text.as_bytes() })
        };
        let name = if self.project.starts_with('{') { "sandbox.json" } else { "sandbox.toml" };
        let project: Vec<SettingsFile<'_>> = file(name, self.project).into_iter().collect();
        Settings::resolve(Layers {
            home: Some(&home),
            attendance: Attendance::Attended,
            ceiling: file("policy.toml", self.ceiling),
            user: file("config.toml", self.user),
            project: Project::read(&project)?,
            trust: self.trust,
            agent_loop: file(".agent-loop/config.json", self.agent_loop)
                .map(AgentLoop::read)
                .transpose()?,
            flags: self.flags.clone(),
        })
    }

    fn error(&self) -> String {
        let error = self.resolve().unwrap_err();
        match error.hint() {
            Some(hint) => format!("{error}\nhint: {hint}"),
            None => error.to_string(),
        }
    }
}

fn user(text: &'static str) -> Case {
    Case { user: text, ..Case::default() }
}

fn project(text: &'static str) -> Case {
    Case { project: text, ..Case::default() }
}

fn ceiling(text: &'static str, user: &'static str) -> Case {
    Case { ceiling: text, user, ..Case::default() }
}

/// Returns the same with its file trusted.
fn trusted(text: &'static str) -> Case {
    Case { trust: Trust::Trusted, ..project(text) }
}

fn waiting(settings: &Settings) -> Vec<String> {
    settings.waiting().map(ToString::to_string).collect()
}

fn shown<T: std::fmt::Display>(valued: &Option<Valued<T>>) -> String {
    valued.as_ref().map_or("none".to_owned(), |v| format!("{} by {}", v.value, v.origin))
}
