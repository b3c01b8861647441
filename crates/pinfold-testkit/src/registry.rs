//! Debian's `docker-registry` on loopback.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use ring::digest::{SHA256, digest};
use tempfile::TempDir;

use crate::{User, installed, skip};

/// Media type of a layer compressed with gzip.
pub const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// Media type of a layer compressed with Zstandard.
pub const ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A registry of container images, which is ended when the value is dropped.
pub struct Registry {
    child: Child,
    /// Where it listens: `127.0.0.1:PORT`.
    pub address: String,
    dir: TempDir,
}

impl Registry {
    /// Starts a registry. Returns `None` and prints why if the program is not installed.
    pub fn start(test: &str) -> Option<Self> {
        if !installed("docker-registry") {
            skip(test, "it takes docker-registry");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config.yml");
        let storage = dir.path().join("storage");
        let text = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:0\n",
            storage.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut command = User::current().command("docker-registry");
        command.arg("serve").arg(&config).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let line = lines.find(|line| line.contains("listening on ")).unwrap();
        let (_, rest) = line.split_once("listening on ").unwrap();
        let end = rest.find(|c: char| c != '.' && c != ':' && !c.is_ascii_digit());
        let address = rest[..end.unwrap_or(rest.len())].to_owned();
        // Drain the log, so that a full pipe does not block the registry.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { child, address, dir })
    }

    /// Pushes an image and returns the digest of its manifest. Each layer is a media type and its bytes.
    pub fn push(&self, name: &str, tag: &str, layers: &[(&str, &[u8])]) -> String {
        let config = self.blob(name, b"{}");
        let mut list = String::new();
        for (kind, bytes) in layers {
            let comma = if list.is_empty() { "" } else { ", " };
            let (digest, size) = (self.blob(name, bytes), bytes.len());
            write!(
                list,
                r#"{comma}{{"mediaType": "{kind}", "digest": "{digest}", "size": {size}}}"#
            )
            .unwrap();
        }
        let manifest = format!(
            r#"{{"schemaVersion": 2, "mediaType": "{MANIFEST}",
                "config": {{"mediaType": "application/vnd.oci.image.config.v1+json",
                           "digest": "{config}", "size": 2}},
                "layers": [{list}]}}"#
        );
        self.manifest(name, tag, MANIFEST, &manifest)
    }

    /// Pushes an index with a manifest for each processor, and returns the digest of the index.
    pub fn push_index(&self, name: &str, tag: &str, manifests: &[(&str, &str)]) -> String {
        let one = |(processor, digest): &(&str, &str)| {
            let size = std::fs::metadata(self.stored(digest)).unwrap().len();
            format!(
                r#"{{"mediaType": "{MANIFEST}", "digest": "{digest}", "size": {size},
                    "platform": {{"os": "linux", "architecture": "{processor}"}}}}"#
            )
        };
        let list: Vec<String> = manifests.iter().map(one).collect();
        let index = format!(
            r#"{{"schemaVersion": 2, "mediaType": "{INDEX}", "manifests": [{}]}}"#,
            list.join(", ")
        );
        self.manifest(name, tag, INDEX, &index)
    }

    /// Returns the file in which the registry stores a blob.
    pub fn stored(&self, digest: &str) -> PathBuf {
        let digits = digest.strip_prefix("sha256:").unwrap();
        let blobs = self.dir.path().join("storage/docker/registry/v2/blobs/sha256");
        blobs.join(&digits[..2]).join(digits).join("data")
    }

    fn manifest(&self, name: &str, tag: &str, kind: &str, text: &str) -> String {
        let path = format!("/v2/{name}/manifests/{tag}");
        let (status, _) = self.request("PUT", &path, kind, text.as_bytes());
        assert_eq!(status, 201, "{text}");
        digest_of(text.as_bytes())
    }

    fn blob(&self, name: &str, bytes: &[u8]) -> String {
        let path = format!("/v2/{name}/blobs/uploads/");
        let (status, location) = self.request("POST", &path, "text/plain", b"");
        assert_eq!(status, 202);
        let location = location.unwrap();
        let (_, path) = location.split_once(&self.address).unwrap_or(("", &location));
        let digest = digest_of(bytes);
        let path = format!("{path}&digest={digest}");
        let (status, _) = self.request("PUT", &path, "application/octet-stream", bytes);
        assert_eq!(status, 201);
        digest
    }

    fn request(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, Option<String>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
        (status, location.map(str::to_owned))
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Returns the SHA-256 digest of bytes as images name it: `sha256:` and 64 digits.
#[must_use]
pub fn digest_of(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    digest.as_ref().iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}
