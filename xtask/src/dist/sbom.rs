//! The crates that an executable is made of, as CycloneDX 1.5 lists them (cyclonedx.org/docs/1.5/json).

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use serde_json::{Value, json};

use crate::cargo;

/// Returns the list of all crates that are linked into a package's executable for a target, by what cargo says of the
/// lock file.
///
/// # Errors
/// Returns an error if cargo fails, or says something unexpected.
pub(super) fn of(package: &str, target: &str) -> Result<String, Box<dyn Error>> {
    let mut metadata = cargo::command("cargo");
    metadata.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target]);
    metadata.args(["--features", "guard"]);
    let metadata: Value = serde_json::from_str(&cargo::output(&mut metadata)?)?;
    let list = list(&metadata, package).ok_or("cargo metadata has another form than expected")?;
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

fn list(metadata: &Value, package: &str) -> Option<Value> {
    let packages: BTreeMap<&str, &Value> = metadata["packages"]
        .as_array()?
        .iter()
        .map(|package| Some((package["id"].as_str()?, package)))
        .collect::<Option<_>>()?;
    let uses: BTreeMap<&str, Vec<&str>> = metadata["resolve"]["nodes"]
        .as_array()?
        .iter()
        .map(|node| Some((node["id"].as_str()?, normal(node)?)))
        .collect::<Option<_>>()?;
    let (root, top) = packages.iter().find(|(_, found)| found["name"] == package)?;
    let (mut linked, mut next) = (BTreeSet::new(), vec![*root]);
    while let Some(id) = next.pop() {
        if linked.insert(id) {
            next.extend(uses.get(id)?);
        }
    }
    let others = linked.iter().filter(|id| *id != root);
    let components: Vec<Value> =
        others.clone().map(|id| component(packages.get(id)?)).collect::<Option<_>>()?;
    let dependencies: Vec<Value> = linked
        .iter()
        .map(|id| {
            let on: Vec<String> = uses
                .get(id)?
                .iter()
                .map(|on| Some(url(packages.get(on)?)))
                .collect::<Option<_>>()?;
            Some(json!({ "ref": url(packages.get(id)?), "dependsOn": on }))
        })
        .collect::<Option<_>>()?;
    let mut whole = component(top)?;
    whole["type"] = "application".into();
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": whole },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Returns what a package uses when it runs: neither for its tests nor for its build.
fn normal(node: &Value) -> Option<Vec<&str>> {
    let used = node["deps"].as_array()?.iter().filter(|used| {
        let kinds = used["dep_kinds"].as_array().into_iter().flatten();
        kinds.into_iter().any(|kind| kind["kind"].is_null())
    });
    used.map(|used| used["pkg"].as_str()).collect()
}

fn component(package: &Value) -> Option<Value> {
    let mut component = json!({
        "type": "library",
        "bom-ref": url(package),
        "name": package["name"].as_str()?,
        "version": package["version"].as_str()?,
    });
    // Those of the workspace are in no registry.
    if !package["source"].is_null() {
        component["purl"] = url(package).into();
    }
    if let Some(license) = package["license"].as_str() {
        // An older form of "or" (cargo's manual, "The license and license-file fields").
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    Some(component)
}

/// Returns a package's address (purl-spec, type `cargo`).
fn url(package: &Value) -> String {
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}
