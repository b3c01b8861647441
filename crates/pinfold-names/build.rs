//! Turns `data/protect.toml` into static tables: parsed at every start it would cost a quarter of
//! a millisecond, a tenth of what a whole start may take.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

const DATA: &str = "data/protect.toml";

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    secret: Vec<Entry>,
    executed: Vec<Entry>,
    builds: Vec<Built>,
    moved: Vec<Moved>,
}

/// What a variable has elsewhere than in the home.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Moved {
    variable: String,
    #[serde(default)]
    list: bool,
    #[serde(default)]
    below: String,
    name: String,
}

/// What is listed when it changes.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Built {
    names: Vec<String>,
    reason: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    names: Vec<String>,
    #[serde(default)]
    except: Vec<String>,
    #[serde(default)]
    r#where: Where,
    also_missing: Option<Kind>,
    only: Option<Only>,
    #[serde(default)]
    unless_certificates: bool,
    #[serde(default)]
    refuse: bool,
    reason: String,
    opt_in: String,
}

#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Where {
    #[default]
    Anywhere,
    Home,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Only {
    Files,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Directory,
    File,
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={DATA}");
    let data: Data = toml::from_str(&fs::read_to_string(DATA)?)?;
    let secret = data.secret.iter().map(|entry| ("Hide", entry));
    let executed = data.executed.iter().map(|entry| ("ReadOnly", entry));
    let entries: Vec<_> = secret.chain(executed).collect();
    let output = env::var_os("OUT_DIR").ok_or("cargo gives OUT_DIR to build scripts")?;
    let code = tables(&entries)? + &built(&data.builds)? + &moved(&data.moved)?;
    fs::write(Path::new(&output).join("protect.rs"), code)?;
    Ok(())
}

fn tables(entries: &[(&str, &Entry)]) -> Result<String, Box<dyn Error>> {
    let mut code = String::from("pub(super) static RULES: &[Rule] = &[\n");
    let mut literal: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut wild = Vec::new();
    for (position, (effect, entry)) in entries.iter().enumerate() {
        writeln!(code, "{}", rule(effect, entry))?;
        for (number, name) in entry.names.iter().enumerate() {
            match name.rsplit('/').next() {
                Some(last) if !last.contains(['*', '?']) => {
                    let rules = literal.entry(last).or_default();
                    if !rules.contains(&position) {
                        rules.push(position);
                    }
                }
                last => {
                    let (start, end) = ends(last.unwrap_or_default());
                    wild.push((position, number, start, end));
                }
            }
        }
    }
    writeln!(code, "];\npub(super) static LITERAL: &[(&str, &[usize])] = &[")?;
    for (name, rules) in literal {
        writeln!(code, "    ({name:?}, &{rules:?}),")?;
    }
    writeln!(code, "];\npub(super) static WILD: &[(usize, usize, &str, &str)] = &{wild:?};")?;
    Ok(code)
}

/// The names that are listed, each with its reason.
fn built(entries: &[Built]) -> Result<String, Box<dyn Error>> {
    let mut code = String::from("pub(super) static BUILT: &[(&[Glob], &str)] = &[\n");
    for Built { names, reason } in entries {
        writeln!(code, "    (&[{}], {reason:?}),", globs(names))?;
    }
    let last = |name: &String| name.rsplit('/').next().unwrap_or_default().to_owned();
    let names: BTreeSet<String> = entries.iter().flat_map(|entry| &entry.names).map(last).collect();
    let names: Vec<String> = names.into_iter().collect();
    writeln!(code, "];\npub(super) static BUILT_NAMES: &[&str] = &{names:?};")?;
    Ok(code)
}

fn moved(entries: &[Moved]) -> Result<String, Box<dyn Error>> {
    let mut code = String::from("pub(super) static MOVED: &[Moved] = &[\n");
    for Moved { variable, list, below, name } in entries {
        writeln!(
            code,
            "    Moved {{ variable: {variable:?}, is_list: {list}, below: {below:?}, name: {name:?} }},"
        )?;
    }
    code.push_str("];\n");
    Ok(code)
}

/// What a component with wildcards begins and ends with.
fn ends(component: &str) -> (&str, &str) {
    let wild = ['*', '?'];
    let start = component.find(wild).unwrap_or(component.len());
    let end = component.rfind(wild).map_or(0, |at| at + 1);
    (&component[..start], &component[end..])
}

fn rule(effect: &str, entry: &Entry) -> String {
    let missing = match &entry.also_missing {
        None => "None",
        Some(Kind::Directory) => "Some(Placeholder::Directory)",
        Some(Kind::File) => "Some(Placeholder::File)",
    };
    format!(
        "    Rule {{ effect: Effect::{effect}, names: &[{}], except: &[{}], only_home: {}, \
         only_files: {}, unless_certificates: {}, refuse: {}, missing: {missing}, reason: {:?}, opt_in: {:?} }},",
        globs(&entry.names),
        globs(&entry.except),
        matches!(entry.r#where, Where::Home),
        matches!(entry.only, Some(Only::Files)),
        entry.unless_certificates,
        entry.refuse,
        entry.reason,
        entry.opt_in
    )
}

fn globs(patterns: &[String]) -> String {
    let glob = |pattern: &String| format!("Glob::built_in({pattern:?})");
    patterns.iter().map(glob).collect::<Vec<_>>().join(", ")
}
