#!/bin/sh
# Stands for slirp4netns in a session with sandboxes of its own. Podman has it connect the network that all containers with networks of
# their own share to the host's, and waits for a byte from it (`GetRootlessNetNs`, libpod/networking_linux.go). Nothing is connected:
# mapped ports need no connection.
case " $* " in
*" --help "*)
	# Podman looks for the options that it means to give.
	echo "--disable-host-loopback --mtu --enable-sandbox --enable-seccomp --cidr --outbound-addr --enable-ipv6"
	exit 0
	;;
*" --version "*)
	echo "slirp4netns of pinfold, which connects nothing"
	exit 0
	;;
*" --netns-type=path "*rootless-netns*) ;;
*)
	echo "pinfold: no tunnels in a sandbox: use --network host, or --network bridge, which has mapped ports and no way out" >&2
	exit 1
	;;
esac
printf 1 >&3
exec sleep infinity
