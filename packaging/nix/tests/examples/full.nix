{
  services.pinfold = {
    enable = true;
    package = "/nix/store/11111111111111111111111111111111-pi";
    binaryName = "pi-agent";
    user = "agents";
    group = "agents";
    createUser = false;
    stateDir = "/srv/agents";
    hostUsers = {
      alice = {
        projectRoots = [
          "~/work"
          "/srv/shared"
        ];
        configPath = "dotfiles/pi";
      };
      bob = {
        projectRoots = [ "~/src" ];
        user = "agents-bob";
      };
    };
    settings = {
      theme = "dark";
      packages = [ "npm:x" ];
    };
    environment.PI_TELEMETRY = "0";
    environmentFiles = [ "/run/secrets/pi.env" ];
    runtimeMaxSec = 3600;
    memoryMax = 8589934592;
    tasksMax = 4096;
    privatePids = true;
    sudo = true;
    wrapper = {
      hostConfigPath = ".config/pi";
      hideDirectBinary = false;
    };
  };
}
