//! The names that a shared library exports, and a copy of it that lacks one of them.

use std::{fs, path::Path};

/// A library's file.
pub struct File {
    bytes: Vec<u8>,
    /// Where its names start, and where they end.
    names: (usize, usize),
}

/// An ELF section of strings that the dynamic loader reads.
const STRINGS: u32 = 3;
const ALLOCATED: u64 = 2;

impl File {
    /// Reads a 64-bit ELF library.
    ///
    /// # Panics
    ///
    /// If it is none.
    pub fn read(path: &Path) -> File {
        let bytes = fs::read(path).expect("the library's file");
        assert_eq!(bytes[..5], *b"\x7fELF\x02", "no 64-bit ELF file");
        let number = |at: usize, bytes_of: usize| -> u64 {
            bytes[at..at + bytes_of].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        let (sections, size, count) =
            (number(0x28, 8) as usize, number(0x3A, 2) as usize, number(0x3C, 2) as usize);
        let found = (0..count).map(|index| sections + index * size).find(|&section| {
            number(section + 4, 4) as u32 == STRINGS && number(section + 8, 8) & ALLOCATED != 0
        });
        let section = found.expect("a library has names");
        let start = number(section + 0x18, 8) as usize;
        let names = (start, start + number(section + 0x20, 8) as usize);
        File { bytes, names }
    }

    /// The names that start with `prefix` and a capital letter.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let names = self.bytes[self.names.0..self.names.1].split(|&byte| byte == 0);
        let names = names.map(|name| String::from_utf8_lossy(name).into_owned());
        names
            .filter(|name| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(char::is_uppercase)))
            .collect()
    }

    /// Writes a copy in which nothing has this name: the loader, which looks a name up by its hash, then finds none.
    pub fn write_without(&self, name: &str, to: &Path) {
        let whole = [b"\0", name.as_bytes(), b"\0"].concat();
        let mut places = self.bytes[self.names.0..self.names.1].windows(whole.len());
        let at = places.position(|place| place == whole).expect("the library has it");
        let mut bytes = self.bytes.clone();
        bytes[self.names.0 + at + 1] = b'_';
        fs::write(to, bytes).expect("a copy is written");
    }
}
