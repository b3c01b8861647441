//! A diary of 100000 entries: adding one, and searching in all of them.

use std::time::{Duration, Instant};

use pinfold_content::SystemClock;
use pinfold_memory::{Diary, Filter, KnownSecrets, NewEntry, Search};

use super::queue::percentiles;
use super::start::base;
use super::{Effort, Outcome};

/// Words that entries are made of. A few are in most entries, most of them in few, as in texts that people write.
const WORDS: u64 = 20_000;
const WORDS_OF_AN_ENTRY: usize = 60;
const SEARCHES: usize = 1_000;
/// Entries that are added one by one, in the end.
const ADDED: usize = 1_000;

pub(super) fn run(effort: Effort) -> Outcome {
    let entries = if effort.starts < 20 { 2_000 } else { 100_000 };
    let directory = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
    let diary = Diary::open_file(&directory.path().join("diary.db"), None, Box::new(SystemClock))?;
    let (none, mut words) = (KnownSecrets::default(), Words(7));
    let mut next = |number: usize| {
        let tags = vec![format!("scope:{}", number % 50), format!("task:{number}")];
        NewEntry { tags, ..NewEntry::new(words.text(WORDS_OF_AN_ENTRY)) }
    };
    let old: Vec<NewEntry> = (0..entries - ADDED).map(&mut next).collect();
    diary.import(&old, &none).map_err(|(_, error)| error)?;
    let plain = rusqlite::Connection::open(directory.path().join("plain.db"))?;
    plain.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full; CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")?;
    let (mut times, mut bare) = (Vec::new(), Vec::new());
    // In turns, so that both see the same disk.
    for number in entries - ADDED..entries {
        let new = next(number);
        let begun = Instant::now();
        diary.create(&new, &none)?;
        times.push(begun.elapsed());
        let begun = Instant::now();
        plain.execute("INSERT INTO t (text) VALUES (?1)", [&new.content])?;
        bare.push(begun.elapsed());
    }
    println!("\n  a diary of {entries} entries of {WORDS_OF_AN_ENTRY} words");
    println!("  adding an entry: {}", percentiles(&mut times));
    println!("  a plain transaction of SQLite with the same text: {}", percentiles(&mut bare));
    // The disk decides how long each takes, so the promise is about both (`percentiles` has sorted them).
    let ratio = times[ADDED / 2].as_secs_f64() / bare[ADDED / 2].as_secs_f64();
    println!("  the one to the other, by medians: {ratio:.2}");
    let mut words = Words(11);
    for (name, count) in [("one word", 1), ("two words", 2), ("three words", 3)] {
        let mut times = measure(&diary, || Search { query: Some(words.text(count)), ..search() })?;
        println!("  a search for {name}: {}", percentiles(&mut times));
    }
    let mut number = 0;
    let mut times = measure(&diary, || {
        number += 1;
        let tags = vec![format!("scope:{}", number % 50)];
        let filter = Filter { tags, exclude_superseded: true, ..Filter::default() };
        Search { query: Some(words.text(1)), filter, ..search() }
    })?;
    println!("  a search for one word with a tag: {}", percentiles(&mut times));
    let mut times = measure(&diary, || Search { query: Some("w0".to_owned()), ..search() })?;
    println!("  a search for the word that most entries have: {}", percentiles(&mut times));
    Ok(())
}

fn search() -> Search {
    Search { limit: 10, ..Search::default() }
}

fn measure(
    diary: &Diary,
    mut next: impl FnMut() -> Search,
) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let mut times = Vec::with_capacity(SEARCHES);
    for _ in 0..SEARCHES {
        let search = next();
        let begun = Instant::now();
        diary.search(&search)?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

/// Words by a seed, the first ones far more often than the last ones (Zipf).
struct Words(u64);

impl Words {
    fn text(&mut self, count: usize) -> String {
        let words: Vec<String> = (0..count).map(|_| self.word()).collect();
        words.join(" ")
    }

    fn word(&mut self) -> String {
        // xorshift64 (Marsaglia 2003).
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let part = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        let rank = (WORDS as f64).powf(part) - 1.0;
        format!("w{}", rank as u64)
    }
}
