# pinfold and its runner, laid out as the Debian package lays them out.
{
  lib,
  rustPlatform,
  stdenv,
}:
rustPlatform.buildRustPackage {
  pname = "pinfold";
  version = (lib.importTOML ../../Cargo.toml).workspace.package.version;
  src = ../..;
  cargoLock.lockFile = ../../Cargo.lock;
  cargoBuildFlags = [
    "--package"
    "pinfold"
    "--package"
    "pinfold-runner"
  ];
  # The executable is static: init starts where there is no library.
  buildInputs = [ stdenv.cc.libc.static ];
  # They need namespaces, which a build has not.
  doCheck = false;
  postInstall = ''
    mkdir -p $out/libexec/pinfold
    mv $out/bin/pinfold-runner $out/libexec/pinfold/
  '';
  meta = {
    description = "Coding agents on a repository of yours, in sandboxes";
    license = [
      lib.licenses.asl20
      lib.licenses.mit
    ];
    mainProgram = "pinfold";
    platforms = lib.platforms.linux;
  };
}
