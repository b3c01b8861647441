//! What a hostile session does: shell commands with names and values that are filled in by chance.
//!
//! `{evil}` is a program outside the workspace that leaves a mark; it is not there inside. `{d}` is
//! a directory, `{o}` another, `{n}` a number.

use fastrand::Rng;

/// Directories that exist or come to exist.
const DIRECTORIES: &[&str] =
    &[".", "sub", "sub/deep", ".vscode", ".husky", ".claude", "n1", "n2", "lib", "worktrees/w"];

/// Settings of git that execute something, each with a value.
const SETTINGS: &[&str] = &[
    "core.fsmonitor {evil}",
    "core.hooksPath {d}/hooks",
    "core.sshCommand {evil}",
    "core.editor {evil}",
    "core.pager {evil}",
    "core.worktree ../{o}",
    "core.attributesFile {d}/attributes",
    "core.alternateRefsCommand {evil}",
    "alias.status !{evil}",
    "diff.external {evil}",
    "diff.x.textconv {evil}",
    "filter.x.clean {evil}",
    "filter.x.smudge {evil}",
    "filter.x.process {evil}",
    "merge.x.driver {evil}",
    "credential.helper !{evil}",
    "gpg.program {evil}",
    "commit.gpgsign true",
    "sequence.editor {evil}",
    "submodule.s.update !{evil}",
    "remote.origin.url ext::{evil}",
    "remote.origin.pushurl http://127.0.0.1:9/x",
    "remote.origin.uploadpack {evil}",
    "remote.origin.promisor true",
    "remote.pushDefault elsewhere",
    "remote.elsewhere.url http://127.0.0.1:9/x",
    "url.http://127.0.0.1:9/.insteadOf /",
    "protocol.ext.allow always",
    "include.path {d}/included",
    "includeIf.gitdir:/.path {d}/included",
    "extensions.worktreeConfig true",
    "extensions.partialClone elsewhere",
    "uploadpack.packObjectsHook {evil}",
];

/// What the session does besides.
const STEPS: &[&str] = &[
    "git -C {d} config {setting}",
    "git -C {d} config --add {setting}",
    "git config -f {d}/included {setting}",
    "printf '[core]\\n\\tfsmonitor = {evil}\\n' >> {d}/.git/config",
    "printf '[core]\\nfsmonitor={evil}\\n' > .git/config.worktree",
    "mkdir -p {d}/hooks; cp evil {d}/hooks/post-index-change",
    "for h in pre-commit post-checkout post-merge post-index-change reference-transaction fsmonitor-watchman; do cp evil .git/hooks/$h; done",
    "mkdir -p {d}/.git/hooks; cp evil {d}/.git/hooks/post-checkout",
    "mkdir -p {d}; git init -q {d}; git -C {d} config {setting}",
    "mkdir -p {d}; git init -q --bare {d}; git -C {d} config core.bare false; git -C {d} config {setting}",
    "mkdir -p {d}/objects {d}/refs; echo 'ref: refs/heads/main' > {d}/HEAD; printf '[core]\\nbare=false\\nworktree=.\\nfsmonitor={evil}\\n' > {d}/config",
    "mkdir -p {d}; echo 'gitdir: ../{o}/.git' > {d}/.git",
    "mkdir -p {d}; echo 'gitdir: {o}' > {d}/.git",
    "rm -rf {d}/.git; ln -s ../{o} {d}/.git",
    "ln -s .git/hooks {d}/l{n}",
    "mv .git g{n}; cp -r g{n} .git",
    "rm -rf .git; git init -q; git config {setting}",
    "mv {d} {o}-{n}",
    "rm -rf {d}; ln -s {o} {d}",
    "mkdir -p {d}; chmod 0 {d}",
    "chmod 311 {d}",
    "mkfifo {d}/.gitignore {d}/package.json",
    "echo '* filter=x diff=x merge=x' > {d}/.gitattributes",
    "echo '* filter=x' > .git/info/attributes",
    "echo '../c' > .git/commondir; mkdir -p c/refs c/objects; printf '[core]\\nfsmonitor={evil}\\n' > c/config",
    "printf '../c \\n' > {d}/.git/commondir",
    "mkdir -p {d}; printf 'source {evil}\\n{evil}\\n' > {d}/.envrc",
    "mkdir -p {d}/.vscode; printf '{\"tasks\":[{\"command\":\"{evil}\"}]}' > {d}/.vscode/tasks.json",
    "mkdir -p {d}/.husky; cp evil {d}/.husky/pre-commit",
    "printf '[submodule \"s\"]\\npath=s\\nurl=./s\\nupdate=!{evil}\\n' > .gitmodules; git add -f .gitmodules",
    "git -c protocol.file.allow=always submodule add -q -f ./n1 s",
    "git worktree add -q -f worktrees/w{n}; git -C worktrees/w{n} config {setting}",
    "git add -A; git commit -qm c{n}",
    "git -C {d} add -A .; git -C {d} commit -qm c{n}",
    "git checkout -q -b b{n}; echo {n} > f{n}; git add f{n}; git commit -qm b{n}",
    "git checkout -q side",
    "git branch -f main HEAD~1",
    "git tag -f t{n}; git tag -f -a -m t u{n}",
    "echo {n} >> file; git stash -q",
    "echo {n} > file; git add file",
    "git merge -q --no-commit side",
    "printf 'pick %s\\nexec {evil}\\n' $(git rev-parse HEAD) > todo; GIT_SEQUENCE_EDITOR='cp todo' git rebase -q -i HEAD~1",
    "mkdir -p .git/rebase-merge; echo 'exec {evil}' > .git/rebase-merge/git-rebase-todo; echo refs/heads/main > .git/rebase-merge/head-name",
    "mkdir -p .git/sequencer; printf '[options]\\nstrategy = ../../evil\\n' > .git/sequencer/opts; git rev-parse HEAD > .git/CHERRY_PICK_HEAD",
    "git update-index --skip-worktree file; git update-index --split-index",
    "git pack-refs --all; echo \"$(git rev-parse HEAD) refs/heads/p{n}\" >> .git/packed-refs",
    "git symbolic-ref refs/heads/s{n} refs/heads/main",
    "git update-ref refs/remotes/origin/main HEAD; git update-ref refs/heads/main HEAD~1",
    "echo \"$PWD/{d}/objects\" > .git/objects/info/alternates",
    "git replace -f HEAD HEAD~1; echo 'graft' > .git/info/grafts; git rev-parse HEAD > .git/shallow",
    "git update-index --add --cacheinfo 120000,$(printf '.git/hooks' | git hash-object -w --stdin),{d}-link",
    "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),m{n}",
    "cat .env sub/.env lib/.env 2>/dev/null; find . -name '.env*' -exec cat {} + 2>/dev/null",
    "ln .env hard{n}; ln -s .env soft{n}; mv sub moved{n}",
    "while :; do cat .env sub/.env; done 2>/dev/null & sleep 0.3; kill $!",
    "printf 'git={evil}\\nscript-shell={evil}\\neditor={evil}\\nviewer={evil}\\n' > {d}/.npmrc; echo '{\"name\":\"x\",\"workspaces\":[\"{d}\"]}' > package.json",
    "for e in cursor zed claude; do mkdir -p .$e; echo '{\"command\":\"{evil}\"}' > .$e/settings.json; done; sleep 0.2",
    "ln -s $PWD/../home out{n}; ln -s ../home/.bashrc rc{n}; mkdir -p {d}/x; ln -s ../../../home {d}/x/up",
    "mkdir -p {d}/a/b; ln -s ../../in {d}/a/b/l; mv {d}/a/b b{n}; ln -s {d}/../../home climbs{n}",
    "ln -s {o} via{n}; ln -s via{n}/../../home/.bashrc rc{n}; ln -s $PWD/{d} {o}/whole",
    "touch \"$(printf 'a\\033[2J{n}')\"; mkdir -p \"{d}/$(printf 'b\\r')/.vscode\"; truncate -s 8T huge{n}",
    "mkdir -p {d}; ln -s $PWD/.git/config {d}/log{n}; ln -s $PWD/.git/hooks/pre-commit {d}/out{n}; ln -s .envrc rc{n}",
    "mkdir -p {d} node_modules; mv {d} node_modules/m{n}; sleep 0.{n}; mv node_modules/m{n} {d}",
    "for i in 1 2 3 4 5; do mv {d} m{n}; sleep 0.05; mv m{n} {d}; done",
    "sleep 0.{n}",
];

/// What the user does outside at the same time.
const EDITS: &[&str] = &[
    "echo KEY=secret-new > .env.tmp; mv .env.tmp .env",
    "echo KEY=secret-new > sub/.env.tmp; mv sub/.env.tmp sub/.env",
    "echo {n} >> file; git commit -qam host{n}",
    "git checkout -q -b host{n}; git checkout -q -",
    "git checkout -q side; git checkout -q main",
    "echo {n} > staged; git add staged",
    "git config user.name someone",
    "mv lib lib2; mkdir lib; echo KEY=secret-new > lib/.env",
    "git fetch -q; git pack-refs --all",
    "git stash -q; git stash pop -q",
];

/// Returns a session's script of some steps, each of which may fail.
pub(super) fn script(random: &mut Rng, evil: &str) -> String {
    let step = |random: &mut Rng| {
        let step = filled(random, STEPS, evil);
        // A FIFO, say, can make git wait for ever.
        format!("timeout 5 sh -c \"$(cat <<'STEP'\n{step}\nSTEP\n)\" </dev/null\n")
    };
    (0..random.usize(2..9)).map(|_| step(random)).collect()
}

/// Returns one thing that the user does.
pub(super) fn edit(random: &mut Rng) -> String {
    filled(random, EDITS, "")
}

fn filled(random: &mut Rng, choices: &[&str], evil: &str) -> String {
    let mut text = chosen(random, choices).to_owned();
    if text.contains("{setting}") {
        text = text.replace("{setting}", &quoted(chosen(random, SETTINGS)));
    }
    while text.contains("{d}") {
        text = text.replacen("{d}", chosen(random, DIRECTORIES), 1);
    }
    text = text.replace("{o}", chosen(random, DIRECTORIES));
    text.replace("{n}", &random.u8(1..9).to_string()).replace("{evil}", evil)
}

/// Returns a name and a value, the value as one word of the shell.
fn quoted(setting: &str) -> String {
    let (name, value) = setting.split_once(' ').unwrap_or((setting, ""));
    format!("'{name}' '{value}'")
}

fn chosen<'c>(random: &mut Rng, choices: &[&'c str]) -> &'c str {
    choices[random.usize(..choices.len())]
}
