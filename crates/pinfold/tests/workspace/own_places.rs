//! What pinfold reads as its user's word cannot be written from inside, however wide a grant is.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_testkit::{Stage, people};

/// Writes wherever pinfold would read it, and says what it could.
const PLANT: &str = r#"
cd "$1" || exit 9
for directory in .config/pinfold .config/pinfold/agents .config/pinfold/secrets .config/pinfold/images/pi \
    .local/state/pinfold .local/state/pinfold/trust .local/state/pinfold/sessions .local/state/pinfold/review \
    .local/state/pinfold/agents/own .local/state/pinfold/budget .local/state/pinfold/worktrees \
    .cache/pinfold .cache/pinfold/agents .cache/pinfold/bases; do
    mkdir -p "$directory" 2>/dev/null
    for file in config.toml evil.toml approvals.json mount-allowlist.toml; do
        (echo planted >"$directory/$file") 2>/dev/null && echo "$directory/$file"
    done
    ln -s /etc/passwd "$directory/link" 2>/dev/null && echo "$directory/link"
    mv "$directory" "$directory-away" 2>/dev/null && echo "$directory moved"
done
for above in .config .local/state .local .cache; do
    mv "$above" "$above-away" 2>/dev/null && echo "$above moved"
    [ "$above" = .local ] && continue
    mkdir -p "$above/pinfold" && (echo planted >"$above/pinfold/config.toml") && echo "$above anew"
done 2>/dev/null
echo mine >mine
"#;

/// Every file below that holds what was planted, and every link.
fn planted(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(planted(&entry.path()));
        } else if kind.is_symlink() || fs::read(entry.path()).is_ok_and(|text| text == b"planted\n")
        {
            found.push(entry.path());
        }
    }
    found
}

/// Runs it, in a home in which pinfold has or has not been before.
fn plant(stage: &Stage, options: &[&str], directory: &Path, command: &[&str]) {
    let home = stage.path("home").display().to_string();
    let mut run = stage.pinfold(&["run"]);
    run.args(options).args(command).arg(&home).current_dir(directory);
    let output = run.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{options:?}: {errors}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "", "{options:?}: could be written");
    assert_eq!(planted(&stage.path("home")), Vec::<PathBuf>::new(), "{options:?}");
    assert_eq!(
        fs::read_to_string(stage.path("home/mine")).unwrap(),
        "mine\n",
        "the rest is theirs"
    );
    fs::remove_file(stage.path("home/mine")).unwrap();
    let config = stage.pinfold(&["config"]).output().unwrap();
    assert!(config.status.success(), "{}", String::from_utf8_lossy(&config.stderr));
}

#[test]
fn a_grant_above_pinfolds_own_files_gives_none_of_them_whether_they_are_there_or_not() {
    for person in people() {
        let shell = ["--", "sh", "-c", PLANT, "sh"];
        for is_known in [false, true] {
            let stage = Stage::new(person);
            if is_known {
                stage.write(
                    "home/.config/pinfold/agents/other.toml",
                    "name = \"other\"\ncli_command = \"x\"\n",
                );
                assert!(stage.run(&[], &["true"]).status.success());
            }
            let home = stage.path("home").display().to_string();
            plant(&stage, &["--write", &home], &stage.workspace(), &shell);
        }
    }
}

/// With a part of them granted, as an agent's program is, nothing can be made beside it; with a part that may
/// be written to, as an agent's kept state is, the two do not go together.
#[test]
fn a_part_that_is_granted_opens_nothing_beside_it() {
    for person in people() {
        let stage = Stage::new(person);
        let home = stage.path("home").display().to_string();
        stage.write("home/.cache/pinfold/agents/known/file", "known");
        let known = stage.path("home/.cache/pinfold/agents/known").display().to_string();
        let options = ["--write", &home, "--read", &known];
        plant(&stage, &options, &stage.workspace(), &["--", "sh", "-c", PLANT, "sh"]);
        stage.write(
            "home/.config/pinfold/agents/own.toml",
            "name = \"own\"\ncli_command = \"sh\"\n[state]\npaths = [\".own\"]\n",
        );
        let options = ["run", "--state", "persistent", "--write", &home, "own", "--", "-c", "true"];
        let output = stage.pinfold(&options).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{errors}");
        assert!(errors.contains("it belongs to pinfold"), "{errors}");
    }
}
