//! Ways for a repository to make the host's git run a command.

/// Names and shell lines that plant something in a repository. `$EVIL` is a command that leaves a mark
/// if the host runs it.
pub const PLANTS: &[(&str, &str)] = &[
    (
        "hooks",
        "for h in pre-push post-checkout reference-transaction post-index-change pre-auto-gc \
         fsmonitor-watchman push-to-checkout proc-receive post-update update pre-receive; do \
         mkdir -p .git/hooks; printf '#!/bin/sh\\n%s\\n' \"$EVIL\" >.git/hooks/$h; \
         chmod +x .git/hooks/$h; done",
    ),
    (
        "hooks elsewhere",
        "mkdir hk; printf '#!/bin/sh\\n%s\\n' \"$EVIL\" >hk/pre-push; chmod +x hk/pre-push; git config core.hooksPath \"$PWD/hk\"",
    ),
    ("fsmonitor", "git config core.fsmonitor \"$EVIL\""),
    (
        "filters",
        "git config filter.x.clean \"$EVIL\"; git config filter.x.smudge \"$EVIL\"; \
         git config filter.x.process \"$EVIL\"; git config diff.x.textconv \"$EVIL\"; \
         git config diff.x.command \"$EVIL\"; git config merge.x.driver \"$EVIL\"; \
         echo '* filter=x diff=x merge=x' >.gitattributes; mkdir -p .git/info; \
         cp .gitattributes .git/info/attributes",
    ),
    ("aliases", "for a in push fetch log status; do git config alias.$a \"!$EVIL\"; done"),
    (
        "programs",
        "for k in pager editor sshCommand gitProxy askPass alternateRefsCommand; do \
         git config core.$k \"$EVIL\"; done; git config sequence.editor \"$EVIL\"; \
         git config gpg.program \"$EVIL\"; git config gpg.ssh.program \"$EVIL\"; \
         git config log.showSignature true; git config push.gpgSign true; \
         git config diff.external \"$EVIL\"; git config uploadpack.packObjectsHook \"$EVIL\"; \
         git config pager.log \"$EVIL\"; git config trailer.x.command \"$EVIL\"",
    ),
    ("credential helpers", "git config credential.helper \"!$EVIL\""),
    (
        "includes",
        "printf '[core]\\nfsmonitor = \"%s\"\\npager = \"%s\"\\n' \"$EVIL\" \"$EVIL\" >inc; \
         git config include.path \"$PWD/inc\"; git config includeIf.gitdir:/.path \"$PWD/inc\"",
    ),
    (
        "submodules",
        "git init -q sub; git -C sub config user.name x; git -C sub config user.email x@y; \
         git -C sub commit -q --allow-empty -m x; git -C sub config core.fsmonitor \"$EVIL\"; \
         git -C sub config core.sshCommand \"$EVIL\"; \
         printf '[submodule \"sub\"]\\npath = sub\\nurl = ext::%s\\nupdate = !%s\\n' \"$EVIL\" \"$EVIL\" \
         >.gitmodules; git add sub .gitmodules; git commit -qm sub; \
         git config push.recurseSubmodules on-demand; git config submodule.recurse true; \
         git config fetch.recurseSubmodules true",
    ),
    (
        "remote programs",
        "git config remote.origin.uploadpack \"$EVIL\"; git config remote.origin.receivepack \"$EVIL\"; \
         git config remote.origin.vcs x; git config remote.origin.proxy \"$EVIL\"",
    ),
    (
        "transports",
        "git remote set-url origin \"ext::sh -c \\\"$EVIL\\\"\"; git config protocol.ext.allow always; git config protocol.allow always",
    ),
    ("worktree elsewhere", "git config core.worktree /etc; git config core.bare true"),
    (
        "a repository made since",
        "git init -q new; cd new; git config user.name x; git config user.email x; touch a; \
         git add a; git commit -qm a; for k in fsmonitor pager editor hooksPath; do \
         git config core.$k \"$EVIL\"; done; git config diff.external \"$EVIL\"; \
         pinfold-host moltnet </dev/null; pinfold-host git push origin main </dev/null; cd ..",
    ),
    (
        "a bare repository",
        "git init -q --bare bare; git -C bare config core.fsmonitor \"$EVIL\"; git -C bare config core.pager \"$EVIL\"",
    ),
    (
        "worktree configuration",
        "git config extensions.worktreeConfig true; printf '[core]\\nfsmonitor = \"%s\"\\n' \"$EVIL\" >.git/config.worktree",
    ),
];
