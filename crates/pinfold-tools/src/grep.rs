//! Finding lines of files.
//!
//! One thread walks in the order of names, several search, and what they find is put in that order
//! again: the same question has the same answer, also where a limit cuts it short.

mod lines;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use crate::error::ToolError;
use crate::list::start;
use crate::operation::{EntryKind, Grep, GrepDone, GrepLine};
use crate::roots::Roots;
use crate::walk::{Cancel, Entries, check_pattern, globs, pattern_error, walk};

use lines::Search;

/// Matching lines, or files, that are told unless another number is asked for.
const MATCHES: u64 = 1_000;
/// Bytes of lines in one answer.
const BYTES: usize = 8 << 20;
/// Files that one thread searches in one go, at most.
const FILES: usize = 64;
/// How many such goes the search may be ahead of the first that is not done: it bounds what waits.
const AHEAD: u64 = 8;
/// Bytes of what is built of a pattern, and of what that keeps while it searches, for each thread.
const COMPILED: usize = 32 << 20;
/// Threads that search.
const SEARCHERS: usize = 8;

/// Finds lines of files.
///
/// # Errors
/// A pattern that cannot be read, a place that is neither a file nor a directory.
pub(crate) fn grep(roots: &Roots, grep: &Grep, cancel: &Cancel) -> Result<GrepDone, ToolError> {
    check_pattern(&grep.pattern)?;
    let matcher = matcher(grep)?;
    let (root, kind) = start(roots, &grep.path)?;
    let mut found = Found::new(grep.limit.unwrap_or(MATCHES));
    if kind == EntryKind::File {
        let name = root.file_name().map(PathBuf::from).unwrap_or_default();
        let part = Search::new(grep, &matcher, &root, cancel).file(&root, &name);
        found.add(part);
    } else {
        let globs = globs(&root, &grep.globs)?;
        let files = walk(&root, grep.ignored, globs);
        directory(&root, files, (grep, &matcher), cancel, &mut found)?;
    }
    cancel.check()?;
    Ok(found.done)
}

fn matcher(grep: &Grep) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .case_insensitive(grep.ignore_case)
        .fixed_strings(grep.literal)
        .size_limit(COMPILED)
        .dfa_size_limit(COMPILED)
        .word(grep.word);
    if !grep.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    let built = builder.build(&grep.pattern);
    built.map_err(|error| pattern_error(&error))
}

/// What a file gave.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) lines: Vec<GrepLine>,
    /// Matching lines, or files.
    pub(crate) matches: u64,
    pub(crate) bytes: usize,
    /// Whether there is more in it.
    pub(crate) truncated: bool,
    /// Whether it has a line that is too long to be searched.
    pub(crate) is_too_long: bool,
}

/// What was found so far.
struct Found {
    done: GrepDone,
    bytes: usize,
    limit: u64,
}

impl Found {
    fn new(limit: u64) -> Self {
        let done = GrepDone { lines: Vec::new(), matches: 0, truncated: false };
        Self { done, bytes: 0, limit }
    }

    /// Takes what the next file gave; false when there is enough.
    fn add(&mut self, part: Part) -> bool {
        self.done.truncated |= part.is_too_long;
        let has_room = self.done.matches < self.limit && self.bytes < BYTES;
        if part.matches == 0 {
            return true;
        }
        if !has_room {
            self.done.truncated = true;
            return false;
        }
        let room = self.limit - self.done.matches;
        let is_full = part.truncated || part.matches > room;
        self.done.truncated |= is_full;
        self.bytes += part.bytes;
        let (lines, matches) = lines::first(part, room);
        self.done.matches += matches;
        self.done.lines.extend(lines);
        !is_full
    }
}

/// How far the answer has come.
struct Progress {
    next: Mutex<u64>,
    moved: Condvar,
}

impl Progress {
    fn wait_for(&self, index: u64) {
        let is_far = |next: &mut u64| index >= next.saturating_add(AHEAD);
        drop(self.moved.wait_while(lock(&self.next), is_far));
    }

    fn is_over(&self) -> bool {
        *lock(&self.next) == u64::MAX
    }

    fn set(&self, next: u64) {
        *lock(&self.next) = next;
        self.moved.notify_all();
    }
}

/// Files that are searched by one thread in one go. Handing over each by itself would wake a thread for each.
type Batch = (u64, Vec<PathBuf>);

fn directory(
    root: &Path,
    files: Entries,
    (grep, matcher): (&Grep, &RegexMatcher),
    cancel: &Cancel,
    found: &mut Found,
) -> Result<(), ToolError> {
    let searchers = thread::available_parallelism().map_or(1, usize::from).min(SEARCHERS);
    let (give, take) = sync_channel::<Batch>(AHEAD as usize);
    let (tell, told) = sync_channel::<(u64, Vec<Part>)>(AHEAD as usize);
    let take = Mutex::new(take);
    let progress = Progress { next: Mutex::new(0), moved: Condvar::new() };
    thread::scope(|scope| {
        for _ in 0..searchers {
            let (tell, take, progress) = (tell.clone(), &take, &progress);
            let mut search = Search::new(grep, matcher, root, cancel);
            scope.spawn(move || search_all(root, take, &tell, progress, &mut search));
        }
        drop(tell);
        let progress = &progress;
        let given = scope.spawn(move || give_all(files, &give, progress, cancel));
        collect(told, progress, cancel, found);
        // Whoever still waits for its turn has none any more.
        progress.set(u64::MAX);
        // And what was still to be searched is not.
        while lock(&take).recv().is_ok() {}
        given.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn give_all(
    files: Entries,
    give: &SyncSender<Batch>,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<(), ToolError> {
    let (mut index, mut size, mut batch) = (0, 1, Vec::new());
    for entry in files {
        if cancel.is_cancelled() || progress.is_over() {
            return Ok(());
        }
        let entry = entry?;
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        batch.push(entry.into_path());
        if batch.len() == size {
            if give.send((index, std::mem::take(&mut batch))).is_err() {
                return Ok(());
            }
            (index, size) = (index + 1, (size * 2).min(FILES));
        }
    }
    if !batch.is_empty() {
        // Whoever has enough takes none.
        let _ = give.send((index, batch));
    }
    Ok(())
}

fn search_all(
    root: &Path,
    take: &Mutex<Receiver<Batch>>,
    tell: &SyncSender<(u64, Vec<Part>)>,
    progress: &Progress,
    search: &mut Search<'_>,
) {
    loop {
        let next = lock(take).recv();
        let Ok((index, batch)) = next else { return };
        progress.wait_for(index);
        let file = |path: &PathBuf| search.file(path, path.strip_prefix(root).unwrap_or(path));
        let says_something = |part: &Part| part.matches > 0 || part.is_too_long;
        let parts = batch.iter().map(file).filter(says_something).collect();
        if tell.send((index, parts)).is_err() {
            return;
        }
    }
}

/// Puts what is found in order, until there is enough.
fn collect(
    told: Receiver<(u64, Vec<Part>)>,
    progress: &Progress,
    cancel: &Cancel,
    found: &mut Found,
) {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    for (index, parts) in told {
        waiting.insert(index, parts);
        let before = next;
        while let Some(parts) = waiting.remove(&next) {
            next += 1;
            if cancel.is_cancelled() || !parts.into_iter().all(|part| found.add(part)) {
                return;
            }
        }
        if next != before {
            progress.set(next);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
