# The options under the name that they had in m3ta's module: `m3ta.pi-agent` means `services.pinfold`.
{ config, lib, ... }:
{
  options.m3ta.pi-agent = lib.mkOption {
    type = lib.types.attrsOf lib.types.anything;
    default = { };
    description = "Another name of `services.pinfold`.";
  };
  config.services.pinfold = config.m3ta.pi-agent;
}
