//! The network rules of a live session.

use std::sync::Arc;

use pinfold_egress::PolicyHandle;
use pinfold_host::Refusal;
use pinfold_host::audit::{Audit, Event};
use pinfold_policy::network::{NetworkPolicy, NetworkRule};
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::settings::Ceiling;

use super::message::{Change, RulesNow};

/// Rules that can be changed.
pub(crate) struct Rules {
    pub(crate) policy: PolicyHandle,
    pub(crate) ceiling: Ceiling,
    pub(crate) audit: Arc<Audit>,
    /// Whether only programs that use a proxy reach what is allowed.
    pub(crate) by_proxy: bool,
}

impl Rules {
    /// Makes a change, recorded before it takes effect.
    pub(super) fn change(&self, change: &Change) -> Result<RulesNow, Refusal> {
        let (what, text) = match change {
            Change::Allow(text) => ("allow", text),
            Change::Forbid(text) => ("forbid", text),
        };
        let rule: NetworkRule = text.parse().map_err(Refusal::about(text))?;
        let given = Valued::new(rule.clone(), Origin::Flag { name: "pinfold allow" });
        match change {
            Change::Allow(_) => {
                self.ceiling.check_host(&given).map_err(Refusal::of)?;
                let (allow, now) = (vec![given.clone()], self.policy.current());
                let opened = NetworkPolicy { allow, ..NetworkPolicy::clone(&now) };
                if opened.closed_loopback_rule().is_some() {
                    let what = format!("{rule} opens nothing: it is a service of this machine");
                    let hint = format!("start a session with --allow-internal-host {rule}");
                    return Err(Refusal::new(what).with_hint(hint));
                }
            }
            Change::Forbid(_) => {
                let policy = self.policy.current();
                if !policy.allow.iter().any(|known| known.value == rule) {
                    let known: Vec<String> =
                        policy.allow.iter().map(|known| known.value.to_string()).collect();
                    let what = format!("no rule {rule}; the rules are: {}", known.join(", "));
                    return Err(Refusal::new(what));
                }
            }
        }
        let event = Event::PolicyChange { what, rule: rule.to_string() };
        self.audit.record(&event)?;
        self.policy.change(|policy| match change {
            Change::Allow(_) => policy.allow.push(given),
            Change::Forbid(_) => policy.allow.retain(|known| known.value != rule),
        });
        let rules = self.policy.current().allow.iter().map(ToString::to_string).collect();
        Ok(RulesNow { rules, by_proxy: self.by_proxy })
    }
}
