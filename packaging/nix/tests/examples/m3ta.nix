# As in a configuration of m3ta's module.
{
  m3ta.pi-agent = {
    enable = true;
    package = "/nix/store/11111111111111111111111111111111-pi";
    hostUsers.alice = {
      projectRoots = [ "~/work" ];
    };
    settings.theme = "managed";
    environment.FROM = "policy";
    environmentFiles = [ "/run/secrets/pi.env" ];
    wrapper = {
      enable = true;
      commandName = "pi";
    };
  };
  services.pinfold.sudo = true;
}
