//! The tools of a diary. They run on the host as the user, so each call is recorded before it takes effect.

use std::sync::Arc;

use pinfold_client::Fault;
use pinfold_host::audit::{Audit, Event};
use pinfold_memory::{DiaryTools, FailedCall, definitions, is_tool};
use serde_json::{Value, json};

use crate::toolset::{Asked, Failure, Toolset, text_result};

/// The tools of one diary.
pub struct Memory {
    tools: Arc<dyn DiaryTools>,
    audit: Arc<Audit>,
}

impl Memory {
    /// Offers tools, and records their calls in this log.
    #[must_use]
    pub fn new(tools: Arc<dyn DiaryTools>, audit: Arc<Audit>) -> Self {
        Self { tools, audit }
    }

    fn text(&self, name: &str, arguments: &Value) -> Result<String, String> {
        record(&self.audit, &*self.tools, name)?;
        self.tools.call(name, &arguments.to_string()).map_err(|error| error.to_string())
    }
}

/// Records a call of a tool before it takes effect.
pub(crate) fn record(audit: &Audit, tools: &dyn DiaryTools, name: &str) -> Result<(), String> {
    let diary = &tools.diary_id().to_string();
    let recorded = audit.record(&Event::Memory { tool: name, diary });
    recorded.map_err(|error| format!("the call cannot be recorded: {error}"))
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Toolset for Memory {
    fn definitions(&self) -> Vec<Value> {
        // The file is the program's own, and a test reads it.
        serde_json::from_str(definitions()).unwrap_or_default()
    }

    fn has(&self, name: &str) -> bool {
        is_tool(name)
    }

    fn call(&self, asked: Asked<'_>) -> Result<Value, Fault> {
        let arguments = if asked.arguments.is_null() { json!({}) } else { asked.arguments };
        Ok(text_result(self.text(asked.name, &arguments)))
    }

    fn note(&self, failure: &Failure<'_>) {
        let Failure { name, id, arguments, said } = failure;
        let input = &arguments.to_string();
        self.tools.note_failure(&FailedCall { tool: name, id, input, error: said });
    }
}
