# Agents as a user of their own, in units of systemd (docs/guides/systemd.md).
{
  config,
  lib,
  pkgs,
  ...
}:
let
  cfg = config.services.pinfold;
  inherit (lib) mkOption types;
  hostUsers = lib.attrNames cfg.hostUsers;
  # The user that the sessions of each host user run as.
  serviceOf = name: if cfg.hostUsers.${name}.user != null then cfg.hostUsers.${name}.user else cfg.user;
  services = map serviceOf hostUsers;
  runner = "${cfg.pinfold}/libexec/pinfold/pinfold-runner";
  # The units as every other packaging ships them, with the runner where it lies here.
  unit =
    name:
    builtins.replaceStrings [ "/usr/libexec/pinfold/pinfold-runner" ] [ runner ] (
      builtins.readFile (../systemd + "/${name}")
    );
  binary = if cfg.binaryName != null then cfg.binaryName else cfg.wrapper.commandName;
  # What goes into units, rules and scripts as it is must mean nothing there but itself.
  isName = text: builtins.match "[a-zA-Z_][a-zA-Z0-9_.-]*" text != null;
  isCommand = text: builtins.match "[a-zA-Z0-9_][a-zA-Z0-9._+-]*" text != null;
  isPath =
    text:
    builtins.match "(/[a-zA-Z0-9._+-]+)+" text != null
    && builtins.match "(.*/)?\\.\\.?(/.*)?" text == null;
  store = "${builtins.storeDir}/";
  isInStore = text: builtins.substring 0 (builtins.stringLength store) text == store;
  command =
    if cfg.package == null then
      "${cfg.wrapper.commandName} --"
    else
      "-- ${cfg.package}/bin/${binary}";
  policy =
    {
      inherit (cfg)
        user
        stateDir
        settings
        environment
        environmentFiles
        ;
      program = "${cfg.pinfold}/bin/pinfold";
      configPath = cfg.wrapper.hostConfigPath;
      hostUsers = lib.mapAttrs (
        name: user:
        { inherit (user) projectRoots; }
        // lib.optionalAttrs (user.configPath != null) { inherit (user) configPath; }
        // lib.optionalAttrs (user.user != null) { inherit (user) user; }
      ) cfg.hostUsers;
    }
    // lib.optionalAttrs cfg.privatePids { inherit (cfg) privatePids; }
    // lib.optionalAttrs (cfg.runtimeMaxSec != null) { inherit (cfg) runtimeMaxSec; }
    // lib.optionalAttrs (cfg.memoryMax != null) { inherit (cfg) memoryMax; }
    // lib.optionalAttrs (cfg.tasksMax != null) { inherit (cfg) tasksMax; };
  hostUser.options = {
    projectRoots = mkOption {
      type = types.listOf types.str;
      default = [ ];
      example = [ "~/work" ];
      description = "Directories that the user's sessions may work in; `~` is the user's home.";
    };
    configPath = mkOption {
      type = types.nullOr types.str;
      default = null;
      description = "Where this user has the agent's configuration, if not at `wrapper.hostConfigPath`.";
    };
    user = mkOption {
      type = types.nullOr types.str;
      default = null;
      example = "pi-agent-bob";
      description = "Another user that this one's sessions run as. All host users but one need it: no two may share one.";
    };
  };
in
{
  options.services.pinfold = {
    enable = mkOption {
      type = types.bool;
      default = false;
      description = "Whether users may run agents as a user of their own.";
    };
    pinfold = mkOption {
      type = types.package;
      default = pkgs.callPackage ./package.nix { };
      defaultText = "the package of this repository";
      description = "pinfold and its runner.";
    };
    package = mkOption {
      type = types.nullOr types.package;
      default = null;
      description = ''
        The agent. Without it pinfold installs the agent whose name the wrapper has, and the agent's models are
        reached by pinfold's gateway.
      '';
    };
    binaryName = mkOption {
      type = types.nullOr types.str;
      default = null;
      description = "The agent's program in `package`, if it is not called as the wrapper.";
    };
    user = mkOption {
      type = types.str;
      default = "pi-agent";
      description = "The user that sessions run as.";
    };
    group = mkOption {
      type = types.str;
      default = "pi-agent";
      description = "That user's primary group.";
    };
    createUser = mkOption {
      type = types.bool;
      default = true;
      description = "Whether to create both.";
    };
    stateDir = mkOption {
      type = types.str;
      default = "/var/lib/pi-agent";
      description = "That user's directory.";
    };
    hostUsers = mkOption {
      type = types.attrsOf (types.submodule hostUser);
      default = { };
      example = {
        alice.projectRoots = [ "~/work" ];
      };
      description = "Who may run sessions, and where.";
    };
    settings = mkOption {
      type = types.attrsOf types.anything;
      default = { };
      description = "Settings of the agent, which count before each user's own `settings.json`.";
    };
    environment = mkOption {
      type = types.attrsOf types.str;
      default = { };
      description = "Variables of every session. Everybody can read them.";
    };
    environmentFiles = mkOption {
      type = types.listOf types.str;
      default = [ ];
      example = [ "/run/secrets/pi.env" ];
      description = "Root's files with more variables, which count before `environment`. Only root reads them.";
    };
    runtimeMaxSec = mkOption {
      type = types.nullOr types.int;
      default = null;
      description = "Seconds after which a session is ended.";
    };
    memoryMax = mkOption {
      type = types.nullOr types.int;
      default = null;
      description = "Bytes of memory that a session has at most.";
    };
    tasksMax = mkOption {
      type = types.nullOr types.int;
      default = null;
      description = "Tasks that a session has at most.";
    };
    privatePids = mkOption {
      type = types.bool;
      default = lib.versionAtLeast (pkgs.systemd.version or "0") "257";
      defaultText = "whether systemd is 257 or newer";
      description = "Whether units show no processes of other sessions.";
    };
    sudo = mkOption {
      type = types.bool;
      default = false;
      description = "Whether sudo may start the runner, too. pinfold itself uses its socket.";
    };
    wrapper = {
      enable = mkOption {
        type = types.bool;
        default = true;
        description = "Whether the agent's name starts a session.";
      };
      commandName = mkOption {
        type = types.str;
        default = "pi";
        description = "That name.";
      };
      hideDirectBinary = mkOption {
        type = types.bool;
        default = true;
        description = "Whether `package` is on nobody's PATH. It is no wall: users can start other programs.";
      };
      hostConfigPath = mkOption {
        type = types.str;
        default = ".pi/agent";
        description = "Where users have the agent's configuration: below their homes, or an absolute path.";
      };
    };
  };

  config = lib.mkIf cfg.enable {
    assertions =
      [
        {
          assertion = !cfg.wrapper.enable || cfg.hostUsers != { };
          message = "services.pinfold.wrapper is enabled, and services.pinfold.hostUsers is empty: nobody could use it";
        }
        {
          assertion = cfg.hostUsers != { };
          message = "services.pinfold.hostUsers is empty: nobody may start a session";
        }
        {
          assertion = !(lib.any (user: lib.elem user ([ "root" ] ++ hostUsers)) ([ cfg.user ] ++ services));
          message = "services.pinfold.user must neither be root nor one of hostUsers";
        }
        {
          assertion = lib.length (lib.unique services) == lib.length services;
          message = "services.pinfold.hostUsers: no two may run sessions as the same user; give all but one a `user` of its own";
        }
        {
          assertion = isPath cfg.stateDir;
          message = "services.pinfold.stateDir must be an absolute path of letters, digits and any of ._+-";
        }
        {
          assertion = isCommand cfg.wrapper.commandName && isCommand binary;
          message = "services.pinfold.wrapper.commandName and binaryName must be names of programs";
        }
        {
          assertion = !(lib.any isInStore cfg.environmentFiles);
          message = "services.pinfold.environmentFiles has a file of the store, which everybody can read";
        }
        {
          assertion = lib.all (number: number == null || number > 0) [
            cfg.runtimeMaxSec
            cfg.memoryMax
            cfg.tasksMax
          ];
          message = "services.pinfold.runtimeMaxSec, memoryMax and tasksMax must be more than 0";
        }
        {
          assertion = cfg.package == null || cfg.wrapper.hideDirectBinary || binary != cfg.wrapper.commandName || !cfg.wrapper.enable;
          message = "services.pinfold.package and the wrapper have the same name ${binary}: hide one of them";
        }
      ]
      ++ map (name: {
        assertion = isName name;
        message = "services.pinfold: ${builtins.toJSON name} cannot be the name of a user or group";
      }) ([ cfg.group ] ++ hostUsers ++ [ cfg.user ] ++ services)
      ++ lib.mapAttrsToList (name: user: {
        assertion = user.projectRoots != [ ];
        message = "services.pinfold.hostUsers.${name}.projectRoots is empty: leave the user out instead";
      }) cfg.hostUsers;

    users.users = lib.optionalAttrs cfg.createUser (
      lib.genAttrs services (_: {
        isSystemUser = true;
        group = cfg.group;
        home = cfg.stateDir;
        description = "Agents of pinfold";
      })
    );
    users.groups =
      lib.optionalAttrs cfg.createUser { ${cfg.group} = { }; }
      // {
        # Users who may connect to the runner's socket.
        pinfold.members = hostUsers;
      };
    systemd.tmpfiles.rules = [
      "d ${cfg.stateDir} 0700 root root -"
      "d ${cfg.stateDir}/users 0700 root root -"
    ]
    ++ map (name: "d ${cfg.stateDir}/users/${name} 0700 ${serviceOf name} ${cfg.group} -") hostUsers;

    # A file, not a link into the store: pinfold takes no link for its policy.
    environment.etc."pinfold/runner.json" = {
      text = builtins.toJSON policy;
      mode = "0644";
    };
    systemd.units = {
      "pinfold-runner.socket" = {
        text = unit "pinfold-runner.socket";
        wantedBy = [ "sockets.target" ];
      };
      "pinfold-runner.service".text = unit "pinfold-runner.service";
    };

    environment.systemPackages =
      [ cfg.pinfold ]
      ++ lib.optional cfg.wrapper.enable (
        pkgs.writeShellScriptBin cfg.wrapper.commandName ''
          exec ${cfg.pinfold}/bin/pinfold run --boundary systemd ${command} "$@"
        ''
      )
      ++ lib.optional (cfg.package != null && !cfg.wrapper.hideDirectBinary) cfg.package;

    security.sudo = lib.mkIf cfg.sudo {
      extraConfig = ''
        Defaults!${runner} env_reset, !setenv, !env_keep, secure_path="/run/current-system/sw/bin", umask=0077, umask_override
      '';
      extraRules = [
        {
          users = hostUsers;
          runAs = "root:root";
          commands = [
            {
              command = "${runner} \"\"";
              options = [
                "NOPASSWD"
                "NOSETENV"
              ];
            }
          ];
        }
      ];
    };
  };
}
