#!/bin/sh
# Packs what a fetch has brought.
set -e
{ cat /q/out/wanted; sed 's/ .*//; s/^/^/' /q/out/refs; } |
git pack-objects -q --revs --thin --stdout >/q/out/pack
