//! Small mesh files for tests, of each kind that is read, all of the same mesh: a tetrahedron, a hexahedron, a wedge, a
//! pyramid, a triangle and a voxel over 12 points.

use super::number::ByteOrder;
use base64::{Engine, engine::general_purpose::STANDARD};
use std::{fmt::Write as _, io::Write as _};

#[rustfmt::skip]
pub const POINTS: [f64; 36] = [
    0.0, 0.0, 0.0,  1.0, 0.0, 0.0,  1.0, 1.0, 0.0,  0.0, 1.0, 0.0,
    0.0, 0.0, 1.0,  1.0, 0.0, 1.0,  1.0, 1.0, 1.0,  0.0, 1.0, 1.0,
    0.5, 0.5, 2.0,  2.0, 0.0, 0.0,  2.0, 1.0, 0.0,  2.0, 0.5, 1.5,
];
pub const OFFSETS: [u64; 7] = [0, 4, 12, 18, 23, 26, 34];
#[rustfmt::skip]
pub const CONNECTIVITY: [u64; 34] = [
    1, 9, 10, 11,  0, 1, 2, 3, 4, 5, 6, 7,  1, 9, 5, 2, 10, 6,  4, 5, 6, 7, 8,  4, 5, 8,  0, 1, 3, 2, 4, 5, 7, 6,
];
pub const TYPES: [u64; 6] = [10, 12, 13, 14, 5, 11];
pub const FIELD: [f64; 12] = [0.5, 1.0, -2.0, 3.25, 4.0, 5.0, 6.5, 7.0, 8.0, 9.0, 10.0, 11.0];

/// One kind of file, by name.
pub struct Sample {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// A file of each kind.
pub fn all() -> Vec<Sample> {
    let mut samples = Vec::new();
    for binary in [Encoding::Text, Encoding::Raw] {
        for (version, ids) in [("2.0", "int"), ("4.2", "int"), ("5.1", "vtktypeint64")] {
            let name = format!("legacy {version} {binary:?}");
            samples.push(Sample { name, bytes: legacy(version, ids, binary) });
        }
    }
    for encoding in [Encoding::Text, Encoding::Base64, Encoding::AppendedBase64, Encoding::AppendedRaw] {
        for compressor in [None, Some("vtkZLibDataCompressor"), Some("vtkLZ4DataCompressor")] {
            for (order, header_bytes) in [(ByteOrder::Little, 4), (ByteOrder::Big, 8)] {
                let xml = Xml { encoding, compressor, order, header_bytes, appended: Vec::new() };
                let name = format!("xml {encoding:?} {compressor:?} {order:?} {header_bytes}");
                samples.push(Sample { name, bytes: xml.file() });
            }
        }
    }
    samples
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    Text,
    Base64,
    AppendedBase64,
    AppendedRaw,
    /// Of a legacy file: big-endian.
    Raw,
}

fn legacy(version: &str, ids: &str, encoding: Encoding) -> Vec<u8> {
    let mut file = Vec::new();
    let format = if encoding == Encoding::Raw { "BINARY" } else { "ASCII" };
    write!(file, "# vtk DataFile Version {version}\na title\n{format}\nDATASET UNSTRUCTURED_GRID\n").unwrap();
    write!(file, "FIELD FieldData 1\nTIME 1 1 double\n").unwrap();
    legacy_values(&mut file, encoding, "double", &[0.25]);
    writeln!(file, "POINTS 12 double").unwrap();
    legacy_values(&mut file, encoding, "double", &POINTS);
    write!(file, "METADATA\nINFORMATION 1\nNAME L2_NORM_RANGE LOCATION vtkDataArray\nDATA 2 0 3 \n\n")
        .unwrap();
    if version == "5.1" {
        write!(file, "CELLS 7 34\nOFFSETS {ids}\n").unwrap();
        legacy_values(&mut file, encoding, ids, &OFFSETS.map(|value| value as f64));
        writeln!(file, "CONNECTIVITY {ids}").unwrap();
        legacy_values(&mut file, encoding, ids, &CONNECTIVITY.map(|value| value as f64));
    } else {
        let list = OFFSETS.windows(2).flat_map(|span| {
            let points = &CONNECTIVITY[span[0] as usize..span[1] as usize];
            std::iter::once(points.len() as f64).chain(points.iter().map(|&point| point as f64))
        });
        writeln!(file, "CELLS 6 40").unwrap();
        legacy_values(&mut file, encoding, "int", &list.collect::<Vec<_>>());
    }
    write!(file, "\nCELL_TYPES 6\n").unwrap();
    legacy_values(&mut file, encoding, "int", &TYPES.map(|value| value as f64));
    write!(file, "CELL_DATA 6\nSCALARS rank unsigned_char\nLOOKUP_TABLE default\n").unwrap();
    legacy_values(&mut file, encoding, "unsigned_char", &[1.0; 6]);
    write!(file, "POINT_DATA 12\nVECTORS speed float\n").unwrap();
    legacy_values(&mut file, encoding, "float", &POINTS);
    writeln!(file, "TENSORS stress float").unwrap();
    legacy_values(&mut file, encoding, "float", &[0.5; 108]);
    writeln!(file, "TEXTURE_COORDINATES uv 2 float").unwrap();
    legacy_values(&mut file, encoding, "float", &[0.5; 24]);
    writeln!(file, "GLOBAL_IDS ids vtkIdType").unwrap();
    legacy_values(&mut file, encoding, "int", &[3.0; 12]);
    write!(file, "FIELD FieldData 3\nlabels 1 2 string\n").unwrap();
    file.extend(if encoding == Encoding::Raw { b"\xc2ab\xc1c\n".as_slice() } else { b"ab\nc\n" });
    writeln!(file, "flags 2 12 bit").unwrap();
    let bits: &[f64] = if encoding == Encoding::Raw { &[0.0; 3] } else { &[1.0; 24] };
    legacy_values(&mut file, encoding, "unsigned_char", bits);
    writeln!(file, "radius 1 12 float").unwrap();
    legacy_values(&mut file, encoding, "float", &FIELD);
    file
}

fn legacy_values(file: &mut Vec<u8>, encoding: Encoding, kind: &str, values: &[f64]) {
    for &value in values {
        match (encoding, kind) {
            (Encoding::Raw, "double") => file.extend(value.to_be_bytes()),
            (Encoding::Raw, "float") => file.extend((value as f32).to_be_bytes()),
            (Encoding::Raw, "int") => file.extend((value as i32).to_be_bytes()),
            (Encoding::Raw, "unsigned_char") => file.push(value as u8),
            (Encoding::Raw, _) => file.extend((value as i64).to_be_bytes()),
            _ => write!(file, "{value} ").unwrap(),
        }
    }
    file.push(b'\n');
}

struct Xml {
    encoding: Encoding,
    compressor: Option<&'static str>,
    order: ByteOrder,
    header_bytes: usize,
    appended: Vec<u8>,
}

impl Xml {
    /// The mesh in one piece, and an empty one after it, as parallel writers leave them.
    fn file(mut self) -> Vec<u8> {
        let compressor = self.compressor.map(|name| format!(" compressor=\"{name}\"")).unwrap_or_default();
        let mut text = format!(
            "<?xml version=\"1.0\"?>\n<VTKFile type=\"UnstructuredGrid\" version=\"1.0\" byte_order=\"{:?}Endian\" \
             header_type=\"UInt{}\"{compressor}>\n<UnstructuredGrid>\n",
            self.order,
            self.header_bytes * 8,
        );
        writeln!(text, "<Piece NumberOfPoints=\"12\" NumberOfCells=\"6\">").unwrap();
        writeln!(text, "<PointData Scalars=\"radius\">").unwrap();
        self.array(&mut text, "Float64", "speed", 3, &POINTS);
        self.array(&mut text, "Float32", "radius", 1, &FIELD);
        writeln!(text, "</PointData>\n<CellData>").unwrap();
        self.array(&mut text, "UInt8", "rank", 1, &[1.0; 6]);
        writeln!(text, "</CellData>\n<Points>").unwrap();
        self.array(&mut text, "Float64", "Points", 3, &POINTS);
        writeln!(text, "</Points>\n<Cells>").unwrap();
        self.array(&mut text, "Int64", "connectivity", 1, &CONNECTIVITY.map(|value| value as f64));
        self.array(&mut text, "Int32", "offsets", 1, &OFFSETS.map(|value| value as f64)[1..]);
        self.array(&mut text, "UInt8", "types", 1, &TYPES.map(|value| value as f64));
        writeln!(
            text,
            "</Cells>\n</Piece>\n<Piece NumberOfPoints=\"0\" NumberOfCells=\"0\"/>\n</UnstructuredGrid>"
        )
        .unwrap();
        let mut file = text.into_bytes();
        if !self.appended.is_empty() {
            let encoding = if self.encoding == Encoding::AppendedRaw { "raw" } else { "base64" };
            write!(file, "<AppendedData encoding=\"{encoding}\">\n_").unwrap();
            file.append(&mut self.appended);
            write!(file, "\n</AppendedData>\n").unwrap();
        }
        writeln!(file, "</VTKFile>").unwrap();
        file
    }

    fn array(&mut self, text: &mut String, kind: &str, name: &str, components: usize, values: &[f64]) {
        write!(text, "<DataArray type=\"{kind}\" Name=\"{name}\" NumberOfComponents=\"{components}\" ")
            .unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|&value| self.value(kind, value)).collect();
        match self.encoding {
            Encoding::Text => {
                text.push_str("format=\"ascii\">\n");
                values.iter().for_each(|value| write!(text, "{value} ").unwrap());
            }
            Encoding::Base64 => {
                text.push_str("format=\"binary\">\n");
                let (header, data) = self.packed(&bytes);
                // Without a compressor some writers encode header and data as one.
                match self.compressor {
                    Some(_) => write!(text, "{}{}", STANDARD.encode(header), STANDARD.encode(data)).unwrap(),
                    None => text.push_str(&STANDARD.encode([header, data].concat())),
                }
                text.push_str("\n<InformationKey name=\"x\"><Value index=\"0\">1</Value></InformationKey>");
            }
            _ => {
                write!(text, "format=\"appended\" offset=\"{}\">", self.appended.len()).unwrap();
                let (header, data) = self.packed(&bytes);
                if self.encoding == Encoding::AppendedRaw {
                    self.appended.extend(header.into_iter().chain(data));
                } else {
                    self.appended.extend(STANDARD.encode(header).into_bytes());
                    self.appended.extend(STANDARD.encode(data).into_bytes());
                }
            }
        }
        text.push_str("\n</DataArray>\n");
    }

    fn value(&self, kind: &str, value: f64) -> Vec<u8> {
        let mut bytes = match kind {
            "Float64" => value.to_be_bytes().to_vec(),
            "Float32" => (value as f32).to_be_bytes().to_vec(),
            "Int64" => (value as i64).to_be_bytes().to_vec(),
            "Int32" => (value as i32).to_be_bytes().to_vec(),
            _ => vec![value as u8],
        };
        if self.order == ByteOrder::Little {
            bytes.reverse();
        }
        bytes
    }

    /// The header and the data of an array; compressed ones in blocks of 64 bytes.
    fn packed(&self, bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let Some(compressor) = self.compressor else { return (self.header(&[bytes.len()]), bytes.to_vec()) };
        let blocks: Vec<Vec<u8>> = bytes.chunks(64).map(|block| compress(compressor, block)).collect();
        let mut sizes = vec![blocks.len(), 64, bytes.len() % 64];
        sizes.extend(blocks.iter().map(Vec::len));
        (self.header(&sizes), blocks.concat())
    }

    fn header(&self, numbers: &[usize]) -> Vec<u8> {
        let number = |&number: &usize| match (self.order, self.header_bytes) {
            (ByteOrder::Big, 8) => (number as u64).to_be_bytes().to_vec(),
            (ByteOrder::Big, _) => (number as u32).to_be_bytes().to_vec(),
            (ByteOrder::Little, 8) => (number as u64).to_le_bytes().to_vec(),
            (ByteOrder::Little, _) => (number as u32).to_le_bytes().to_vec(),
        };
        numbers.iter().flat_map(number).collect()
    }
}

fn compress(compressor: &str, block: &[u8]) -> Vec<u8> {
    if compressor == "vtkLZ4DataCompressor" {
        return lz4_flex::block::compress(block);
    }
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(block).unwrap();
    encoder.finish().unwrap()
}
