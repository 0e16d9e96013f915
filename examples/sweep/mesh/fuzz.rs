//! Fuzzes the readers: whatever is done to a file, they answer with a mesh or an error, soon, and never panic.

use super::{Mesh, samples};
use crate::random::Random;

/// What a flipped file likes to break on: counts at the ends of their ranges.
const WORDS: [&[u8]; 8] = [
    b"18446744073709551615",
    b"4294967296",
    b"-1",
    b"nan",
    b"0",
    b"2147483648 2147483648",
    b"\xff\xff\xff\xff",
    b"\0\0\0\0\0\0\0\0",
];

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len());
    match random.below(6) {
        0 => bytes.truncate(at),
        1 | 2 => {
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
        }
        3 => {
            let word = WORDS[random.below(WORDS.len())];
            let end = (at + random.below(8)).min(bytes.len());
            bytes.splice(at..end, word.iter().copied());
        }
        4 => {
            let end = (at + random.below(64)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let end = (at + random.below(64)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, copy);
        }
    }
}

#[test]
fn damaged_files_never_panic() {
    let structured = "# vtk DataFile Version 3.0\nt\nASCII\nDATASET STRUCTURED_POINTS\nDIMENSIONS 3 2 2\nORIGIN 0 0 0\n\
        SPACING 1 1 2\nPOINT_DATA 12\nSCALARS a float 1\nLOOKUP_TABLE default\n0 1 2 3 4 5 6 7 8 9 10 11\n";
    let mut files: Vec<Vec<u8>> = samples::all().into_iter().map(|sample| sample.bytes).collect();
    files.push(structured.as_bytes().to_vec());
    let seed = 7;
    let mut random = Random(seed);
    let (mut read, mut refused) = (0, 0);
    for file in &files {
        for _ in 0..400 {
            let mut bytes = file.clone();
            for _ in 0..=random.below(3) {
                if !bytes.is_empty() {
                    damage(&mut bytes, &mut random);
                }
            }
            match Mesh::parse(&bytes) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
    }
    // A fuzz whose damage is never noticed, or always at once, tests nothing.
    assert!(read > 100 && refused > 100, "seed {seed}: {read} were read, {refused} refused");
}

#[test]
fn files_cut_anywhere_are_refused_or_whole() {
    for sample in samples::all() {
        for length in (0..sample.bytes.len()).step_by(7) {
            let cut = Mesh::parse(&sample.bytes[..length]);
            // A legacy file without its point data is a whole file too; an XML file ends with its last tag.
            let complete = sample.bytes[..length].trim_ascii_end() == sample.bytes.trim_ascii_end();
            if sample.name.starts_with("xml") && !complete {
                assert!(cut.is_err(), "{} cut at {length} of {}", sample.name, sample.bytes.len());
            }
        }
    }
}
