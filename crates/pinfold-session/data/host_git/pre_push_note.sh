#!/bin/sh
# Notes which references a push would move (githooks(5), "pre-push").
cat >/q/out/moves
