//! Authorities in the caller's own settings of cargo, curl, wget and yarn.
//!
//! They do not count in a sandbox. On the host these programs trust them, so no sandbox may change what they name. A line that
//! is read here and that the program reads otherwise protects a file too many.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pinfold_git::user_config::expanded;
use pinfold_host::directories::Places;
use pinfold_protect::trusted::Trusted;

use super::settings::text;

/// How a program's settings name authorities.
struct Program {
    /// Settings that name a file,
    files: &'static [&'static str],
    /// and a directory. Without dashes and underscores, in lower case.
    directories: &'static [&'static str],
}

/// curl(1): `cacert = "FILE"`, `cacert FILE` or `--cacert=FILE`.
const CURL: Program =
    Program { files: &["cacert", "proxycacert"], directories: &["capath", "proxycapath"] };
/// "Wgetrc Commands" in wget's manual: `ca_certificate = FILE`.
const WGET: Program = Program { files: &["cacertificate"], directories: &["cadirectory"] };
/// "`.yarnrc.yml` files" in Yarn's documentation, also for one network: `httpsCaFilePath: "FILE"`.
const YARN: Program = Program { files: &["httpscafilepath", "cafilepath"], directories: &[] };
/// "Configuration" in the Cargo Book: `[http]`, `cainfo = "FILE"`.
const CARGO: [&str; 2] = ["cainfo", "proxy-cainfo"];

/// Returns what these settings name, and the files of settings that are there or that a variable names.
pub(super) fn find(
    places: &Places,
    variable: impl Fn(&str) -> Option<OsString>,
) -> impl Iterator<Item = Trusted> {
    let home = places.home.as_path();
    let named = |name| variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let config = places.config.parent().unwrap_or(home);
    let curl =
        named("CURL_HOME").into_iter().flat_map(|it| [it.join(".curlrc"), it.join("curlrc")]);
    let curl = curl.chain([home.join(".curlrc"), config.join("curlrc")]);
    let wget = named("WGETRC").unwrap_or_else(|| home.join(".wgetrc"));
    let yarn = home.join(named("YARN_RC_FILENAME").unwrap_or_else(|| ".yarnrc.yml".into()));
    let cargo = named("CARGO_HOME").unwrap_or_else(|| home.join(".cargo"));
    let mut found: Vec<Trusted> = Vec::new();
    let of_lines = curl.map(|file| (file, CURL)).chain([(wget, WGET), (yarn, YARN)]);
    for (file, program) in of_lines.filter(|(file, _)| file.exists()) {
        found.extend(program.names(&text(&file), home));
        found.extend(Trusted::file(&file));
    }
    let of_cargo = [cargo.join("config.toml"), cargo.join("config")].into_iter();
    for file in of_cargo.filter(|file| file.exists()) {
        // A path is relative to where the directory of settings lies.
        let base = cargo.parent().unwrap_or(home);
        let files = of_toml(&text(&file)).into_iter();
        found.extend(files.filter_map(|path| Trusted::file(&base.join(path))));
        found.extend(Trusted::file(&file));
    }
    found.into_iter()
}

impl Program {
    fn names(&self, text: &str, home: &Path) -> Vec<Trusted> {
        let settings = text.lines().filter_map(|line| {
            let line = line.trim().trim_start_matches('-');
            let at = line.find(|it: char| it.is_whitespace() || "=:".contains(it))?;
            let (key, value) = line.split_at(at);
            let key = key.replace(['-', '_', '"', '\''], "").to_ascii_lowercase();
            let is_between = |it: char| it.is_whitespace() || "=:".contains(it);
            Some((key, unquoted(value.trim_start_matches(is_between))))
        });
        let mut found = Vec::new();
        for (key, value) in settings.filter(|(_, value)| !value.is_empty()) {
            let path = expanded(Path::new(&value), home);
            if self.files.contains(&key.as_str()) {
                found.extend(Trusted::file(&path));
            } else if self.directories.contains(&key.as_str()) {
                found.extend(Trusted::directories(path.into()));
            }
        }
        found
    }
}

/// Returns a value without quotes, and without what follows them.
fn unquoted(value: &str) -> String {
    let quote = value.chars().next().filter(|it| "\"'".contains(*it));
    match quote.and_then(|quote| value.get(1..)?.split_once(quote)) {
        Some((value, _)) => value.replace("\\\\", "\\"),
        None => value.trim_end().to_owned(),
    }
}

fn of_toml(text: &str) -> Vec<String> {
    let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
    let http = table.get("http").and_then(toml::Value::as_table);
    let value = |name: &&str| http?.get(*name)?.as_str().map(str::to_owned);
    CARGO.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_write_a_setting_names_its_file() {
        let names = |program: Program, text: &str| program.names(text, Path::new("/home/me"));
        let file = |path: &str| Trusted::file(Path::new(path)).unwrap();
        for line in ["cacert = \"/a b\"", "--cacert \"/a b\" # x", "cacert=/a b", "cacert: '/a b'"]
        {
            assert_eq!(names(CURL, line), [file("/a b")], "{line}");
        }
        assert_eq!(names(CURL, "-cacert ~/ca\nproxy-cacert=/p"), [file("/home/me/ca"), file("/p")]);
        let directory: Vec<Trusted> = Trusted::directories("/d".into()).collect();
        assert_eq!(names(CURL, "capath /d"), directory);
        assert_eq!(names(WGET, "CA-Certificate = /a\nca_directory=/d").len(), 2);
        let yarn = "networkSettings:\n  \"*.corp\":\n    httpsCaFilePath: \"/a\"\ncaFilePath: /b\n";
        assert_eq!(names(YARN, yarn), [file("/a"), file("/b")]);
        assert!(names(CURL, "# cacert /a\ncacert\ncacertx /b\nurl = \"cacert=/c\"").is_empty());
        assert_eq!(of_toml("http.cainfo = \"a\"\n[http.x]\ncainfo = \"b\""), ["a"]);
        assert!(of_toml("[http]\ncainfo = 1").is_empty() && of_toml("[").is_empty());
    }
}
