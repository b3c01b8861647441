//! What a value is that can lead to a process.

/// A value of Node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Loads the module that it is given the name of: `require`, `Module._load`,
    /// `process.getBuiltinModule`.
    Loads,
    /// `createRequire`: makes a `require`.
    MakesRequire,
    /// `process.binding`: gives what modules are made of.
    Binds,
    /// `eval`.
    Eval,
    /// `Function`: its last argument is code.
    MakesFunction,
    /// Takes code as its first argument: `vm.runInThisContext`, `Module.prototype._compile`.
    TakesCode,
    /// `process`.
    Process,
    /// `globalThis`.
    Global,
    /// A CommonJS module's `module`.
    Module,
    /// What `node:module` exports, and `Module` in it.
    Modules,
    /// What `node:vm` exports.
    Vm,
    /// What puts another module in the place of the one that is asked for.
    Redirects,
}

impl Kind {
    /// Returns what a module of this name exports.
    pub(super) fn of_module(specifier: &str) -> Option<Self> {
        match specifier.strip_prefix("node:").unwrap_or(specifier) {
            "module" => Some(Self::Modules),
            "process" => Some(Self::Process),
            "vm" => Some(Self::Vm),
            _ => None,
        }
    }

    /// Returns what a name is that the file does not declare.
    pub(super) fn of_global(name: &str) -> Option<Self> {
        match name {
            "require" | "__non_webpack_require__" => Some(Self::Loads),
            "process" => Some(Self::Process),
            "globalThis" | "global" => Some(Self::Global),
            "module" => Some(Self::Module),
            "eval" => Some(Self::Eval),
            "Function" => Some(Self::MakesFunction),
            _ => None,
        }
    }

    /// Returns what a member of this name is, whatever it is a member of: hardly anything else is called
    /// so.
    pub(super) fn of_any_member(name: &str) -> Option<Self> {
        match name {
            "getBuiltinModule" | "_load" => Some(Self::Loads),
            "createRequire" | "createRequireFromPath" => Some(Self::MakesRequire),
            "_linkedBinding" => Some(Self::Binds),
            "mainModule" => Some(Self::Module),
            "runInThisContext" | "runInNewContext" | "runInContext" | "compileFunction"
            | "_compile" => Some(Self::TakesCode),
            "require" => Some(Self::Loads),
            "registerHooks" | "_resolveFilename" | "_extensions" => Some(Self::Redirects),
            _ => None,
        }
    }

    /// Returns what a member of this name is.
    pub(super) fn member(self, name: &str) -> Option<Self> {
        let own = match (self, name) {
            (Self::Loads, "main") | (Self::Module, "parent") => Some(Self::Module),
            (Self::Process, "binding") => Some(Self::Binds),
            (Self::Process | Self::Vm, "default") => Some(self),
            (Self::Global, "process") => Some(Self::Process),
            (Self::Global, "globalThis" | "global") => Some(Self::Global),
            (Self::Global, "eval") => Some(Self::Eval),
            (Self::Global, "Function") => Some(Self::MakesFunction),
            (Self::Loads, "extensions") => Some(Self::Redirects),
            (Self::Module, "constructor") | (Self::Modules, "Module" | "default") => {
                Some(Self::Modules)
            }
            (Self::Modules, "prototype") => Some(Self::Module),
            (Self::Modules, "register") => Some(Self::Redirects),
            (Self::Vm, "Script" | "SourceTextModule") => Some(Self::TakesCode),
            _ => None,
        };
        own.or_else(|| Self::of_any_member(name))
    }

    /// Returns whether a holder of it can start a process by it, so that it must not be handed on.
    pub(super) fn is_held(self) -> bool {
        match self {
            Self::Loads | Self::MakesRequire | Self::Binds | Self::Eval | Self::TakesCode => true,
            // These are seen by the names of their members, wherever they come to. `Function` is
            // what much harmless code compares types with.
            Self::MakesFunction
            | Self::Process
            | Self::Global
            | Self::Module
            | Self::Modules
            | Self::Vm
            | Self::Redirects => false,
        }
    }

    /// Returns whether it is a function, and what it is given matters.
    pub(super) fn is_called(self) -> bool {
        self.is_held() || self == Self::MakesFunction
    }

    /// Returns whether a member whose name is not known could be one of those above. Of `globalThis` it
    /// could, and is not refused: to look for a name there is what every polyfill does.
    pub(super) fn hides_members(self) -> bool {
        matches!(self, Self::Loads | Self::Process | Self::Module | Self::Modules)
    }

    /// Returns how a user calls it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Loads => "require",
            Self::MakesRequire => "createRequire",
            Self::Binds => "process.binding",
            Self::Eval => "eval",
            Self::MakesFunction => "Function",
            Self::TakesCode => "what runs code",
            Self::Process => "process",
            Self::Global => "globalThis",
            Self::Module => "module",
            Self::Modules => "node:module",
            Self::Vm => "node:vm",
            Self::Redirects => "hooks of the loading of modules",
        }
    }
}
