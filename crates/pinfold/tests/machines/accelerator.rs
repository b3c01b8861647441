//! What executes a machine's instructions: KVM where a guest comes up with it, and QEMU's translator elsewhere.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use pinfold_testkit::{Stage, skip};

use super::session::{SETTINGS, run, stages, text};

/// Says what executes instructions in a stage.
fn choose(stage: &Stage, accelerator: &str) {
    let settings = fs::read_to_string(stage.path(SETTINGS)).unwrap();
    let kept = settings.lines().filter(|line| !line.starts_with("accelerator"));
    let kept = kept.map(|line| format!("{line}\n")).collect::<String>();
    stage.write(SETTINGS, format!("{kept}accelerator = \"{accelerator}\"\n"));
}

/// Returns what `pinfold doctor` says of machines.
fn doctor(stage: &Stage) -> (String, String) {
    let output = stage.pinfold(&["doctor", "--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut boundaries = report["boundaries"].as_array().unwrap().iter();
    let finding = &boundaries.find(|boundary| boundary["name"] == "vm").unwrap()["findings"][0];
    let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    (text("what"), text("hint"))
}

/// Whichever it is on this host: a session has its machine and the clock of the host, also in one that was restored, and the
/// doctor says what executes programs.
#[test]
fn session_runs_whether_kvm_works_or_not() {
    let wanted = std::env::var("PINFOLD_TEST_ACCELERATOR").unwrap_or("auto".to_owned());
    for stage in stages("accelerators") {
        choose(&stage, &wanted);
        let before = doctor(&stage);
        let said = has_the_hosts_clock(&stage);
        let after = doctor(&stage);
        if before.0.contains("/dev/kvm") {
            // It cannot be opened, and the next start asks again.
            assert!(said.is_empty() && !before.1.is_empty(), "{said} {before:?}");
            assert_eq!(before, after);
        } else if said.contains("no guest comes up with KVM") {
            assert!(after.0.contains("(no guest comes up with KVM: "), "{after:?}");
            assert!(after.1.contains("`pinfold clean machines`"), "{after:?}");
        } else {
            let words = "KVM executes programs";
            assert!(said.is_empty() && after.0.starts_with(words), "{said} {after:?}");
        }
        // Only the first start tries it.
        assert_eq!(has_the_hosts_clock(&stage), "");
        assert!(stage.pinfold(&["clean", "machines", "--yes"]).output().unwrap().status.success());
        assert_eq!(doctor(&stage), before);
    }
}

/// Asks a session for its time. Returns what pinfold said.
fn has_the_hosts_clock(stage: &Stage) -> String {
    let start = now();
    let output = run(stage, &["--memory", "512M", "--cpus", "1"], "date +%s");
    let said = text(&output.stderr);
    let seconds = text(&output.stdout).trim().parse::<u64>();
    assert!(seconds.is_ok_and(|seconds| (start..=now() + 1).contains(&seconds)), "{said}");
    said
}

/// Nothing takes the place of what the user has chosen.
#[test]
fn kvm_that_is_chosen_and_cannot_be_used_is_refused() {
    const DEVICE: &str = "/dev/kvm";
    for stage in stages("chosen") {
        let is_root = fs::metadata(stage.path("ws")).unwrap().uid() == 0;
        let may_open = if is_root { File::open(DEVICE).is_ok() } else { is_open_to_all(DEVICE) };
        if may_open {
            skip("chosen", "this user may open /dev/kvm");
            continue;
        }
        choose(&stage, "kvm");
        let output = run(&stage, &[], "true");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("KVM cannot be used: /dev/kvm "), "{said}");
        assert!(said.contains("leave `accelerator` out"), "{said}");
        choose(&stage, "tcg");
        assert!(doctor(&stage).0.contains("`accelerator` in config.toml says so"));
        choose(&stage, "hvf");
        let said = text(&run(&stage, &[], "true").stderr);
        assert!(said.contains("auto, kvm, tcg") || said.contains("hvf"), "{said}");
    }
}

fn is_open_to_all(path: &str) -> bool {
    fs::metadata(Path::new(path)).is_ok_and(|about| about.mode() & 0o006 == 0o006)
}

/// Returns the host's time in seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}
