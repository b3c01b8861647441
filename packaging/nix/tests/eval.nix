# What the module makes of a configuration, as files of a machine.
#
#   nix-instantiate --eval --strict --json packaging/nix/tests/eval.nix --arg configuration '{ … }'
{
  configuration,
  # Of nixpkgs, or what the module uses of it.
  lib ? import ./shim.nix,
  pinfold ? "/nix/store/00000000000000000000000000000000-pinfold",
}:
let
  inherit (lib) mkOption types;
  any = mkOption {
    type = types.attrsOf types.anything;
    default = { };
  };
  list = mkOption {
    type = types.listOf types.anything;
    default = [ ];
  };
  # The options of NixOS that the module sets.
  system.options = {
    assertions = list;
    environment = {
      etc = any;
      systemPackages = list;
    };
    users = {
      users = any;
      groups = any;
    };
    systemd = {
      tmpfiles.rules = list;
      units = any;
    };
    security.sudo = {
      extraRules = list;
      extraConfig = mkOption {
        type = types.str;
        default = "";
      };
    };
  };
  pkgs = {
    callPackage = _: _: pinfold;
    writeShellScriptBin = name: text: {
      inherit name;
      text = "#!/bin/sh\n${text}";
      outPath = "/nix/store/${name}";
    };
  };
  inherit
    (lib.evalModules {
      specialArgs = { inherit pkgs; };
      modules = [
        ../module.nix
        ../m3ta.nix
        system
        configuration
      ];
    })
    config
    ;
  # As NixOS's module of sudo writes them.
  rule =
    rule:
    map (
      user:
      "${user} ALL=(${rule.runAs}) ${
        builtins.concatStringsSep ", " (
          map (
            command: "${builtins.concatStringsSep ":" command.options}: ${command.command}"
          ) rule.commands
        )
      }\n"
    ) rule.users;
in
{
  failed = map (it: it.message) (builtins.filter (it: !it.assertion) config.assertions);
  policy = config.environment.etc."pinfold/runner.json" or null;
  units = builtins.mapAttrs (_: unit: unit.text) config.systemd.units;
  wanted = builtins.filter (name: config.systemd.units.${name} ? wantedBy) (
    builtins.attrNames config.systemd.units
  );
  sudoers =
    config.security.sudo.extraConfig
    + builtins.concatStringsSep "" (builtins.concatLists (map rule config.security.sudo.extraRules));
  commands = builtins.listToAttrs (
    map (package: {
      inherit (package) name;
      value = package.text;
    }) (builtins.filter (package: package ? text) config.environment.systemPackages)
  );
  packages = map (package: "${package}") config.environment.systemPackages;
  tmpfiles = config.systemd.tmpfiles.rules;
  inherit (config.users) users groups;
}
