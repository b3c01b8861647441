#!/bin/sh
# Lists what the references of the sandbox's repository name. Its configuration is live here, and nothing
# else is: the output is taken as data.
set -e
git for-each-ref --format='%(objectname) %(refname)' >/q/out/refs
git rev-parse -q --verify HEAD^0 >/q/out/head || :
shallow=$(git rev-parse --git-path shallow) && if [ -f "$shallow" ]; then cat "$shallow"; fi >/q/out/shallow
