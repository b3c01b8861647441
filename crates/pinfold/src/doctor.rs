//! `pinfold doctor`: does it work here, and what to do if not.

use std::process::ExitCode;

use pinfold_boundary::Probe;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_session::prepare;
use serde_json::json;

use crate::cli::Output;
use crate::exit::Failure;
use crate::policy;
use crate::print::{self, say};

pub(crate) fn doctor(output: Output, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let not_in = prepare::workspace_here(&Places::find().map_err(Failure::places)?);
    let plugin = policy::own()?.plugin.map(|plugin| plugin.value);
    let boundaries =
        pinfold_session::boundaries(plugin, &not_in, launcher).map_err(Failure::new)?;
    let probes = boundaries.iter().map(|boundary| (boundary.name(), boundary.probe()));
    let probes: Vec<(&str, Probe)> = probes.collect();
    if output.json {
        let rows: Vec<_> = probes.iter().map(|(name, probe)| describe(name, probe)).collect();
        print::json_line(&json!({ "boundaries": rows }))?;
    } else {
        probes.iter().for_each(|(name, probe)| show(name, probe));
    }
    // The embedded one is what runs where nobody says anything.
    let works = probes.first().is_some_and(|(_, probe)| probe.usable());
    Ok(ExitCode::from(u8::from(!works)))
}

fn describe(name: &str, probe: &Probe) -> serde_json::Value {
    let findings = probe.findings.iter().map(
        |finding| json!({ "what": finding.what, "cure": finding.cure, "fatal": finding.fatal }),
    );
    json!({
        "name": name,
        "usable": probe.usable(),
        "capabilities": {
            "memory": probe.capabilities.memory,
            "cpus": probe.capabilities.cpus,
            "pids": probe.capabilities.pids,
            "landlock": probe.capabilities.landlock,
            "hands-over": probe.hands_over,
        },
        "findings": findings.collect::<Vec<_>>(),
    })
}

fn show(name: &str, probe: &Probe) {
    let verdict = if probe.usable() { "works" } else { "does not work" };
    say!("{name}: {verdict}");
    if probe.usable() {
        print_capabilities(probe);
    }
    for finding in &probe.findings {
        say!("  {}: {}", if finding.fatal { "problem" } else { "note" }, finding.what);
        if let Some(cure) = &finding.cure {
            say!("    hint: {cure}");
        }
    }
}

fn print_capabilities(probe: &Probe) {
    let capabilities = &probe.capabilities;
    let how = |by_group: bool| if by_group { "by a control group" } else { "no control group" };
    say!("  Landlock ABI     {}", capabilities.landlock);
    say!("  memory limit     {}", if capabilities.memory { how(true) } else { "watched by init" });
    say!("  cpu limit        {}", how(capabilities.cpus));
    let reach = if probe.hands_over { "any program, by name" } else { "by a proxy only" };
    say!("  network          {reach}");
}
