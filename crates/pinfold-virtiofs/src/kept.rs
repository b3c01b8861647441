//! What a guest may keep of files from one use to the next.
//!
//! By default it forgets the content of a file when that is opened again. Of what lies on a read-only mount it keeps
//! content and lists of names until size or time of change differ, for which it still asks once a second: that is what
//! `FUSE_AUTO_INVAL_DATA` has its kernel do. A change in place that alters neither is seen only after the next one that
//! does. Writable files are left alone, since their time of change has the grain of the host's clock ticks.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use virtiofsd::filesystem::{
    Context, Entry, Extensions, FileSystem, FsOptions, GetxattrReply, ListxattrReply, OpenOptions,
    SerializableFileSystem, SetattrValid, SetxattrFlags, ZeroCopyReader, ZeroCopyWriter,
};
use virtiofsd::fuse::{Attr, SetattrIn};
use virtiofsd::passthrough::PassthroughFs;

type Inode = <PassthroughFs as FileSystem>::Inode;
type Handle = <PassthroughFs as FileSystem>::Handle;

/// A file system whose read-only parts are kept in the guest.
pub(crate) struct KeptContent(PassthroughFs);

impl KeptContent {
    pub(crate) fn of(files: PassthroughFs) -> Self {
        Self(files)
    }

    fn is_read_only(&self, ctx: Context, inode: Inode) -> bool {
        self.0.statfs(ctx, inode).is_ok_and(|about| about.f_flag & libc::ST_RDONLY != 0)
    }
}

/// Passes calls on as they are.
macro_rules! pass_on {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, ctx: Context, $($argument: $kind),*) -> $result {
            self.0.$name(ctx, $($argument),*)
        })*
    };
}

impl FileSystem for KeptContent {
    type Inode = Inode;
    type Handle = Handle;
    type DirIter = <PassthroughFs as FileSystem>::DirIter;

    fn init(&self, capable: FsOptions) -> io::Result<FsOptions> {
        self.0.init(capable)
    }

    fn destroy(&self) {
        self.0.destroy();
    }

    fn open(
        &self,
        ctx: Context,
        inode: Inode,
        kill_priv: bool,
        flags: u32,
    ) -> io::Result<(Option<Handle>, OpenOptions)> {
        let (handle, mut options) = self.0.open(ctx, inode, kill_priv, flags)?;
        if self.is_read_only(ctx, inode) {
            options |= OpenOptions::KEEP_CACHE;
        }
        Ok((handle, options))
    }

    fn opendir(
        &self,
        ctx: Context,
        inode: Inode,
        flags: u32,
    ) -> io::Result<(Option<Handle>, OpenOptions)> {
        let (handle, mut options) = self.0.opendir(ctx, inode, flags)?;
        if self.is_read_only(ctx, inode) {
            options |= OpenOptions::KEEP_CACHE | OpenOptions::CACHE_DIR;
        }
        Ok((handle, options))
    }

    fn read<W: ZeroCopyWriter>(
        &self,
        ctx: Context,
        inode: Inode,
        handle: Handle,
        w: W,
        size: u32,
        offset: u64,
        lock_owner: Option<u64>,
        flags: u32,
    ) -> io::Result<usize> {
        self.0.read(ctx, inode, handle, w, size, offset, lock_owner, flags)
    }

    fn write<R: ZeroCopyReader>(
        &self,
        ctx: Context,
        inode: Inode,
        handle: Handle,
        r: R,
        size: u32,
        offset: u64,
        lock_owner: Option<u64>,
        delayed_write: bool,
        kill_priv: bool,
        flags: u32,
    ) -> io::Result<usize> {
        let (owner, delayed) = (lock_owner, delayed_write);
        self.0.write(ctx, inode, handle, r, size, offset, owner, delayed, kill_priv, flags)
    }

    pass_on! {
        lookup(parent: Inode, name: &CStr) -> io::Result<Entry>;
        forget(inode: Inode, count: u64) -> ();
        batch_forget(requests: Vec<(Inode, u64)>) -> ();
        getattr(inode: Inode, handle: Option<Handle>) -> io::Result<(Attr, Duration)>;
        setattr(inode: Inode, attr: SetattrIn, handle: Option<Handle>, valid: SetattrValid) -> io::Result<(Attr, Duration)>;
        readlink(inode: Inode) -> io::Result<Vec<u8>>;
        symlink(target: &CStr, parent: Inode, name: &CStr, extensions: Extensions) -> io::Result<Entry>;
        mknod(parent: Inode, name: &CStr, mode: u32, rdev: u32, umask: u32, extensions: Extensions) -> io::Result<Entry>;
        mkdir(parent: Inode, name: &CStr, mode: u32, umask: u32, extensions: Extensions) -> io::Result<Entry>;
        unlink(parent: Inode, name: &CStr) -> io::Result<()>;
        rmdir(parent: Inode, name: &CStr) -> io::Result<()>;
        rename(from: Inode, old: &CStr, to: Inode, new: &CStr, flags: u32) -> io::Result<()>;
        link(inode: Inode, parent: Inode, name: &CStr) -> io::Result<Entry>;
        create(parent: Inode, name: &CStr, mode: u32, kill_priv: bool, flags: u32, umask: u32, extensions: Extensions) -> io::Result<(Entry, Option<Handle>, OpenOptions)>;
        flush(inode: Inode, handle: Handle, lock_owner: u64) -> io::Result<()>;
        fsync(inode: Inode, datasync: bool, handle: Handle) -> io::Result<()>;
        fallocate(inode: Inode, handle: Handle, mode: u32, offset: u64, length: u64) -> io::Result<()>;
        release(inode: Inode, flags: u32, handle: Handle, flush: bool, flock: bool, lock_owner: Option<u64>) -> io::Result<()>;
        statfs(inode: Inode) -> io::Result<libc::statvfs64>;
        setxattr(inode: Inode, name: &CStr, value: &[u8], flags: u32, extra: SetxattrFlags) -> io::Result<()>;
        getxattr(inode: Inode, name: &CStr, size: u32) -> io::Result<GetxattrReply>;
        listxattr(inode: Inode, size: u32) -> io::Result<ListxattrReply>;
        removexattr(inode: Inode, name: &CStr) -> io::Result<()>;
        readdir(inode: Inode, handle: Handle, size: u32, offset: u64) -> io::Result<Self::DirIter>;
        fsyncdir(inode: Inode, datasync: bool, handle: Handle) -> io::Result<()>;
        releasedir(inode: Inode, flags: u32, handle: Handle) -> io::Result<()>;
        access(inode: Inode, mask: u32) -> io::Result<()>;
        lseek(inode: Inode, handle: Handle, offset: u64, whence: u32) -> io::Result<u64>;
        copyfilerange(from: Inode, handle: Handle, at: u64, to: Inode, target: Handle, target_at: u64, length: u64, flags: u64) -> io::Result<usize>;
        syncfs(inode: Inode) -> io::Result<()>;
    }
}

impl SerializableFileSystem for KeptContent {
    fn prepare_serialization(&self, cancel: Arc<AtomicBool>) {
        self.0.prepare_serialization(cancel);
    }

    fn serialize(&self, state: File) -> io::Result<()> {
        self.0.serialize(state)
    }

    fn deserialize_and_apply(&self, state: File) -> io::Result<()> {
        self.0.deserialize_and_apply(state)
    }
}
