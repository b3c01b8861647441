//! Settings of one value, each declared once: its type, its default, its key in the user's file, and its flag. The table of
//! keys, the reader, the merge of flags over the file, and the rows of `pinfold config --origins` follow from that.

use std::fmt::Display;

use super::branch::BranchName;
use super::fields::path;
use super::keys::ID_PATTERN;
use super::words::{
    AcceleratorName, ApplyMode, BoundaryName, EngineName, IdentityMode, LandlockMode, MemoryGrant,
    WorkspaceMode,
};
use crate::document::{FileError, Item, Key, Section, Shape};
use crate::origin::{Origin, Valued};
use crate::path::HostPath;

/// A type that a setting of one value may have.
trait Scalar: Sized {
    /// Reads the value. `home` is what `~/` stands for.
    fn read(item: &Item<'_>, home: Option<&HostPath>) -> Result<Self, FileError>;
}

impl Scalar for bool {
    fn read(item: &Item<'_>, _: Option<&HostPath>) -> Result<Self, FileError> {
        item.flag()
    }
}

impl Scalar for String {
    fn read(item: &Item<'_>, _: Option<&HostPath>) -> Result<Self, FileError> {
        match item.text()? {
            "" => Err(item.invalid("expected text that is not empty")),
            text => Ok(text.to_owned()),
        }
    }
}

impl Scalar for HostPath {
    fn read(item: &Item<'_>, home: Option<&HostPath>) -> Result<Self, FileError> {
        path(item, home)
    }
}

macro_rules! words {
    ($($word:ident)+) => {
        $(impl Scalar for $word {
            fn read(item: &Item<'_>, _: Option<&HostPath>) -> Result<Self, FileError> {
                item.parsed()
            }
        })+
    };
}

words!(AcceleratorName ApplyMode BoundaryName EngineName IdentityMode LandlockMode MemoryGrant WorkspaceMode);

/// A setting that may have no value.
trait Row {
    /// Returns its value and who gave it.
    fn row(&self) -> Option<(String, &Origin)>;
}

impl<T: Display> Row for Valued<T> {
    fn row(&self) -> Option<(String, &Origin)> {
        Some((self.value.to_string(), &self.origin))
    }
}

impl<T: Display> Row for Option<Valued<T>> {
    fn row(&self) -> Option<(String, &Origin)> {
        self.as_ref().and_then(Row::row)
    }
}

/// Declares settings, each as `NAME: TYPE [= DEFAULT], [key(SHAPE, "WHAT IT SAYS"),] [flag("--FLAG")];`. The name is the key in
/// the user's file. A setting without a default may be absent.
macro_rules! scalars {
    (@merged $type:ty) => { Option<Valued<$type>> };
    (@merged $type:ty, $default:expr) => { Valued<$type> };
    (
        $(
            $(#[$doc:meta])*
            $name:ident: $type:ty $(= $default:expr)?
                $(, key($shape:expr, $says:expr))? $(, flag($flag:literal))?;
        )+
    ) => {
        /// The settings of one value, each with its origin.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Scalars {
            $($(#[$doc])* pub $name: scalars!(@merged $type $(, $default)?),)+
        }

        /// Those of the command line. What is absent was not given.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct FlagScalars {
            $($(#[doc = concat!("`", $flag, "`.")] pub $name: Option<$type>,)?)+
        }

        /// Those of the user's file.
        #[derive(Debug, Default)]
        pub(super) struct FileScalars {
            $($name: Option<Valued<$type>>,)+
        }

        /// The keys of those that the user's file may have.
        pub(super) const KEYS: &[Key] = &[
            $($(Key::new(stringify!($name), $shape, $says),)?)+
        ];

        impl FileScalars {
            pub(super) fn read(
                section: &Section<'_>,
                home: Option<&HostPath>,
            ) -> Result<Self, FileError> {
                let mut file = Self::default();
                $($(
                    let key = Key::new(stringify!($name), $shape, $says);
                    file.$name = scalar(section, &key, home)?;
                )?)+
                Ok(file)
            }
        }

        impl Scalars {
            /// Merges the flags over the user's file over the defaults.
            pub(super) fn merged(flags: FlagScalars, file: FileScalars) -> Self {
                Self {
                    $($name: None
                        $(.or(flag($flag, flags.$name)))?
                        .or(file.$name)
                        $(.unwrap_or(Valued::default_of($default)))?,)+
                }
            }

            /// Returns those that have a value: the key, the value and its origin.
            pub(super) fn rows(&self) -> Vec<(&'static str, String, &Origin)> {
                let all = [$((stringify!($name), self.$name.row()),)+];
                let with_value = all.into_iter().filter_map(|(key, row)| {
                    row.map(|(value, origin)| (key, value, origin))
                });
                with_value.collect()
            }
        }
    };
}

scalars! {
    /// Where it runs; the first usable one if absent.
    boundary: BoundaryName,
        key(Shape::Choice(BoundaryName::WORDS), "Where sessions run."),
        flag("--boundary");
    /// What runs it if it is a container; the first that is installed if absent.
    engine: EngineName,
        key(Shape::Choice(EngineName::WORDS), "What runs the boundary `container`."),
        flag("--engine");
    /// The program that makes the boundary `external`.
    plugin: HostPath,
        key(Shape::Text, "The program that makes the boundary `external`.");
    /// Where packages of QEMU were unpacked; the system's own if absent.
    qemu: HostPath,
        key(Shape::Text, "A directory with packages of QEMU, for the boundary `vm`.");
    /// Where a package of a kernel was unpacked; the one of the cache or of this machine if absent.
    kernel: HostPath,
        key(Shape::Text, "A directory with a package of Linux, for the boundary `vm`.");
    /// What executes a machine's instructions; what works if absent.
    accelerator: AcceleratorName,
        key(
            Shape::Choice(AcceleratorName::WORDS),
            "What executes the instructions of the boundary `vm`: KVM where it works (auto), KVM alone, or QEMU's translator (tcg)."
        );
    agent: String,
        key(Shape::Pattern(ID_PATTERN), "The agent when none is named."),
        flag("AGENT");
    model: String,
        key(Shape::Text, "The model; --model wins."),
        flag("--model");
    provider: String,
        key(Shape::Pattern(ID_PATTERN), "The provider; --provider wins."),
        flag("--provider");
    /// Whether Landlock may be missing.
    landlock: LandlockMode = LandlockMode::BestEffort,
        key(Shape::Choice(LandlockMode::WORDS), "When the kernel lacks Landlock."),
        flag("--landlock");
    /// Whether a wall that is missing is let pass.
    allow_weaker: bool = false, flag("--allow-weaker");
    /// Whether programs may make user namespaces of their own.
    nested: bool = false,
        key(Shape::Flag, "Whether programs may make sandboxes of their own."),
        flag("--nested");
    /// How the workspace enters.
    workspace_mode: WorkspaceMode = WorkspaceMode::SharedMount,
        key(Shape::Choice(WorkspaceMode::WORDS), "How the workspace enters."),
        flag("--workspace");
    /// What becomes of a view's changes at the end.
    apply: ApplyMode = ApplyMode::Never,
        key(
            Shape::Choice(ApplyMode::WORDS),
            "What becomes of a view's changes when the session ends."
        ),
        flag("--apply");
    /// Whether ignored files are applied, too, when changes are applied at the end.
    apply_ignored: bool = false,
        key(Shape::Flag, "Whether ignored files are applied, too."),
        flag("--apply-ignored");
    /// The branch of a dedicated worktree.
    worktree_branch: BranchName, flag("--worktree-branch");
    /// Whose name the sandbox works in.
    identity: String, flag("--identity");
    /// How that identity's secrets are used.
    identity_mode: IdentityMode = IdentityMode::Brokered,
        key(
            Shape::Choice(IdentityMode::WORDS),
            "Whether an identity's secrets stay outside (brokered) or enter (inject)."
        ),
        flag("--identity-mode");
    /// What tools may do with that identity's diary.
    memory: MemoryGrant = MemoryGrant::None,
        key(
            Shape::Choice(MemoryGrant::WORDS),
            "What agents' tools may do with the identity's diary."
        ),
        flag("--memory-grant");
    /// The group whose budget counts.
    group: String,
        key(Shape::Pattern(ID_PATTERN), "The group of sessions; --group wins."),
        flag("--group");
}

/// Returns a value of the command line with its origin.
pub(super) fn flag<T>(name: &'static str, value: Option<T>) -> Option<Valued<T>> {
    value.map(|value| Valued::new(value, Origin::Flag { name }))
}

fn scalar<T: Scalar>(
    section: &Section<'_>,
    key: &Key,
    home: Option<&HostPath>,
) -> Result<Option<Valued<T>>, FileError> {
    section.read(key.name, |item| Ok(Valued::new(T::read(item, home)?, Origin::User(item.place()))))
}
