//! What is wrong with a mesh, and where: a fault inside a reader, and the error that also names the file.

use std::{fmt, path::PathBuf};

/// Where in a file something is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line of text, counted from 1.
    Line(usize),
    /// A byte, counted from 0.
    Byte(usize),
    /// A named part: an array, an XML element, a cell.
    Part(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File => f.write_str("the file"),
            Place::Line(line) => write!(f, "line {line}"),
            Place::Byte(byte) => write!(f, "byte {byte}"),
            Place::Part(part) => f.write_str(part),
        }
    }
}

/// Something wrong at a place of a file not named yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    place: Place,
    problem: String,
}

impl Fault {
    pub fn at(place: Place, problem: impl Into<String>) -> Fault {
        Fault { place, problem: problem.into() }
    }

    pub fn file(problem: impl Into<String>) -> Fault {
        Fault::at(Place::File, problem)
    }

    pub fn part(part: impl Into<String>, problem: impl Into<String>) -> Fault {
        Fault::at(Place::Part(part.into()), problem)
    }

    pub fn in_file(self, file: PathBuf) -> MeshError {
        MeshError { file, fault: self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// A mesh file that cannot be used: which file, where in it, and what is wrong there.
#[derive(Debug)]
pub struct MeshError {
    file: PathBuf,
    fault: Fault,
}

impl fmt::Display for MeshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.fault)
    }
}

impl std::error::Error for MeshError {}
