//! The keys of what may be reached, and of secrets and SSH.

use super::shapes::{ID_PATTERN, TEXTS};
use crate::document::{Key, Shape};
use crate::env::NAME_PATTERN;
use crate::network::Spots;

/// `network`, alike in the user's and the repository's file.
pub(crate) const NETWORK: &[Key] = &[
    Key::new(
        "allow",
        TEXTS,
        "Hosts that may be reached: NAME[:PORT][/PROTOCOL], *.NAME for those below.",
    ),
    Key::new("allowedHosts", TEXTS, "The same, by MoltNet's name."),
    Key::new("allowedInternalHosts", TEXTS, "Hosts that may lead to private addresses."),
    Key::new(
        "requests",
        Shape::List(&Shape::Table(REQUESTS)),
        "Hosts of which only some requests are allowed; their TLS is ended by pinfold.",
    ),
    Key::new("intercept", TEXTS, "Further hosts whose TLS is ended by pinfold."),
];

/// `[ask]`.
pub(crate) const ASK: &[Key] = &[
    Key::new(
        "connections",
        Shape::Flag,
        "Whether connections that no rule names wait; true if absent.",
    ),
    Key::new("timeout", Shape::Text, "How long such a connection waits; 2m by default."),
    Key::new("command", TEXTS, "A program that gets each question, and its arguments."),
    Key::new("webhook", Shape::Text, "The URL that each question is posted to."),
    Key::new("webhook_secret", Shape::Pattern(ID_PATTERN), "The secret that signs it."),
    Key::new("port", Shape::Count, "The loopback port of answer links; any if absent."),
    Key::new("base_url", Shape::Text, "How answer links begin, if a tunnel leads there."),
];

/// An entry of `network.requests`.
pub(crate) const REQUESTS: &[Key] = &[
    Key::new("host", Shape::Text, "NAME[:PORT]."),
    Key::new("methods", TEXTS, "Methods, such as GET; all if absent."),
    Key::new("paths", TEXTS, "Paths, or all below one with /**; all if absent."),
];

/// An entry of `secrets`.
pub(crate) const SECRET: &[Key] = &[
    Key::new("id", Shape::Pattern(ID_PATTERN), "Its name in `pinfold secret`."),
    Key::new("env", Shape::Pattern(NAME_PATTERN), "The variable that holds the placeholder."),
    Key::new("hosts", TEXTS, "The hosts it is sent to."),
    Key::new("ports", Shape::List(&Shape::Count), "Their ports; 443 if absent."),
    Key::new(
        "where",
        Shape::List(&Shape::Choice(Spots::WORDS)),
        "Where in a request; header and basic if absent.",
    ),
    Key::new("required", Shape::Flag, "Whether a run without the secret is refused."),
];

/// `[ssh]`.
pub(crate) const SSH: &[Key] = &[
    Key::new("key", Shape::Text, "The key file; its public half has the same name with .pub."),
    Key::new("agent", Shape::Flag, "Whether the key is in your own ssh-agent."),
    Key::new("public_key", Shape::Text, "The public half of the key in your ssh-agent."),
    Key::new("hosts", Shape::List(&Shape::Table(SSH_HOST)), "Hosts that may be logged in to."),
];

/// An entry of `ssh.hosts`.
pub(crate) const SSH_HOST: &[Key] = &[
    Key::new("host", Shape::Text, "The host's name, which may be reached on that port."),
    Key::new("port", Shape::Count, "Its port; 22 if absent."),
    Key::new("user", Shape::Text, "The user to log in as; git if absent."),
    Key::new("known", TEXTS, "Its keys; those that your own ssh knows if absent."),
    Key::new(
        "hostbound",
        Shape::Flag,
        "Whether only logins count whose signature names the host key; false for servers that \
         know no such logins.",
    ),
];
