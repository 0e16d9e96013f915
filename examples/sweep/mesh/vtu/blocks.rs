//! The framing of binary data in XML files: a header of sizes, then blocks that may be compressed.
//!
//! A header's sizes are held against what the array must have and what is left of the file before anything is made
//! room for.

use super::{super::number::ByteOrder, source::Source};
use std::io::Read;

/// How blocks are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compressor {
    None,
    Zlib,
    Lz4,
}

/// How the file frames its binary data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    pub order: ByteOrder,
    /// Bytes of each number in a header: 4 or 8.
    pub header_bytes: usize,
    pub compressor: Compressor,
}

/// More than this never comes out of a byte of lz4.
const LZ4_MOST: usize = 255;

impl Framing {
    /// The `expected` bytes of an array that starts at the front of `source`.
    pub fn unpack(self, source: &mut Source<'_>, expected: usize) -> Result<Vec<u8>, String> {
        if expected == 0 && source.left() == 0 {
            return Ok(Vec::new());
        }
        let first = source.integer(self.header_bytes, self.order)?;
        if self.compressor == Compressor::None {
            agree(first, expected)?;
            return Ok(source.take(expected)?.into_owned());
        }
        let blocks = first;
        if blocks == 0 {
            agree(0, expected)?;
            return Ok(Vec::new());
        }
        let block_bytes = source.integer(self.header_bytes, self.order)?;
        // What the last block has if it is a shorter one; 0 if it is as long as the others.
        let last_bytes = source.integer(self.header_bytes, self.order)?;
        let full = if last_bytes == 0 { blocks } else { blocks - 1 };
        let total = full.checked_mul(block_bytes).and_then(|full| full.checked_add(last_bytes));
        agree(total.ok_or("has sizes in its header that no file can hold")?, expected)?;
        if blocks > source.left() / self.header_bytes {
            return Err(format!(
                "has {blocks} blocks in its header, more than the rest of the file can hold"
            ));
        }
        let mut packed_bytes = Vec::with_capacity(blocks);
        for _ in 0..blocks {
            packed_bytes.push(source.integer(self.header_bytes, self.order)?);
        }
        let mut unpacked = Vec::new();
        for (block, packed_bytes) in packed_bytes.into_iter().enumerate() {
            let length = if block < full { block_bytes } else { last_bytes };
            let in_block = |problem: String| format!("block {block} {problem}");
            let packed = source.take(packed_bytes).map_err(in_block)?;
            self.compressor.expand(&packed, length, &mut unpacked).map_err(in_block)?;
        }
        Ok(unpacked)
    }
}

impl Compressor {
    /// Appends the `length` bytes that `packed` expands to.
    fn expand(self, packed: &[u8], length: usize, unpacked: &mut Vec<u8>) -> Result<(), String> {
        let start = unpacked.len();
        match self {
            Compressor::None => unpacked.extend_from_slice(packed),
            Compressor::Zlib => {
                // One byte more than wanted, so that the decoder reaches the end and compares the checksum.
                let mut decoder = flate2::read::ZlibDecoder::new(packed).take(length as u64 + 1);
                decoder.read_to_end(unpacked).map_err(|error| format!("does not expand by zlib: {error}"))?;
            }
            Compressor::Lz4 => {
                if length > packed.len().saturating_mul(LZ4_MOST) {
                    return Err(format!("cannot expand to {length} bytes from {}", packed.len()));
                }
                unpacked.resize(start + length, 0);
                let room = unpacked.get_mut(start..).unwrap_or_default();
                let expanded = lz4_flex::block::decompress_into(packed, room)
                    .map_err(|error| format!("does not expand by lz4: {error}"))?;
                unpacked.truncate(start + expanded);
            }
        }
        match unpacked.len() - start {
            expanded if expanded == length => Ok(()),
            expanded => Err(format!("expands to {expanded} bytes, where {length} were expected")),
        }
    }
}

fn agree(found: usize, expected: usize) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("has {found} bytes by its header, where {expected} were expected"))
}
