//! "Who said this?", for `pinfold config --origins`.

use std::fmt::Display;

use super::budget;
use super::effective::Settings;
use crate::origin::{Origin, Valued};

/// A setting as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct OriginRow {
    /// The dotted key.
    pub key: String,
    /// The value. Variables of the user and the administrator are shown as `(set)`: people keep
    /// tokens there.
    pub value: String,
    /// The layer's name.
    pub layer: &'static str,
    /// The layer, with file and line where there is one.
    pub origin: Origin,
}

/// Collects rows.
#[derive(Default)]
struct Rows(Vec<OriginRow>);

impl Rows {
    fn push(&mut self, key: impl Into<String>, value: impl Display, origin: &Origin) {
        self.0.push(OriginRow {
            key: key.into(),
            value: value.to_string(),
            layer: origin.layer(),
            origin: origin.clone(),
        });
    }

    fn one<T: Display>(&mut self, key: impl Into<String>, valued: &Valued<T>) {
        self.push(key, &valued.value, &valued.origin);
    }

    fn optional<T: Display>(&mut self, key: &str, valued: Option<&Valued<T>>) {
        if let Some(valued) = valued {
            self.one(key, valued);
        }
    }

    fn list<T: Display>(&mut self, key: &str, values: &[Valued<T>]) {
        for valued in values {
            self.one(key, valued);
        }
    }
}

impl Settings {
    /// Returns every setting that has a value, in the order of the documentation; a list has one row for
    /// each element.
    #[must_use]
    pub fn origins(&self) -> Vec<OriginRow> {
        let mut rows = Rows::default();
        for (key, value, origin) in self.scalars.rows() {
            rows.push(key, value, origin);
        }
        rows.list("vfs.shadow", &self.shadow);
        if !self.shadow.is_empty() {
            rows.one("vfs.shadowMode", &self.shadow_mode);
        }
        rows.optional("resources.cpus", self.limits.cpus.as_ref());
        rows.optional("resources.memory", self.limits.memory.as_ref());
        rows.optional("resources.pids", self.limits.pids.as_ref());
        rows.optional("resources.disk", self.limits.disk.as_ref());
        rows.optional("resources.files", self.limits.files.as_ref());
        rows.optional("resources.timeout", self.limits.timeout.as_ref());
        rows.optional("resources.build", self.limits.build.as_ref());
        for setting in &self.env {
            let is_public = matches!(setting.origin, Origin::Project(_));
            let value = if is_public { setting.value.as_str() } else { "(set)" };
            rows.push(format!("env.{}", setting.name), value, &setting.origin);
        }
        rows.list("forward_env", &self.forward_env);
        rows.list("files.read", &self.files.read);
        rows.list("files.write", &self.files.write);
        rows.list("files.deny", &self.files.deny);
        rows.list("files.sockets", &self.files.sockets);
        rows.list("files.opt_in", &self.files.opt_in);
        rows.one("files.state", &self.files.state);
        rows.one("files.my_config", &self.files.my_config);
        rows.list("network.allow", &self.network.allow);
        rows.list("network.allowedInternalHosts", &self.network.internal);
        rows.list("network.intercept", &self.network.intercept);
        rows.list("publish", &self.publish);
        rows.list("secrets", &self.secrets);
        rows.optional("diary.server", self.diary.server.as_ref());
        rows.optional("diary.size", self.diary.size.as_ref());
        rows.optional("diary.keep", self.diary.keep.as_ref());
        rows.optional("ssh.key", self.ssh.key.as_ref());
        rows.list("ssh.hosts", &self.ssh.hosts);
        self.provider_rows(&mut rows);
        self.group_rows(&mut rows);
        for (key, value, origin) in self.budgets.iter().flat_map(budget::rows) {
            rows.push(key, value, &origin);
        }
        rows.optional("snapshot.base", self.snapshot.base.as_ref());
        rows.list("snapshot.setupCommands", &self.snapshot.setup);
        rows.list("snapshot.allowedHosts", &self.snapshot.hosts);
        rows.optional("snapshot.overlaySize", self.snapshot.size.as_ref());
        rows.optional("snapshot.user", self.snapshot.user.as_ref());
        rows.list("snapshot.directories", &self.snapshot.directories);
        rows.list("resumeCommands", &self.resume);
        rows.list("hostExec.autoApprove", &self.approve);
        self.question_rows(&mut rows);
        rows.list("wrappers", &self.wrappers);
        rows.0
    }

    fn provider_rows(&self, rows: &mut Rows) {
        for (name, provider) in &self.providers {
            rows.optional(&format!("providers.{name}.base_url"), provider.base_url.as_ref());
            rows.optional(&format!("providers.{name}.api"), provider.api.as_ref());
            rows.optional(&format!("providers.{name}.keyless"), provider.keyless.as_ref());
            rows.optional(&format!("providers.{name}.region"), provider.region.as_ref());
            rows.optional(&format!("providers.{name}.project"), provider.project.as_ref());
            if let Some(models) = &provider.models {
                let listed = models.value.join(", ");
                rows.push(format!("providers.{name}.models"), listed, &models.origin);
            }
            for (header, value) in &provider.account {
                rows.one(format!("providers.{name}.account.{header}"), value);
            }
        }
    }

    fn group_rows(&self, rows: &mut Rows) {
        if let Some(group) = &self.scalars.group {
            rows.one(format!("groups.{}.trust", group.value), &self.group_trust);
        }
        if let (Some(home), Some(files)) = (&self.group_home, &self.group_files) {
            rows.one("group_home.root", &home.root);
            rows.optional("group_home.scripts", home.scripts.as_ref());
            rows.optional("group_home.runner", home.runner.as_ref());
            rows.list("group_home.env", &home.env);
            rows.optional("groups.repo_access", files.repo_access.as_ref());
            rows.list("groups.mounts", &files.mounts);
        }
    }

    fn question_rows(&self, rows: &mut Rows) {
        let ask = &self.ask;
        if ask.connections.origin.is_chosen() {
            rows.one("ask.connections", &ask.connections);
            rows.one("ask.timeout", &ask.patience);
            rows.list("ask.command", &ask.command);
            // With many services the path of a webhook is a secret.
            ask.webhook.iter().for_each(|it| rows.push("ask.webhook", it.value.host(), &it.origin));
            rows.optional("ask.port", ask.port.as_ref());
        }
        let host_exec = &self.host_exec;
        if host_exec.enabled.value || host_exec.enabled.origin.is_chosen() {
            rows.one("hostExec.enabled", &host_exec.enabled);
            rows.list("hostExec.executables", &host_exec.executables);
            rows.list("hostExec.onPath", &host_exec.on_path);
            rows.one("hostExec.timeout", &host_exec.timeout);
            rows.one("hostExec.approvalTimeout", &host_exec.patience);
            rows.one("hostExec.waitForApprovals", &host_exec.waits);
        }
    }
}
