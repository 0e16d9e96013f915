//! A place in a legacy file, moved forward by words, lines and raw bytes; it makes the faults that name that place.

use super::super::{Fault, Place, number::shortened};

/// How the file holds its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Ascii,
    Binary,
}

#[derive(Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the last word, line or run of raw bytes started.
    before: usize,
    /// Bytes of the file in front of `bytes`.
    skipped: usize,
    pub format: Format,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], skipped: usize) -> Cursor<'a> {
        Cursor { bytes, at: 0, before: 0, skipped, format: Format::Ascii }
    }

    /// The next word without moving, if there is any left.
    pub fn peek(&self) -> Option<&'a str> {
        let (start, end) = self.next_span()?;
        // What is not text is no keyword; numbers are never that.
        Some(std::str::from_utf8(self.bytes.get(start..end)?).unwrap_or("\u{fffd}"))
    }

    /// The next word; `wanted` says what for, should the file end.
    pub fn word(&mut self, wanted: &str) -> Result<&'a str, Fault> {
        let Some((start, end)) = self.next_span() else {
            self.before = self.bytes.len();
            return Err(
                self.fault_before(format!("the file ends where {wanted} was expected: it may be truncated"))
            );
        };
        (self.before, self.at) = (start, end);
        std::str::from_utf8(self.bytes.get(start..end).unwrap_or_default())
            .map_err(|_| self.fault_before(format!("is not text, where {wanted} was expected")))
    }

    /// Moves over the word `keyword`, in any case.
    pub fn expect(&mut self, keyword: &str) -> Result<(), Fault> {
        let word = self.word(keyword)?;
        if word.eq_ignore_ascii_case(keyword) {
            return Ok(());
        }
        let found = shortened(word);
        Err(self.fault_before(format!("has \"{found}\", where {keyword} was expected")))
    }

    /// Moves over `keyword` if it is the next word.
    pub fn accept(&mut self, keyword: &str) -> bool {
        let accepted = self.peek().is_some_and(|word| word.eq_ignore_ascii_case(keyword));
        if accepted && let Some((start, end)) = self.next_span() {
            (self.before, self.at) = (start, end);
        }
        accepted
    }

    /// The next word as a count.
    pub fn count(&mut self, wanted: &str) -> Result<usize, Fault> {
        let word = self.word(wanted)?;
        word.parse().map_err(|_| {
            let found = shortened(word);
            self.fault_before(format!("has \"{found}\", where {wanted} was expected"))
        })
    }

    /// The rest of this line, without its end; moves to the start of the next.
    pub fn line(&mut self) -> String {
        self.before = self.at;
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        self.at = (self.at + length + 1).min(self.bytes.len());
        String::from_utf8_lossy(rest.get(..length).unwrap_or_default()).trim().to_owned()
    }

    /// The next `length` bytes, `wanted` for what.
    pub fn raw(&mut self, length: usize, wanted: &str) -> Result<&'a [u8], Fault> {
        self.before = self.at;
        let left = self.left();
        match self.at.checked_add(length).and_then(|end| self.bytes.get(self.at..end)) {
            Some(bytes) => {
                self.at += length;
                Ok(bytes)
            }
            None => Err(self.fault_before(format!(
                "{wanted} needs {length} bytes, but the file ends after {left} more: it may be truncated"
            ))),
        }
    }

    /// Whether anything but white space is left on this line.
    pub fn line_has_word(&self) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        rest.iter().take_while(|&&byte| byte != b'\n').any(|byte| !byte.is_ascii_whitespace())
    }

    /// Bytes from here to the end of the file.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// A fault at the word, line or bytes moved over last.
    pub fn fault_before(&self, problem: impl Into<String>) -> Fault {
        let place = match self.format {
            Format::Ascii => {
                let text = self.bytes.get(..self.before).unwrap_or_default();
                Place::Line(1 + text.iter().filter(|&&byte| byte == b'\n').count())
            }
            Format::Binary => Place::Byte(self.skipped + self.before),
        };
        Fault::at(place, problem)
    }

    fn next_span(&self) -> Option<(usize, usize)> {
        let rest = self.bytes.get(self.at..)?;
        let start = self.at + rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let rest = self.bytes.get(start..)?;
        let length = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        Some((start, start + length))
    }
}
