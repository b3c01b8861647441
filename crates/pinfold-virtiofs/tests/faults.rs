//! Which failures of a restored machine are its template's, shown by a program in the place of QEMU that fails at each step.

#[path = "../../pinfold-vm/tests/support/single.rs"]
mod single;

#[path = "../../pinfold-vm/tests/support/guests.rs"]
mod guests;

mod sandbox;

/// What the sandboxes of other tests need as well.
mod support {
    pub(crate) use super::guests;
    pub(crate) use super::single::Failed;
}

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pinfold_boundary::{Stdio, StdioEnd};
use pinfold_vm::{Architecture, Qemu, Spec};

use sandbox::{ended, launch, nothing_of_ours_is_left, pipe, plan, program};
use single::Failed;

const QEMU: &str = include_str!("fake_qemu.py");
/// Failures that say nothing of a template: what kills QEMU, and a user or an administrator who ends it.
const OTHERS: [&str; 3] =
    ["killed before it connects", "killed while it wakes", "ends without an error"];
const REFUSALS: [&str; 2] = ["refuses", "ends with an error"];

fn main() -> Result<(), Failed> {
    single::run("only_what_qemu_refuses_costs_a_template", only_what_qemu_refuses_costs_a_template)
}

struct Case {
    root: PathBuf,
    templates: PathBuf,
    workspace: PathBuf,
    spec: Spec,
}

fn only_what_qemu_refuses_costs_a_template() -> Result<(), Failed> {
    if !Path::new("/usr/bin/python3").exists() {
        println!("SKIPPED: it needs python3");
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
    let case = Case::new(directory.path())?;
    // The first makes the template, and each finds the one of the first.
    for mode in OTHERS {
        let error = case.start(mode)?;
        assert!(!error.contains("run it again"), "{mode}: {error}");
        let names = case.names()?;
        assert!(matches!(names.as_slice(), [name] if is_template(name)), "{mode}: {names:?}");
    }
    let first = case.names()?;
    for mode in REFUSALS {
        let error = case.start(mode)?;
        assert!(error.contains("the template of the machine is made again"), "{mode}: {error}");
        assert!(case.names()?.is_empty(), "{mode}");
        let error = case.start(mode)?;
        assert!(error.contains("without a template, the machine boots"), "{mode}: {error}");
        let mark = format!("{}.none", first.concat());
        assert_eq!(case.names()?, [mark.as_str()], "{mode}");
        // What boots ends as well.
        let error = case.start(mode)?;
        assert!(error.contains("the machine ended and has not started init"), "{mode}: {error}");
        fs::remove_file(case.templates.join(mark))?;
        case.start(OTHERS[1])?;
        assert_eq!(case.names()?, first);
    }
    Ok(())
}

fn is_template(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Case {
    fn new(directory: &Path) -> Result<Self, Failed> {
        let at = |name: &str| directory.join(name);
        let program = at("root/usr/bin/qemu-system-x86_64");
        fs::create_dir_all(at("root/usr/bin"))?;
        fs::create_dir(at("workspace"))?;
        for (path, content) in [(&program, QEMU), (&at("kernel"), ""), (&at("initramfs"), "")] {
            fs::write(path, content)?;
            fs::set_permissions(path, Permissions::from_mode(0o755))?;
        }
        Ok(Self {
            root: at("root"),
            templates: at("templates"),
            workspace: at("workspace").canonicalize()?,
            spec: Spec {
                kernel: at("kernel"),
                initramfs: at("initramfs"),
                memory: 512,
                cpus: 1,
                share: None,
                changes: 0,
                has_tree: true,
            },
        })
    }

    /// Starts a session, and returns why it did not.
    fn start(&self, mode: &str) -> Result<String, Failed> {
        fs::write(self.root.join("mode"), mode)?;
        fs::set_permissions(self.root.join("mode"), Permissions::from_mode(0o644))?;
        let qemu = Qemu::find(&self.root, &Architecture::X86_64)?;
        let plan = plan(&self.workspace)?;
        let mut inside = launch(&qemu, &self.spec, Some(&self.templates), plan)?;
        let (_, output) = pipe()?;
        let null = File::open("/dev/null")?;
        let ends = [
            StdioEnd::Descriptor(null.into()),
            StdioEnd::Descriptor(output.into()),
            StdioEnd::Same(1),
        ];
        inside.command(&program(":", &self.workspace)?, Stdio::plain(ends))?;
        let Err(error) = inside.seal(Vec::new()) else {
            return Err(format!("{mode}: it has started, {:?}", ended(&inside)?).into());
        };
        let said = format!("{error}; {}", error.hint().unwrap_or_default());
        println!("{mode}: {said}");
        drop(inside);
        nothing_of_ours_is_left()?;
        Ok(said)
    }

    fn names(&self) -> Result<Vec<String>, Failed> {
        let entries = fs::read_dir(&self.templates)?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        Ok(names.collect::<std::io::Result<_>>()?)
    }
}
