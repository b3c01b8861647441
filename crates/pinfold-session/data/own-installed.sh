#!/bin/sh
# Called by apt before dpkg unpacks, with the names of the archives on standard input (apt.conf(5),
# DPkg::Pre-Install-Pkgs). Of a package that is installed already dpkg links every file to a second
# name, and then writes the new one. The files of this machine's own system belong to nobody inside,
# so the kernel would refuse that: each is replaced by a copy of one's own first. A file of which
# another package has the name lies where dpkg-divert(1) has put it, which a line of its own says.
while read -r archive; do
    name=$(dpkg-deb --field "$archive" Package)
    architecture=$(dpkg-deb --field "$archive" Architecture)
    for installed in "$name" "$name:$architecture"; do
        dpkg-query --listfiles "$installed" 2>/dev/null
    done
done | sed 's/^.*diverted .*to: //' | sort -u | while read -r file; do
    if [ -f "$file" ] && ! [ -h "$file" ] && ! [ -O "$file" ]; then
        cp --preserve=mode,timestamps -- "$file" "$file.pinfold-own" &&
            mv -f -- "$file.pinfold-own" "$file" || exit 1
    fi
done
