//! The mode `inject`: the identity's files enter, with its secrets, at the place where MoltNet has
//! them, and the paths in them are those of the sandbox.

use std::path::{Path, PathBuf};

use pinfold_boundary::{Entry, Place};
use pinfold_git::config::{Config, write};
use pinfold_policy::path::InsidePath;
use pinfold_rootfs::userland::HOME;
use pinfold_workspace::git::bytes;
use serde_json::Value;

use super::directory::Directory;
use super::{Identity, variables};
use crate::refusal;
use pinfold_host::Refusal;

const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o644;

/// Returns everything that enters.
pub(super) fn inject(directory: &Directory) -> Result<Identity, Refusal> {
    let mut inside = Injected {
        host: directory.path.clone(),
        inside: Path::new(HOME).join(".moltnet").join(&directory.name),
        names: Vec::new(),
        files: Vec::new(),
    };
    let mut plain = Vec::new();
    for (name, mode) in [
        ("ssh/id_ed25519", SECRET),
        ("ssh/id_ed25519.pub", PUBLIC),
        ("ssh/allowed_signers", PUBLIC),
    ] {
        if let Some(content) = directory.read(Path::new(name))? {
            plain.push((name.to_owned(), content, mode));
        }
    }
    for name in directory.names()?.into_iter().filter(|name| name.ends_with(".pem")) {
        if let Some(content) = directory.read(Path::new(&name))? {
            plain.push((name, content, SECRET));
        }
    }
    let config = directory.read(Path::new("gitconfig"))?;
    let generated = ["moltnet.json", "env", "gitconfig"].map(str::to_owned);
    inside.names = plain.iter().map(|(name, ..)| name.clone()).chain(generated).collect();

    let moltnet = inside
        .json(&directory.shown("moltnet.json"), &directory.secret(Path::new("moltnet.json"))?)?;
    let (file, env) = inside.variables(directory)?;
    inside.add("moltnet.json", moltnet, SECRET)?;
    inside.add("env", file, SECRET)?;
    if let Some(config) = config {
        let config = inside.git_config(&directory.shown("gitconfig"), &config)?;
        inside.add("gitconfig", config, PUBLIC)?;
    }
    for (name, content, mode) in plain {
        inside.add(&name, content.to_vec(), mode)?;
    }
    Ok(Identity { env, files: inside.files, ..Identity::default() })
}

struct Injected {
    /// The directory on the host.
    host: PathBuf,
    /// The directory inside.
    inside: PathBuf,
    /// The files that enter.
    names: Vec<String>,
    files: Vec<Entry>,
}

impl Injected {
    fn add(&mut self, name: &str, content: Vec<u8>, mode: u32) -> Result<(), Refusal> {
        let path = InsidePath::new(self.inside.join(name)).map_err(Refusal::new)?;
        self.files.push(Entry { path, place: Place::File { content, mode, keep: false } });
        Ok(())
    }

    /// Returns where a path of the host is inside: one in the directory at the same place in it,
    /// another, as it was written on another machine, by its last component. `None` for what does not
    /// enter.
    fn rewritten(&self, path: &str) -> Option<String> {
        let own = Path::new(path).strip_prefix(&self.host).ok();
        let last = Path::new(path).file_name().and_then(|name| name.to_str());
        let is_named =
            |name: &&String| Path::new(name).file_name().and_then(|n| n.to_str()) == last;
        let relative = match own {
            Some(own) => own.to_path_buf(),
            None => PathBuf::from(self.names.iter().find(is_named)?),
        };
        Some(self.inside.join(relative).to_string_lossy().into_owned())
    }

    /// Absolute paths in every text of it.
    fn json(&self, shown: &str, bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
        let bad = |why: String| refusal(format!("{shown}: {why}"), None);
        let mut value: Value = serde_json::from_slice(bytes).map_err(|error| {
            // The error's own text may quote the file.
            bad(format!("it is not JSON (line {})", error.line()))
        })?;
        if !value.is_object() {
            return Err(bad("expected a JSON object".to_owned()));
        }
        self.rewrite_json(&mut value);
        serde_json::to_vec_pretty(&value).map_err(|_| bad("it cannot be written again".to_owned()))
    }

    fn rewrite_json(&self, value: &mut Value) {
        match value {
            Value::String(text) if text.starts_with('/') => {
                if let Some(path) = self.rewritten(text) {
                    *text = path;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.rewrite_json(value)),
            Value::Object(members) => {
                members.values_mut().for_each(|value| self.rewrite_json(value));
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns the file again and the variables, both with the paths of the sandbox.
    fn variables(
        &self,
        directory: &Directory,
    ) -> Result<(Vec<u8>, Vec<pinfold_policy::env::EnvVar>), Refusal> {
        let content = directory.secret(Path::new("env"))?;
        let (mut file, mut env) = (String::new(), Vec::new());
        for (name, value) in variables::parse(&directory.shown("env"), &content)? {
            let is_path = name.as_str() == "GIT_CONFIG_GLOBAL"
                || name.as_str().ends_with("_PRIVATE_KEY_PATH");
            let own = is_path.then(|| self.rewritten(value)).flatten();
            let value = own.as_deref().unwrap_or(value);
            let quote = if value.contains('\'') { '"' } else { '\'' };
            file.push_str(&format!("{name}={quote}{value}{quote}\n"));
            env.extend(variables::variable(name, value));
        }
        Ok((file.into_bytes(), env))
    }

    /// `user.signingKey` and `gpg.ssh.allowedSignersFile` as paths of the sandbox, and the
    /// directory's own path in the commands of credential helpers.
    fn git_config(&self, shown: &str, file: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut config = Config::parse(file);
        if config.broken {
            let what = format!("{shown} cannot be read as git reads it");
            return Err(refusal(what, None));
        }
        let (host, inside) = (bytes(&self.host), bytes(&self.inside));
        for setting in &mut config.settings {
            let Some(value) = &mut setting.value else { continue };
            let is_path =
                matches!(setting.key.as_str(), "user.signingkey" | "gpg.ssh.allowedsignersfile");
            let path = std::str::from_utf8(value).ok().filter(|_| is_path);
            if let Some(path) = path.and_then(|path| self.rewritten(path)) {
                *value = path.into_bytes();
            } else if setting.key.starts_with("credential.") {
                *value = replaced(value, &host, &inside);
            }
        }
        Ok(write(&config.settings))
    }
}

/// Returns the bytes with each `from`, where a path ends or goes on below it, as `to`.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), bytes);
    while let Some((first, after)) = rest.split_first() {
        let below = rest
            .strip_prefix(from)
            .filter(|below| below.first().is_none_or(|byte| b"/ '\"\t;".contains(byte)));
        if let Some(below) = below {
            out.extend_from_slice(to);
            rest = below;
        } else {
            out.push(*first);
            rest = after;
        }
    }
    out
}
