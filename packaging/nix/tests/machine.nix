# A machine with the module, for `nix flake check`: it needs KVM.
self: {
  name = "pinfold";
  nodes.machine = {
    imports = [ self.nixosModules.default ];
    users.users.alice.isNormalUser = true;
    users.users.bob.isNormalUser = true;
    services.pinfold = {
      enable = true;
      hostUsers.alice.projectRoots = [ "~/work" ];
      settings.theme = "managed";
      environment.FROM = "policy";
    };
  };
  testScript = ''
    machine.wait_for_unit("pinfold-runner.socket")
    machine.succeed("su - alice -c 'mkdir -p work/proj elsewhere'")
    run = "pinfold run --boundary systemd -- sh -c"
    said = machine.succeed(f"su - alice -c 'cd work/proj && {run} \"echo x >made; echo \\$FROM; cat ~/.pi/agent/settings.json\"'")
    assert "policy" in said and "managed" in said, said
    machine.succeed("test $(stat -c %U /home/alice/work/proj/made) = alice")
    machine.fail(f"su - alice -c 'cd elsewhere && {run} true'")
    machine.fail(f"su - bob -c '{run} true'")
    machine.succeed("test $(stat -c %a-%U /var/lib/pi-agent/users/alice) = 700-pi-agent")
  '';
}
