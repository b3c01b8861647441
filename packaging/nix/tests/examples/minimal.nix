{
  services.pinfold = {
    enable = true;
    hostUsers.alice.projectRoots = [ "~/work" ];
  };
}
