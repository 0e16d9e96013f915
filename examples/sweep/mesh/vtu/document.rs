//! The XML of a `.vtu` file: its pieces and the arrays in them, whose values are not decoded yet.
//!
//! Raw appended data is no XML. So the file is cut behind the start tag of `AppendedData`, and only what is in front is parsed.

use super::{
    super::{
        Fault, Place,
        number::{ByteOrder, shortened},
    },
    array::{DataArray, Format, Section},
    blocks::{Compressor, Framing},
};
use quick_xml::{
    Reader, XmlVersion,
    events::{BytesStart, Event},
};
use std::collections::{BTreeMap, BTreeSet};

/// How appended data is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendedEncoding {
    Raw,
    Base64,
}

/// What follows the `_` of `AppendedData`.
#[derive(Debug)]
pub struct Appended<'a> {
    pub encoding: AppendedEncoding,
    pub data: &'a [u8],
}

/// A part of the mesh that is written as one.
#[derive(Debug)]
pub struct Piece<'a> {
    pub number: usize,
    pub points: usize,
    pub cells: usize,
    pub arrays: Vec<DataArray<'a>>,
}

#[derive(Debug)]
pub struct Document<'a> {
    pub framing: Framing,
    pub pieces: Vec<Piece<'a>>,
    pub appended: Option<Appended<'a>>,
}

/// No `.vtu` file nests its elements deeper.
const MOST_NESTED: usize = 32;

type Attributes = BTreeMap<String, String>;

impl<'a> Document<'a> {
    /// Parses `bytes`, which start `skipped` bytes into the file.
    pub fn parse(bytes: &'a [u8], skipped: usize) -> Result<Document<'a>, Fault> {
        let (xml, data) = cut(bytes)?;
        let xml = std::str::from_utf8(xml)
            .map_err(|error| Fault::at(Place::Byte(skipped + error.valid_up_to()), "is not UTF-8 text"))?;
        let framing = Framing { order: ByteOrder::Little, header_bytes: 4, compressor: Compressor::None };
        let mut document = Document { framing, pieces: Vec::new(), appended: None };
        let mut reader = Reader::from_str(xml);
        let mut open: Vec<String> = Vec::new();
        let mut found_grid = false;
        loop {
            let at = |reader: &Reader<&[u8]>| Place::Byte(skipped + reader.buffer_position() as usize);
            let event = reader
                .read_event()
                .map_err(|error| Fault::at(at(&reader), format!("is not XML: {error}")))?;
            let closed = matches!(event, Event::Empty(_));
            match event {
                Event::Start(tag) | Event::Empty(tag) => {
                    let name = tag.name().as_ref().to_owned();
                    let fault =
                        |problem: String| Fault::at(at(&reader), format!("<{}> {problem}", shortened(&name)));
                    let attributes = attributes(&tag).map_err(fault)?;
                    found_grid |= name == "UnstructuredGrid" && open.len() == 1;
                    document.element(&name, &attributes, &open, data).map_err(fault)?;
                    if open.len() > MOST_NESTED {
                        return Err(fault("is nested too deeply".into()));
                    }
                    if !closed {
                        open.push(name);
                    }
                }
                Event::End(_) => drop(open.pop()),
                Event::Text(text) if open.last().is_some_and(|name| name == "DataArray") => {
                    document.text(&open, text.into_inner());
                }
                Event::Eof => break,
                _ => {}
            }
        }
        if data.is_none() && !open.is_empty() {
            let name = open.last().map(|name| shortened(name)).unwrap_or_default();
            let end = Place::Byte(skipped + bytes.len());
            return Err(Fault::at(end, format!("the file ends inside <{name}>: it may be truncated")));
        }
        if !found_grid {
            return Err(Fault::file("has no <UnstructuredGrid> element in a <VTKFile>"));
        }
        document.check_offsets()?;
        Ok(document)
    }

    /// No two arrays may claim the same appended bytes: a small file could otherwise stand for one of any size.
    fn check_offsets(&self) -> Result<(), Fault> {
        let mut taken = BTreeSet::new();
        for array in self
            .pieces
            .iter()
            .filter(|piece| piece.points > 0 || piece.cells > 0)
            .flat_map(|piece| &piece.arrays)
        {
            if let Format::Appended(offset) = array.format
                && !taken.insert(offset)
            {
                return Err(array
                    .fault(format!("starts {offset} bytes into the appended data, as another array does")));
            }
        }
        Ok(())
    }

    fn element(
        &mut self,
        name: &str,
        attributes: &Attributes,
        open: &[String],
        data: Option<&'a [u8]>,
    ) -> Result<(), String> {
        let path: Vec<&str> = open.iter().map(String::as_str).collect();
        match (path.as_slice(), name) {
            ([], "VTKFile") => self.framing = framing(attributes)?,
            ([], _) => return Err("is the outermost element, where <VTKFile> was expected".into()),
            (["VTKFile", "UnstructuredGrid"], "Piece") => self.pieces.push(Piece {
                number: self.pieces.len(),
                points: count(attributes, "NumberOfPoints")?,
                cells: count(attributes, "NumberOfCells")?,
                arrays: Vec::new(),
            }),
            (["VTKFile", "UnstructuredGrid", "Piece", section], "DataArray") => {
                let section = match *section {
                    "Points" => Section::Points,
                    "Cells" => Section::Cells,
                    "PointData" => Section::PointData,
                    _ => return Ok(()),
                };
                if let Some(piece) = self.pieces.last_mut() {
                    piece.arrays.push(data_array(piece.number, section, attributes)?);
                }
            }
            (["VTKFile"], "AppendedData") => {
                let encoding = match attributes.get("encoding").map(String::as_str) {
                    Some("raw") => AppendedEncoding::Raw,
                    Some("base64") | None => AppendedEncoding::Base64,
                    Some(other) => {
                        return Err(format!("has encoding \"{}\", which is not supported", shortened(other)));
                    }
                };
                self.appended = data.map(|data| Appended { encoding, data });
            }
            _ => {}
        }
        Ok(())
    }

    /// Gives `text` to the array it stands in, if that is one to be kept.
    fn text(&mut self, open: &[String], text: std::borrow::Cow<'a, str>) {
        let kept = open.len() == 5
            && matches!(open.get(3).map(String::as_str), Some("Points" | "Cells" | "PointData"));
        if kept && let Some(array) = self.pieces.last_mut().and_then(|piece| piece.arrays.last_mut()) {
            array.text.push(text);
        }
    }
}

/// The XML in front, and the appended data where there is some.
fn cut(bytes: &[u8]) -> Result<(&[u8], Option<&[u8]>), Fault> {
    const START: &[u8] = b"<AppendedData";
    const END: &[u8] = b"</AppendedData>";
    let Some(start) = bytes.windows(START.len()).position(|window| window == START) else {
        return Ok((bytes, None));
    };
    let truncated =
        || Fault::at(Place::Byte(bytes.len()), "the file ends inside <AppendedData>: it may be truncated");
    let tag = bytes.get(start..).unwrap_or_default();
    let tag_length = tag.iter().position(|&byte| byte == b'>').ok_or_else(truncated)? + 1;
    let (xml, rest) = bytes.split_at_checked(start + tag_length).ok_or_else(truncated)?;
    let length = rest.windows(END.len()).rposition(|window| window == END).ok_or_else(truncated)?;
    let after = rest.get(length + END.len()..).unwrap_or_default();
    if !after.trim_ascii().starts_with(b"</VTKFile>") {
        return Err(Fault::at(
            Place::Byte(bytes.len()),
            "the file ends without </VTKFile>: it may be truncated",
        ));
    }
    match rest.get(..length).unwrap_or_default().trim_ascii_start() {
        [b'_', data @ ..] => Ok((xml, Some(data))),
        _ => Err(Fault::part("<AppendedData>", "does not start its data with \"_\"")),
    }
}

fn attributes(tag: &BytesStart<'_>) -> Result<Attributes, String> {
    tag.attributes()
        .map(|attribute| {
            let attribute = attribute.map_err(|error| format!("has a malformed attribute: {error}"))?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|error| format!("has a malformed attribute: {error}"))?;
            Ok((attribute.key.as_ref().to_owned(), value.into_owned()))
        })
        .collect()
}

fn framing(attributes: &Attributes) -> Result<Framing, String> {
    let of = |name: &str| attributes.get(name).map(String::as_str);
    let unsupported =
        |name: &str, value: &str| Err(format!("has {name} \"{}\", which is not supported", shortened(value)));
    match of("type") {
        Some("UnstructuredGrid") => {}
        Some(other) => return unsupported("type", other),
        None => return Err("has no attribute type".into()),
    }
    let order = match of("byte_order") {
        Some("BigEndian") => ByteOrder::Big,
        Some("LittleEndian") | None => ByteOrder::Little,
        Some(other) => return unsupported("byte_order", other),
    };
    let header_bytes = match of("header_type") {
        Some("UInt64") => 8,
        Some("UInt32") | None => 4,
        Some(other) => return unsupported("header_type", other),
    };
    let compressor = match of("compressor") {
        None | Some("") => Compressor::None,
        Some("vtkZLibDataCompressor") => Compressor::Zlib,
        Some("vtkLZ4DataCompressor") => Compressor::Lz4,
        Some(other) => return unsupported("compressor", other),
    };
    Ok(Framing { order, header_bytes, compressor })
}

fn data_array<'a>(piece: usize, section: Section, attributes: &Attributes) -> Result<DataArray<'a>, String> {
    let of = |name: &str| attributes.get(name).cloned().unwrap_or_default();
    let format = match of("format").as_str() {
        "ascii" | "" => Format::Ascii,
        "binary" => Format::Base64,
        "appended" => Format::Appended(count(attributes, "offset")?),
        other => return Err(format!("has format \"{}\", which is not supported", shortened(other))),
    };
    let components = match attributes.get("NumberOfComponents") {
        Some(_) => count(attributes, "NumberOfComponents")?,
        None => 1,
    };
    Ok(DataArray {
        piece,
        section,
        name: of("Name"),
        type_name: of("type"),
        components,
        format,
        text: Vec::new(),
    })
}

fn count(attributes: &Attributes, name: &str) -> Result<usize, String> {
    let value = attributes.get(name).ok_or_else(|| format!("has no attribute {name}"))?;
    value
        .trim()
        .parse()
        .map_err(|_| format!("has {name} \"{}\", which is not a whole number from 0 up", shortened(value)))
}
