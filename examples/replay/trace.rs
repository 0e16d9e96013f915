//! Recorded launches of a program: one JSON object a line, plain or gzip.
//!
//! ```text
//! {"op":"alloc","buf":id,"bytes":n}     with "init":"host" when its content comes from the host
//! {"op":"launch","name":s,"reads":[ids],"writes":[ids],"cost_us":t}
//! {"op":"host_read","buf":id}
//! {"op":"free","buf":id}
//! ```

use flate2::read::GzDecoder;
use serde::Deserialize;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

/// A buffer's name in a trace.
pub type Id = u64;

/// One thing that the program did.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Event {
    /// A new buffer.
    Alloc {
        buf: Id,
        bytes: u64,
        #[serde(default)]
        init: Option<Init>,
    },
    /// A kernel. What it writes and does not read, it overwrites whole.
    Launch { name: String, reads: Vec<Id>, writes: Vec<Id>, cost_us: f64 },
    /// The host reads all of a buffer.
    HostRead { buf: Id },
    /// The last handle of a buffer is dropped.
    Free { buf: Id },
}

/// Where a new buffer's content comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Init {
    /// The host writes it.
    Host,
}

/// What a program did, in its order.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The file's name, without its endings.
    pub name: String,
    /// What was done.
    pub events: Vec<Event>,
}

impl Trace {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The system's, or `InvalidData` naming the line that is not as it should be.
    pub fn open(path: &Path) -> io::Result<Trace> {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = file_name.split('.').next().unwrap_or_default().to_owned();
        let file = File::open(path)?;
        let reader: Box<dyn Read> =
            if file_name.ends_with(".gz") { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
        Trace::read(name, BufReader::new(reader))
    }

    /// Reads what a file holds.
    ///
    /// # Errors
    ///
    /// As [`open`](Trace::open).
    pub fn read(name: String, lines: impl BufRead) -> io::Result<Trace> {
        let events = lines.lines().enumerate().map(|(index, line)| {
            serde_json::from_str(&line?).map_err(|error| {
                let what = format!("{name}, line {}: {error}", index + 1);
                io::Error::new(io::ErrorKind::InvalidData, what)
            })
        });
        let events = events.collect::<io::Result<_>>()?;
        Ok(Trace { name, events })
    }

    /// The same with every size divided, rounded up to whole words of four bytes.
    #[must_use]
    pub fn scaled(self, divisor: u64) -> Trace {
        self.resized(|bytes| bytes.div_ceil(divisor))
    }

    /// The same with every size changed, rounded up to whole words of four bytes.
    #[must_use]
    pub fn resized(mut self, size: impl Fn(u64) -> u64) -> Trace {
        for event in &mut self.events {
            if let Event::Alloc { bytes, .. } = event {
                *bytes = size(*bytes).next_multiple_of(4);
            }
        }
        self
    }
}
