//! The bytes behind an array of an XML file, taken from the front: as they are, or decoded from base64.
//!
//! Writers encode an array's header and its data as one run of base64 or as two, each with its padding; both are read.

use base64::{Engine, engine::general_purpose::STANDARD};
use std::borrow::Cow;

#[derive(Debug)]
pub enum Source<'a> {
    Raw(&'a [u8]),
    /// The text still to decode, and bytes decoded but not taken yet.
    Base64(&'a [u8], Vec<u8>),
}

impl<'a> Source<'a> {
    /// At most how many bytes are left; base64 may hold fewer.
    pub fn left(&self) -> usize {
        match self {
            Source::Raw(bytes) => bytes.len(),
            Source::Base64(text, decoded) => decoded.len() + text.len() / 4 * 3,
        }
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: usize) -> Result<Cow<'a, [u8]>, String> {
        let left = self.left();
        let short = || {
            format!("needs {length} more bytes of data, but at most {left} are there: it may be truncated")
        };
        if length > left {
            return Err(short());
        }
        match self {
            Source::Raw(bytes) => {
                let (taken, rest) = bytes.split_at_checked(length).ok_or_else(short)?;
                *bytes = rest;
                Ok(Cow::Borrowed(taken))
            }
            Source::Base64(text, decoded) => {
                while decoded.len() < length {
                    let run = next_run(text, (length - decoded.len()).div_ceil(3));
                    if run.is_empty() {
                        return Err(short());
                    }
                    STANDARD.decode_vec(&run, decoded).map_err(|error| format!("is not base64: {error}"))?;
                }
                let rest = decoded.split_off(length);
                Ok(Cow::Owned(std::mem::replace(decoded, rest)))
            }
        }
    }

    /// The next unsigned integer of `size_bytes`, 4 or 8.
    pub fn integer(
        &mut self,
        size_bytes: usize,
        order: super::super::number::ByteOrder,
    ) -> Result<usize, String> {
        use super::super::number::Number;
        let number = if size_bytes == 8 { Number::U64 } else { Number::U32 };
        let bytes = self.take(number.size_bytes())?;
        let value = number.indices(&bytes, order)?.first().copied().unwrap_or(0);
        usize::try_from(value).map_err(|_| format!("has {value} in its header: no file holds so much"))
    }
}

/// Cuts up to `groups` groups of four characters off `text`, ending early after a padded one.
fn next_run(text: &mut &[u8], groups: usize) -> Vec<u8> {
    let mut run = Vec::with_capacity(groups.saturating_mul(4).min(text.len()));
    let mut used = 0;
    for &character in text.iter() {
        if run.len() % 4 == 0 && (run.len() / 4 == groups || run.last() == Some(&b'=')) {
            break;
        }
        used += 1;
        if !character.is_ascii_whitespace() {
            run.push(character);
        }
    }
    *text = text.get(used..).unwrap_or_default();
    run
}
