//! `pinfold doctor`: does it work here, and what to do if not.

use std::process::ExitCode;

use pinfold_boundary::namespace::Namespace;
use pinfold_boundary::{Boundary, Probe};
use serde_json::json;

use crate::cli::Output;

pub(crate) fn doctor(output: Output) -> ExitCode {
    let boundary = Namespace;
    let probe = boundary.probe();
    if output.json {
        println!("{}", describe(boundary.name(), &probe));
    } else {
        print(boundary.name(), &probe);
    }
    ExitCode::from(u8::from(!probe.usable()))
}

fn describe(name: &str, probe: &Probe) -> serde_json::Value {
    let findings = probe.findings.iter().map(
        |finding| json!({ "what": finding.what, "cure": finding.cure, "fatal": finding.fatal }),
    );
    json!({
        "boundaries": [{
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
        }],
    })
}

fn print(name: &str, probe: &Probe) {
    let verdict = if probe.usable() { "works" } else { "does not work" };
    println!("{name}: {verdict}");
    let capabilities = &probe.capabilities;
    let how = |by_group: bool| if by_group { "by a control group" } else { "no control group" };
    println!("  Landlock ABI     {}", capabilities.landlock);
    println!(
        "  memory limit     {}",
        if capabilities.memory { how(true) } else { "watched by init" }
    );
    println!("  cpu limit        {}", how(capabilities.cpus));
    let reach = if probe.hands_over { "any program, by name" } else { "by a proxy only" };
    println!("  network          {reach}");
    for finding in &probe.findings {
        println!("  {}: {}", if finding.fatal { "problem" } else { "note" }, finding.what);
        if let Some(cure) = &finding.cure {
            println!("    cure: {cure}");
        }
    }
}
