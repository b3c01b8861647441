//! Docker and Podman by their command lines, which agree on what is needed here.

mod stored;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pinfold_host::launcher::{HostProgram, Launcher};
use pinfold_image::{BASE_ARGUMENT, Reference, USER_ARGUMENT};
use pinfold_policy::path::Escaped;
use pinfold_policy::project::ImageEngine;
use serde::Deserialize;

pub use self::stored::Stored;
use super::Event;
use super::error::ImageError;

/// Variables by which a user says where their engine is, how it is set up and by which way it reaches
/// registries. Nothing else of the environment does an engine need.
const KEPT: [&str; 22] = [
    "BUILDAH_FORMAT",
    "BUILDAH_ISOLATION",
    "CONTAINERS_CONF",
    "CONTAINERS_REGISTRIES_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINER_HOST",
    "DOCKER_API_VERSION",
    "DOCKER_BUILDKIT",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "REGISTRY_AUTH_FILE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "STORAGE_DRIVER",
    "TMPDIR",
    "XDG_DATA_HOME",
];
/// How much of what an engine says is remembered for an error, in bytes.
const REMEMBERED: usize = 8 << 10;

/// An engine of this machine.
#[derive(Debug)]
pub struct Engine {
    name: ImageEngine,
    program: HostProgram,
}

/// An image that an engine has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inspected {
    /// What identifies it: what a registry calls it by its content, else the engine's own id.
    pub(super) digest: String,
    /// Whether a registry could have a newer one.
    pub(super) is_from_registry: bool,
    /// When it was made.
    pub(super) created: Option<SystemTime>,
    /// The user that it runs as.
    pub(super) user: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
}

/// What is to be built.
#[derive(Debug)]
pub(super) struct Recipe<'a> {
    pub(super) context: &'a Path,
    pub(super) dockerfile: &'static str,
    pub(super) tag: String,
    pub(super) label: (&'static str, String),
    pub(super) base: Option<&'a Reference>,
    pub(super) user: Option<&'a str>,
    pub(super) network: Option<&'a str>,
    pub(super) without_cache: bool,
}

/// An image of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// `name:tag`.
    pub tag: String,
    /// The engine's id.
    pub id: String,
    /// Its size, as the engine says it.
    pub size: String,
    /// When it was made, as the engine says it.
    pub created: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Image {
    id: String,
    #[serde(default)]
    repo_digests: Option<Vec<String>>,
    #[serde(default)]
    created: Option<String>,
    #[serde(default)]
    config: Option<Config>,
    #[serde(default, rename = "RootFS")]
    root: Option<Root>,
    #[serde(default)]
    size: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Root {
    #[serde(default)]
    layers: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Engine {
    /// Returns the engine of this name. Its program is not taken from directories in which a sandbox may
    /// have written.
    ///
    /// # Errors
    /// Returns an error if it is not installed, or only there.
    pub fn find(
        launcher: &Launcher,
        name: ImageEngine,
        not_in: &[PathBuf],
    ) -> Result<Self, ImageError> {
        let found = launcher.find(name.as_str(), not_in);
        let program = found.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => ImageError::LeftOut { engine: name, error },
            _ => ImageError::NoEngine(Some(name)),
        })?;
        Ok(Self { name, program })
    }

    /// Returns the first engine that is installed, Docker before Podman. One that does not work for this
    /// user is skipped if another is installed, which is reported: their images are at different
    /// places. One whose place the user has named is not skipped.
    ///
    /// # Errors
    /// Returns an error if none is installed.
    pub fn choose(
        launcher: &Launcher,
        not_in: &[PathBuf],
        report: &dyn Fn(&Event<'_>),
    ) -> Result<Self, ImageError> {
        let mut missing = ImageError::NoEngine(None);
        let mut there = Vec::new();
        for name in ImageEngine::ALL {
            match Self::find(launcher, name, not_in) {
                Ok(engine) => there.push(engine),
                Err(left_out @ ImageError::LeftOut { .. }) => missing = left_out,
                Err(_) => {}
            }
        }
        let mut there = there.into_iter();
        let first = there.next().ok_or(missing)?;
        let Some(second) = there.next().filter(|_| !first.is_at_a_named_place()) else {
            return Ok(first);
        };
        match first.command("say its version", &["version"]) {
            Err(why @ (ImageError::NotRunning { .. } | ImageError::NoAccess { .. })) => {
                report(&Event::Instead(second.name, &why));
                Ok(second)
            }
            _ => Ok(first),
        }
    }

    fn is_at_a_named_place(&self) -> bool {
        let names: &[&str] = match self.name {
            ImageEngine::Docker => &["DOCKER_HOST", "DOCKER_CONTEXT"],
            ImageEngine::Podman => &["CONTAINER_HOST"],
        };
        names.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> ImageEngine {
        self.name
    }

    /// Returns where it is, as far as its user says: what it has there it may not have elsewhere.
    pub fn place(&self) -> String {
        const SAID: [&str; 6] = [
            "CONTAINERS_STORAGE_CONF",
            "CONTAINER_HOST",
            "DOCKER_CONTEXT",
            "DOCKER_HOST",
            "STORAGE_DRIVER",
            "XDG_DATA_HOME",
        ];
        let said = SAID.map(|name| std::env::var_os(name).unwrap_or_default());
        said.iter()
            .fold(self.name.to_string(), |all, value| format!("{all} {}", Escaped(value.as_ref())))
    }

    fn argv<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Vec<OsString> {
        let program = self.program.path().as_os_str().to_owned();
        [program].into_iter().chain(words.into_iter().map(Into::into)).collect()
    }

    /// Asks something that is answered at once.
    fn ask(&self, doing: &str, words: &[&str]) -> Result<Answer, ImageError> {
        let output = self
            .program
            .launcher()
            .run_keeping(self.argv(words.iter().copied()), &KEPT)
            .map_err(|error| self.not_started(doing, &error))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Answer { text, said, is_good: output.code == Some(0) })
    }

    /// Has something done that takes long.
    fn have(
        &self,
        doing: &str,
        argv: Vec<OsString>,
        report: &dyn Fn(&[u8]),
    ) -> Result<Result<(), String>, ImageError> {
        let mut last = Vec::new();
        let mut take = |bytes: &[u8]| {
            report(bytes);
            last.extend_from_slice(bytes);
            let more = last.len().saturating_sub(REMEMBERED);
            last.drain(..more);
        };
        let ended = self
            .program
            .launcher()
            .run_watched(argv, &KEPT, &mut take)
            .map_err(|error| self.not_started(doing, &error))?;
        if let Some(signal) = ended.interrupted {
            return Err(ImageError::Interrupted(signal));
        }
        match ended.code {
            Some(0) => Ok(Ok(())),
            _ => Ok(Err(String::from_utf8_lossy(&last).into_owned())),
        }
    }

    /// Has something done that is done at once; what it answers.
    ///
    /// # Errors
    /// Returns an error for an engine that cannot be asked, or that does not do it.
    pub fn command(&self, doing: &str, words: &[&str]) -> Result<String, ImageError> {
        let answer = self.ask(doing, words)?;
        if answer.is_good { Ok(answer.text) } else { Err(self.failed(doing, &answer.said)) }
    }

    /// Returns an image, if the engine has it.
    ///
    /// # Errors
    /// Returns an error for an engine that cannot be asked.
    pub(super) fn inspect(&self, reference: &str) -> Result<Option<Inspected>, ImageError> {
        Ok(self.look_at(reference)?.map(Inspected::from))
    }

    fn look_at(&self, reference: &str) -> Result<Option<Image>, ImageError> {
        let doing = format!("look at the image {reference}");
        let answer = self.ask(&doing, &["image", "inspect", reference])?;
        if !answer.is_good {
            let said = answer.said.to_lowercase();
            let is_missing = ["no such image", "image not known", "no such object"];
            return if is_missing.iter().any(|text| said.contains(text)) {
                Ok(None)
            } else {
                Err(self.failed(&doing, &answer.said))
            };
        }
        let images: Vec<Image> = serde_json::from_str(&answer.text).map_err(|error| {
            self.failed(&doing, &format!("its answer is not understood: {error}"))
        })?;
        Ok(images.into_iter().next())
    }

    /// Gets an image from its registry.
    ///
    /// # Errors
    /// Returns why it is not available.
    pub(super) fn pull(
        &self,
        reference: &Reference,
        report: &dyn Fn(&[u8]),
    ) -> Result<(), ImageError> {
        let doing = format!("get the image {reference}");
        let name = match self.name {
            ImageEngine::Docker => reference.to_string(),
            // Podman knows no registry of names without one, unless its administrator has set some.
            ImageEngine::Podman => reference.with_registry(),
        };
        let pulled = self.have(&doing, self.argv(["pull", name.as_str()]), report)?;
        pulled.map_err(|said| match self.failed(&doing, &said) {
            ImageError::Failed { said, .. } => {
                ImageError::Missing { reference: reference.clone(), said }
            }
            known => known,
        })
    }

    /// Builds an image.
    ///
    /// # Errors
    /// Returns why it cannot be built.
    pub(super) fn build(
        &self,
        recipe: &Recipe<'_>,
        report: &dyn Fn(&[u8]),
    ) -> Result<(), ImageError> {
        let Recipe { context, dockerfile, tag, label, base, user, network, without_cache } = recipe;
        let (name, value) = label;
        let mut words = vec!["build".to_owned(), format!("--tag={tag}")];
        words.push(format!("--label={name}={value}"));
        words.extend(base.map(|base| format!("--build-arg={BASE_ARGUMENT}={base}")));
        words.extend(user.map(|user| format!("--build-arg={USER_ARGUMENT}={user}")));
        words.extend(network.map(|network| format!("--network={network}")));
        words.extend(without_cache.then(|| "--no-cache".to_owned()));
        if self.name == ImageEngine::Podman {
            // What is built on has been looked for already.
            words.push("--pull=never".to_owned());
        }
        let mut argv = self.argv(words.iter().map(String::as_str));
        let mut file = OsString::from("--file=");
        file.push(context.join(dockerfile));
        argv.extend([file, context.as_os_str().to_owned()]);
        let doing = format!("build {tag}");
        self.have(&doing, argv, report)?.map_err(|said| self.failed(&doing, &said))
    }

    /// Returns the images whose name begins so.
    ///
    /// # Errors
    /// Returns an error for an engine that cannot be asked.
    pub fn list(&self, prefix: &str) -> Result<Vec<Listed>, ImageError> {
        const FORMAT: &str = "{{.Repository}}:{{.Tag}}\t{{.ID}}\t{{.Size}}\t{{.CreatedAt}}";
        let doing = "list its images";
        let answer = self.ask(doing, &["image", "ls", "--format", FORMAT])?;
        if !answer.is_good {
            return Err(self.failed(doing, &answer.said));
        }
        let listed = answer.text.lines().filter_map(|line| {
            let mut fields = line.split('\t').map(str::to_owned);
            // Podman says where it thinks that an image is from.
            let tag = fields.next()?;
            let tag = tag.strip_prefix("localhost/").unwrap_or(&tag).to_owned();
            let [id, size, created] = [fields.next()?, fields.next()?, fields.next()?];
            Some(Listed { tag, id, size, created })
        });
        Ok(listed.filter(|listed| listed.tag.starts_with(prefix)).collect())
    }

    fn not_started(&self, doing: &str, error: &io::Error) -> ImageError {
        let said = match error.kind() {
            io::ErrorKind::TimedOut => "it does not answer".to_owned(),
            _ => error.to_string(),
        };
        ImageError::Failed { engine: self.name, doing: doing.to_owned(), said }
    }

    /// Returns what an engine's own words mean.
    fn failed(&self, doing: &str, said: &str) -> ImageError {
        const NOT_RUNNING: [&str; 4] = [
            "cannot connect to the docker daemon",
            "is the docker daemon running",
            "error during connect",
            "unable to connect to podman",
        ];
        const NO_ACCESS: [&str; 3] =
            ["permission denied while trying to connect", "newuidmap", "no subuid ranges"];
        let (engine, lower) = (self.name, said.to_lowercase());
        let says = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
        // Docker adds where more is said about its options.
        let is_about_options =
            |line: &str| line.ends_with("--help'.") || line.ends_with("more information");
        let mut lines =
            said.lines().map(str::trim).filter(|line| !line.is_empty() && !is_about_options(line));
        let last = lines.next_back().unwrap_or("it says nothing").chars();
        let said: String = last.filter(|c| !c.is_control()).take(400).collect();
        // A user who may not connect gets that as well.
        if says(&NO_ACCESS) {
            ImageError::NoAccess { engine, said }
        } else if says(&NOT_RUNNING) {
            ImageError::NotRunning { engine, said }
        } else if says(&["no space left on device", "disk quota exceeded"]) {
            ImageError::DiskFull { engine }
        } else {
            ImageError::Failed { engine, doing: doing.to_owned(), said }
        }
    }
}

/// What an engine answered.
struct Answer {
    text: String,
    said: String,
    is_good: bool,
}

impl From<Image> for Inspected {
    fn from(image: Image) -> Self {
        let digests = image.repo_digests.unwrap_or_default();
        let config = image.config.unwrap_or_default();
        let created = image.created.as_deref().map(humantime::parse_rfc3339);
        Self {
            // Podman's own images have such digests, too.
            is_from_registry: digests.iter().any(|digest| !digest.starts_with("localhost/")),
            digest: digests.into_iter().next().unwrap_or(image.id),
            created: created.and_then(Result::ok),
            user: config.user.filter(|user| !user.is_empty()),
            labels: config.labels.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
