//! apt, from a repository over TLS and in the clear.

use pinfold_testkit::Stage;

use super::World;
use super::git::run;
use super::world::people_with;

/// A repository with one package (sources.list(5), "exact paths").
fn repository(stage: &Stage) {
    stage.write(
        "world/package/DEBIAN/control",
        "Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: me <me@example.org>\n\
         Description: a package\n",
    );
    stage.write("world/package/usr/share/tiny/name", "tiny by apt\n");
    stage.write("world/files/apt/.keep", "");
    let (package, apt) = (stage.path("world/package"), stage.path("world/files/apt"));
    let (package, apt) = (package.to_str().unwrap(), apt.to_str().unwrap());
    run(stage, "dpkg-deb", &["--build", "--root-owner-group", package, apt]);
    let lists = "cd \"$1\" && apt-ftparchive packages . > Packages && \
        apt-ftparchive release . > ../Release && mv ../Release .";
    run(stage, "sh", &["-c", lists, "sh", apt]);
}

/// Everything that apt writes lies in the workspace; nothing is signed.
const SCRIPT: &str = "set -e\nrm -rf apt\nmkdir -p apt/lists/partial apt/archives/partial apt/parts\n\
    : > apt/status\necho \"deb [trusted=yes] $1/files/apt/ ./\" > apt/sources.list\n\
    cat > apt/conf <<END\nDir::Etc::sourcelist \"$PWD/apt/sources.list\";\n\
    Dir::Etc::sourceparts \"$PWD/apt/parts\";\nDir::Etc::parts \"$PWD/apt/parts\";\n\
    Dir::Etc::preferencesparts \"$PWD/apt/parts\";\nDir::State \"$PWD/apt\";\n\
    Dir::State::status \"$PWD/apt/status\";\nDir::Cache \"$PWD/apt\";\nAPT::Sandbox::User \"\";\nEND\n\
    export APT_CONFIG=$PWD/apt/conf\n\
    apt-get update -q=2 && cd apt && apt-get download -q=2 tiny && dpkg-deb -x tiny_*.deb tree && \
    cat tree/usr/share/tiny/name\n";

#[test]
fn apt_updates_and_downloads_from_a_repository() {
    for user in people_with("apt", &["apt-get", "apt-ftparchive", "dpkg-deb"]) {
        let world = World::prepared(user, &["registry"], repository);
        let allowed = ["--allow-host", "registry.example.org"];
        let intercepted = [&allowed[..], &["--intercept", "registry.example.org"]].concat();
        for (options, url) in [
            (&allowed[..], "https://registry.example.org"),
            (&allowed, "http://registry.example.org"),
            (&intercepted, "https://registry.example.org"),
        ] {
            for direct in ["", "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY\n"] {
                let script = format!("{direct}{SCRIPT}");
                let said = world.run(options, &["sh", "-c", &script, "sh", url]);
                assert_eq!((said.err.as_str(), said.out.as_str()), ("", "tiny by apt\n"), "{url}");
            }
        }
        let said = world.run(&[], &["sh", "-c", SCRIPT, "sh", "http://registry.example.org"]);
        assert!(!said.ok, "{said:?}");
        assert!(said.out.contains("pinfold: no rule") || said.err.contains("403"), "{said:?}");
    }
}
