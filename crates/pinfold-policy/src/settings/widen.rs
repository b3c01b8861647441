//! What of a repository's file takes effect: what narrows always, what widens once its user trusts
//! the file as it is.

use std::path::Path;

use super::agent_loop::AgentLoop;
use super::effective::Settings;
use super::error::SettingsError;
use super::host_exec::{HostExecFile, LISTED};
use super::layers::Trust;
use super::network::{self, FlagNetwork};
use super::project::Project;
use super::publish::PublishedPort;
use super::read::UserFile;
use super::values::EnvSetting;
use super::words::BoundaryName;
use crate::env::reserved;
use crate::limits::ByteSize;
use crate::network::{HostPattern, NetworkPolicy, NetworkRule, SecretRule};
use crate::origin::{Origin, Valued};
use crate::path::Escaped;
use crate::project::{AutoApprove, Base, ResumeCommand, Snapshot, SystemUser, Widening};

/// What commands of the repository may need: while one of these waits for trust, they are skipped.
const NEEDED_BY_COMMANDS: [&str; 7] = [
    "env",
    "snapshot.base",
    "snapshot.setupCommands",
    "snapshot.user",
    "network.allow",
    "network.allowedInternalHosts",
    "secrets",
];

/// What a repository asks for, as it is gone through.
pub(super) struct Asked {
    trust: Trust,
    pub(super) widenings: Vec<Widening>,
}

impl Asked {
    pub(super) fn new(trust: Trust) -> Self {
        Self { trust, widenings: Vec::new() }
    }

    /// Notes something that widens; whether it takes effect.
    pub(super) fn one(&mut self, key: &str, asks: String, origin: &Origin) -> bool {
        self.note(key, asks, origin, false)
    }

    fn note(&mut self, key: &str, asks: String, origin: &Origin, harmless: bool) -> bool {
        let in_effect = harmless || self.trust == Trust::Trusted;
        // Everything that is asked for comes from a line of the repository's file.
        if let Origin::Project(place) = origin {
            let (key, place) = (key.to_owned(), place.clone());
            self.widenings.push(Widening { key, asks, place, in_effect });
        }
        in_effect
    }

    /// Returns those that take effect. What is `given` anyway needs no permission.
    fn each<T>(
        &mut self,
        key: &str,
        asked: Vec<Valued<T>>,
        given: impl Fn(&T) -> bool,
        says: impl Fn(&T) -> String,
    ) -> Vec<Valued<T>> {
        let takes =
            |one: &Valued<T>| given(&one.value) || self.one(key, says(&one.value), &one.origin);
        asked.into_iter().filter(takes).collect()
    }

    /// Ralph's provider and model. Another provider than the agent's own means another key and another
    /// bill, and the model is one of its.
    pub(super) fn agent_loop(&mut self, asked: AgentLoop, given: Option<&str>) -> AgentLoop {
        let Some(provider) = &asked.provider else { return asked };
        let is_given = provider.value == given.unwrap_or(AgentLoop::PROVIDER);
        let asks =
            format!("ask models of {}, with your key for it", Escaped(Path::new(&provider.value)));
        if is_given || self.one("pi.provider", asks, &provider.origin) {
            return asked;
        }
        AgentLoop { provider: None, model: None, ..asked }
    }

    /// Returns the repository's hosts.
    pub(super) fn network(
        &mut self,
        asked: NetworkPolicy,
        user: &NetworkPolicy,
        flags: &FlagNetwork,
    ) -> NetworkPolicy {
        fn given<'a>(
            user: &'a [Valued<NetworkRule>],
            flags: &'a [NetworkRule],
        ) -> impl Fn(&NetworkRule) -> bool + 'a {
            // A rule on some requests gives no more than these.
            move |rule| {
                let mut given = user.iter().map(|rule| &rule.value).chain(flags);
                given.any(|given| given == rule || !given.looks_at_requests() && given.covers(rule))
            }
        }
        let ends_tls = |host: &HostPattern| user.intercept.iter().any(|given| given.value == *host);
        NetworkPolicy {
            allow: self.each(
                "network.allow",
                asked.allow,
                given(&user.allow, &flags.allow),
                |rule| format!("reach {rule}"),
            ),
            internal: self.each(
                "network.allowedInternalHosts",
                asked.internal,
                given(&user.internal, &flags.internal),
                |rule| format!("reach {rule} although it leads to a private address"),
            ),
            intercept: self.each("network.intercept", asked.intercept, ends_tls, |host| {
                format!("end the TLS of {host}")
            }),
            brokered: Vec::new(),
        }
    }

    /// Returns the repository's secrets. One that the user's own file names is the user's to place.
    pub(super) fn secrets(
        &mut self,
        asked: Vec<Valued<SecretRule>>,
        mut user: Vec<Valued<SecretRule>>,
    ) -> Result<Vec<Valued<SecretRule>>, SettingsError> {
        let is_users =
            |one: &Valued<SecretRule>| user.iter().any(|its| its.value.id == one.value.id);
        let asked = asked.into_iter().filter(|one| !is_users(one)).collect();
        let taken = self.each(
            "secrets",
            asked,
            |_| false,
            |secret| {
                let hosts: Vec<String> = secret.hosts.iter().map(ToString::to_string).collect();
                format!("send your secret {} to {}", secret.id, hosts.join(", "))
            },
        );
        user.extend(taken);
        network::check_variables(&user)?;
        Ok(user)
    }

    /// Returns the user's variables and the repository's. Reserved ones of the repository's that the user may set
    /// are the user's decision.
    pub(super) fn env(
        &mut self,
        asked: Vec<EnvSetting>,
        mut user: Vec<EnvSetting>,
    ) -> Vec<EnvSetting> {
        let takes = |one: &EnvSetting| {
            let Some(rule) = reserved(&one.name) else { return true };
            let value = Escaped(Path::new(&one.value));
            let asks = format!("set {} to {value}, although {}", one.name, rule.reason);
            self.one("env", asks, &one.origin)
        };
        let taken: Vec<EnvSetting> = asked.into_iter().filter(takes).collect();
        user.extend(taken);
        user
    }

    /// Returns the repository's ports.
    pub(super) fn publish(
        &mut self,
        asked: Vec<Valued<PublishedPort>>,
        mut user: Vec<Valued<PublishedPort>>,
    ) -> Vec<Valued<PublishedPort>> {
        let given = |port: &PublishedPort| user.iter().any(|its| its.value == *port);
        let taken = self.each("publish", asked, given, |port| {
            format!(
                "let {} on this machine lead to port {} in the sandbox",
                port.host, port.sandbox
            )
        });
        user.extend(taken);
        user
    }

    /// Returns what the sandbox may ask the host to run, and what of it is run without asking.
    pub(super) fn host_exec(&mut self, asked: HostExecFile, user: &HostExecFile) -> HostExecFile {
        let says = |what: &AutoApprove| format!("run on this machine without asking: {what}");
        let approve = self.each("hostExec.autoApprove", asked.approve, |_| false, says);
        let listed = |name: &String| {
            LISTED.contains(&name.as_str()) || user.executables.iter().any(|its| its.value == *name)
        };
        let may_ask = |name: &String| format!("ask you to run {name} on this machine");
        let executables = self.each("hostExec.executables", asked.executables, listed, may_ask);
        let given = |name: &String| user.on_path.iter().any(|its| its.value == *name);
        let stands_for = |name: &String| format!("have {name} inside ask this machine to run it");
        let on_path = self.each("hostExec.onPath", asked.on_path, given, stands_for);
        HostExecFile { approve, executables, on_path, ..HostExecFile::default() }
    }

    /// Returns what the system inside is built from.
    pub(super) fn snapshot(&mut self, asked: Snapshot) -> Snapshot {
        let optional = |one: Option<_>| one.into_iter().collect::<Vec<_>>();
        let is_host = |base: &Base| *base == Base::Host;
        let base = self.each("snapshot.base", optional(asked.base), is_host, |base| {
            let what = match base {
                Base::Directory(_) => "on the system, and read all of it, in the directory",
                _ => "on the system",
            };
            format!("run {what} {base} instead of this machine's")
        });
        let setup = self.each(
            "snapshot.setupCommands",
            asked.setup,
            |_| false,
            |command| {
                format!("run with the package registries in reach: {}", Escaped(command.as_ref()))
            },
        );
        let hosts = self.each(
            "snapshot.allowedHosts",
            asked.hosts,
            |_| false,
            |rule| format!("let these commands reach {rule}"),
        );
        let size: Vec<Valued<ByteSize>> = asked.size.into_iter().collect();
        let small = |size: &ByteSize| *size <= Snapshot::DEFAULT_SIZE;
        let size = self.each("snapshot.overlaySize", size, small, |size| {
            format!("fill {size} of this machine's disk")
        });
        let is_agent = |user: &SystemUser| *user == SystemUser::Agent;
        let user = self.each("snapshot.user", asked.user.into_iter().collect(), is_agent, |_| {
            "be root by name in a system of its own".to_owned()
        });
        // An empty directory of the session's own gives nothing.
        let directories = asked.directories;
        let (base, size) = (base.into_iter().next(), size.into_iter().next());
        Snapshot { base, setup, hosts, size, user: user.into_iter().next(), directories }
    }

    /// Returns what runs inside before the command. In a session with nothing to lose it may as well,
    /// unless it may need something that waits for trust. It would fail for a lack of programs or hosts,
    /// often halfway (`npm ci` first removes what is installed), or work on others.
    pub(super) fn resume(
        &mut self,
        asked: Vec<Valued<ResumeCommand>>,
        settings: &Settings,
    ) -> Vec<Valued<ResumeCommand>> {
        let waits = |one: &Widening| !one.in_effect && NEEDED_BY_COMMANDS.contains(&&*one.key);
        let has_all = !self.widenings.iter().any(waits);
        let harmless = has_all && !settings.has_something_to_lose();
        let takes = |one: &Valued<ResumeCommand>| {
            let says = format!("run inside at each start: {}", Escaped(one.value.run.as_ref()));
            self.note("resumeCommands", says, &one.origin, harmless)
        };
        asked.into_iter().filter(takes).collect()
    }
}

/// Returns the boundary, which a repository may only want stronger than what was chosen.
pub(super) fn boundary(
    chosen: Option<Valued<BoundaryName>>,
    asked: [Option<Valued<BoundaryName>>; 2],
) -> Result<Option<Valued<BoundaryName>>, SettingsError> {
    let default = BoundaryName::Namespace;
    let mut boundary = chosen;
    for asked in asked.into_iter().flatten() {
        match &boundary {
            Some(chosen) if !chosen.value.stands_for(asked.value) => {
                return Err(SettingsError::WeakWall {
                    asked: asked.shown(),
                    chosen: chosen.shown(),
                });
            }
            None if !default.stands_for(asked.value) => boundary = Some(asked),
            _ => {}
        }
    }
    Ok(boundary)
}

/// The part of the user's file that the repository's is checked against.
pub(super) struct Shared {
    pub(super) network: NetworkPolicy,
    pub(super) secrets: Vec<Valued<SecretRule>>,
    pub(super) publish: Vec<Valued<PublishedPort>>,
}

/// Takes what both files can say out of them, merged.
pub(super) fn shared(
    asked: &mut Asked,
    user: &mut UserFile,
    project: &mut Project,
    flags: &FlagNetwork,
) -> Result<Shared, SettingsError> {
    let mut network = std::mem::take(&mut user.network);
    let taken = asked.network(std::mem::take(&mut project.network), &network, flags);
    network.allow.extend(taken.allow);
    network.internal.extend(taken.internal);
    network.intercept.extend(taken.intercept);
    let secrets =
        asked.secrets(std::mem::take(&mut project.secrets), std::mem::take(&mut user.secrets))?;
    let publish =
        asked.publish(std::mem::take(&mut project.publish), std::mem::take(&mut user.publish));
    Ok(Shared { network, secrets, publish })
}
