//! One `DataArray` of an XML file: what its attributes say, and how to get at its values.

use super::{
    super::{
        Fault,
        number::{self, Number},
    },
    document::{AppendedEncoding, Document},
    source::Source,
};

/// Which part of a piece an array is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    Points,
    Cells,
    PointData,
}

/// Where the values are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Format {
    Ascii,
    Base64,
    Appended(usize),
}

#[derive(Clone, Debug)]
pub struct DataArray<'a> {
    pub piece: usize,
    pub section: Section,
    pub name: String,
    /// The name of the values' type, which may be one that is not a number's.
    pub type_name: String,
    pub components: usize,
    pub format: Format,
    /// The element's text; more than one run where comments or other elements stand between.
    pub text: Vec<std::borrow::Cow<'a, str>>,
}

impl DataArray<'_> {
    /// Whether the array can be a field: one number a point.
    pub fn is_scalar(&self) -> bool {
        self.section == Section::PointData
            && self.components == 1
            && Number::from_xml(&self.type_name).is_some()
    }

    /// The array's `count` values as floats.
    pub fn floats(&self, document: &Document<'_>, count: usize) -> Result<Vec<f64>, Fault> {
        let number = self.number()?;
        if self.format == Format::Ascii {
            return self.words(count, number::float);
        }
        Ok(number.floats(&self.bytes(document, number, count)?, document.framing.order))
    }

    /// The array's `count` values as indices.
    pub fn indices(&self, document: &Document<'_>, count: usize) -> Result<Vec<u64>, Fault> {
        let number = self.number()?;
        if self.format == Format::Ascii {
            return self.words(count, number::index);
        }
        let bytes = self.bytes(document, number, count)?;
        number.indices(&bytes, document.framing.order).map_err(|problem| self.fault(problem))
    }

    pub fn fault(&self, problem: impl Into<String>) -> Fault {
        Fault::part(format!("piece {}, array \"{}\"", self.piece, self.name), problem)
    }

    fn number(&self) -> Result<Number, Fault> {
        Number::from_xml(&self.type_name).ok_or_else(|| {
            self.fault(format!("has type \"{}\", which is not supported", number::shortened(&self.type_name)))
        })
    }

    fn words<T>(&self, count: usize, value: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, Fault> {
        let mut values = Vec::new();
        for word in self.text.iter().flat_map(|run| run.split_ascii_whitespace()) {
            if values.len() == count {
                return Err(self.fault(format!("has more than the {count} values that were expected")));
            }
            values.push(value(word).map_err(|problem| self.fault(problem))?);
        }
        match values.len() {
            found if found == count => Ok(values),
            found => Err(self.fault(format!("has {found} values, where {count} were expected"))),
        }
    }

    fn bytes(&self, document: &Document<'_>, number: Number, count: usize) -> Result<Vec<u8>, Fault> {
        let expected = count.checked_mul(number.size_bytes());
        let expected = expected
            .ok_or_else(|| self.fault(format!("would have {count} values: no file holds so many")))?;
        let joined;
        let mut source = match self.format {
            Format::Appended(offset) => {
                let appended =
                    document.appended.as_ref().ok_or_else(|| self.fault("is appended, but nothing is"))?;
                let data = appended.data.get(offset..).ok_or_else(|| {
                    let length = appended.data.len();
                    self.fault(format!("starts {offset} bytes into appended data of only {length}"))
                })?;
                match appended.encoding {
                    AppendedEncoding::Raw => Source::Raw(data),
                    AppendedEncoding::Base64 => Source::Base64(data, Vec::new()),
                }
            }
            _ => match self.text.as_slice() {
                [run] => Source::Base64(run.trim_ascii().as_bytes(), Vec::new()),
                runs => {
                    joined = runs.concat();
                    Source::Base64(joined.trim_ascii().as_bytes(), Vec::new())
                }
            },
        };
        document.framing.unpack(&mut source, expected).map_err(|problem| self.fault(problem))
    }
}
