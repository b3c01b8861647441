//! Clones that package managers keep in a workspace: what each of them has git do in a session, and
//! what it has git do next on the host.

use super::common::{sites, text};

/// Has git in a session clone from a directory of another owner.
const ALLOW: &str =
    "set -e; export GIT_CONFIG_GLOBAL=/tmp/settings; git config --global safe.directory '*'; ";

struct Manager {
    name: &'static str,
    /// `$R` is the URL of the remote, `$C` its commit.
    inside: &'static str,
    /// What it runs on the host; all of it must succeed.
    host: &'static str,
}

const MANAGERS: [Manager; 4] = [
    Manager {
        name: "bundler",
        inside: "git clone -q --bare --no-hardlinks $R v/cache/x; git -C v/cache/x tag -f keep; \
            git clone -q --no-checkout v/cache/x v/gems/x; git -C v/gems/x fetch -q --force --tags ../../cache/x; \
            git -C v/gems/x reset -q --hard $C",
        host: "git --git-dir v/cache/x cat-file -e $C^{commit}; git --git-dir v/cache/x fetch -q --force --tags $R 'refs/heads/*:refs/heads/*'; \
            git -C v/gems/x fetch -q --force --tags $PWD/v/cache/x; git -C v/gems/x reset -q --hard $C; git -C v/gems/x status --porcelain",
    },
    Manager {
        name: "mix",
        inside: "mkdir -p v/d; cd v/d; git init -q; git remote add origin $R; git fetch -q --tags origin; git checkout -q $C",
        host: "cd v/d; git config remote.origin.url $R || git remote add origin $R; git fetch -q --tags origin; \
            git rev-parse --verify -q $C^{commit} >/dev/null; git checkout -q $C; git status --porcelain",
    },
    Manager {
        name: "pip",
        inside: "git clone -q --filter=blob:none $R v/src; git -C v/src rev-parse -q --verify sha^$C || :; git -C v/src checkout -q $C",
        host: "git -C v/src rev-parse HEAD | grep -qx $C; git -C v/src status --porcelain",
    },
    Manager {
        name: "go",
        inside: "mkdir -p v/vcs; cd v/vcs; git init -q --bare; git remote add origin $R; \
            git fetch -q -f origin refs/heads/*:refs/heads/* refs/tags/*:refs/tags/*",
        host: "cd v/vcs; git log -1 --format=%H $C -- >/dev/null; git fetch -q -f $R 'refs/heads/*:refs/heads/*'; \
            git cat-file -e $C:file; git --git-dir . archive $C >/dev/null",
    },
];

#[test]
fn clones_of_package_managers_work_on_the_host_afterwards() {
    for site in sites() {
        for Manager { name, inside, host } in &MANAGERS {
            let case = site.repository();
            case.host(
                "git init -q -b main ../lib; cd ../lib; echo x >file; git add .; \
                       git -c user.name=a -c user.email=b commit -qm first",
            );
            let lib = case.path().with_file_name("lib").display().to_string();
            let commit = case.host("git -C ../lib rev-parse HEAD");
            let names = format!("R=file://{lib}; C={}; ", commit.trim());
            let script = format!("{ALLOW}{names}{inside}");
            let output = case.run(&["--read", &lib], &script);
            let (shown, stderr) = text(&output);
            assert!(output.status.success(), "{name}, {site}: {shown}{stderr}");
            assert!(stderr.contains("taken over: new repository"), "{name}, {site}: {stderr}");
            assert_eq!(case.host(&format!("{names}{host}")), "", "{name}, {site}: {stderr}");
        }
    }
}
