{
  description = "pinfold: coding agents on a repository of yours, in sandboxes";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: {
        default = pkgs.callPackage ./package.nix { };
      });
      nixosModules = {
        default = ./module.nix;
        m3ta.imports = [
          ./module.nix
          ./m3ta.nix
        ];
      };
      checks = each (pkgs: {
        package = self.packages.${pkgs.stdenv.hostPlatform.system}.default;
        # A virtual machine: it needs KVM.
        machine = pkgs.testers.runNixOSTest (import ./tests/machine.nix self);
      });
    };
}
