//! Walks the sections of a legacy file and keeps what a mesh is made of: geometry, cells, and the first field on the
//! points with one value each. Every other section is moved over.

use super::{
    super::{
        Fault, Field,
        number::{self, Number, shortened},
    },
    arrays::{self, Element},
    cursor::Cursor,
};

/// What the sections held; empty where a section was not there.
#[derive(Debug, Default)]
pub struct Sections {
    pub dimensions: Option<[usize; 3]>,
    pub origin: [f64; 3],
    pub spacing: Option<[f64; 3]>,
    pub axes: [Vec<f64>; 3],
    pub points: Option<Vec<f64>>,
    pub offsets: Option<Vec<u64>>,
    pub connectivity: Vec<u64>,
    pub types: Option<Vec<u64>>,
    pub field: Option<Field>,
    attributes: Attributes,
}

/// What the attributes being read belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Attributes {
    /// No POINT_DATA or CELL_DATA yet: the dataset as a whole.
    #[default]
    Dataset,
    Points(usize),
    Cells(usize),
}

impl Sections {
    /// Reads to the end of the file.
    pub fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        while cursor.peek().is_some() {
            let keyword = cursor.word("a keyword")?.to_ascii_uppercase();
            if !self.geometry(cursor, &keyword)? && !self.attribute(cursor, &keyword)? {
                let keyword = shortened(&keyword);
                return Err(
                    cursor.fault_before(format!("has \"{keyword}\", where a section's keyword was expected"))
                );
            }
        }
        Ok(())
    }

    fn geometry(&mut self, cursor: &mut Cursor<'_>, keyword: &str) -> Result<bool, Fault> {
        match keyword {
            "DIMENSIONS" => {
                self.dimensions = Some([
                    cursor.count("a dimension")?,
                    cursor.count("a dimension")?,
                    cursor.count("a dimension")?,
                ]);
            }
            "ORIGIN" => self.origin = triple(cursor, "ORIGIN")?,
            "SPACING" | "ASPECT_RATIO" => self.spacing = Some(triple(cursor, keyword)?),
            "X_COORDINATES" => self.axes[0] = axis(cursor, keyword)?,
            "Y_COORDINATES" => self.axes[1] = axis(cursor, keyword)?,
            "Z_COORDINATES" => self.axes[2] = axis(cursor, keyword)?,
            "POINTS" => {
                let count = cursor.count("the number of points")?;
                let element = arrays::element(cursor, "POINTS")?;
                self.points = Some(arrays::floats(cursor, element, count.saturating_mul(3), "POINTS")?);
            }
            "CELLS" => self.cells(cursor)?,
            "CELL_TYPES" => {
                let count = cursor.count("the number of cell types")?;
                let int = Element::Number(Number::I32);
                self.types = Some(arrays::indices(cursor, int, count, "CELL_TYPES")?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// CELLS in either layout: since 5.0 two arrays, before that each cell's number of points in front of them.
    fn cells(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        let count = cursor.count("the number of cells")?;
        let size = cursor.count("the size of the cells")?;
        if cursor.accept("OFFSETS") {
            let element = arrays::element(cursor, "OFFSETS")?;
            self.offsets = Some(arrays::indices(cursor, element, count, "OFFSETS")?);
            cursor.expect("CONNECTIVITY")?;
            let element = arrays::element(cursor, "CONNECTIVITY")?;
            self.connectivity = arrays::indices(cursor, element, size, "CONNECTIVITY")?;
            return Ok(());
        }
        let int = Element::Number(Number::I32);
        let list = arrays::indices(cursor, int, size, "CELLS")?;
        if count > list.len() {
            return Err(
                cursor.fault_before(format!("CELLS has {count} cells in a list of only {size} numbers"))
            );
        }
        let mut offsets = Vec::with_capacity(count + 1);
        let mut connectivity = Vec::with_capacity(list.len() - count);
        offsets.push(0);
        let mut rest = list.as_slice();
        for cell in 0..count {
            let points = rest.split_first().and_then(|(&points, after)| {
                after.split_at_checked(usize::try_from(points).unwrap_or(usize::MAX))
            });
            let Some((points, after)) = points else {
                return Err(cursor
                    .fault_before(format!("cell {cell} of CELLS reaches past the list of {size} numbers")));
            };
            connectivity.extend_from_slice(points);
            offsets.push(connectivity.len() as u64);
            rest = after;
        }
        if !rest.is_empty() {
            let left = rest.len();
            return Err(
                cursor.fault_before(format!("CELLS has {left} numbers left over after its {count} cells"))
            );
        }
        (self.offsets, self.connectivity) = (Some(offsets), connectivity);
        Ok(())
    }

    fn attribute(&mut self, cursor: &mut Cursor<'_>, keyword: &str) -> Result<bool, Fault> {
        match keyword {
            "POINT_DATA" => self.attributes = Attributes::Points(cursor.count("the number of points")?),
            "CELL_DATA" => self.attributes = Attributes::Cells(cursor.count("the number of cells")?),
            "METADATA" => metadata(cursor),
            "FIELD" => self.field_arrays(cursor)?,
            "SCALARS" => self.scalars(cursor)?,
            "VECTORS" | "NORMALS" => self.named(cursor, keyword, 3)?,
            "TENSORS" => self.named(cursor, keyword, 9)?,
            "TENSORS6" => self.named(cursor, keyword, 6)?,
            "GLOBAL_IDS" | "PEDIGREE_IDS" | "EDGE_FLAGS" => self.named(cursor, keyword, 1)?,
            "TEXTURE_COORDINATES" => {
                let name = cursor.word("a name")?.to_owned();
                let components = cursor.count("the number of components")?;
                let element = arrays::element(cursor, keyword)?;
                self.skip(cursor, &name, element, components)?;
            }
            "COLOR_SCALARS" => {
                let name = cursor.word("a name")?.to_owned();
                let components = cursor.count("the number of components")?;
                self.skip(cursor, &name, Element::Number(Number::U8), components)?;
            }
            "LOOKUP_TABLE" => {
                let name = cursor.word("a name")?.to_owned();
                let size = cursor.count("the size of the table")?;
                let byte = Element::Number(Number::U8);
                arrays::skip(cursor, byte, size.saturating_mul(4), &format!("LOOKUP_TABLE {name}"))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn scalars(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        let name = cursor.word("a name")?.to_owned();
        let element = arrays::element(cursor, "SCALARS")?;
        let components = match cursor.peek() {
            // Without a number here the next word is LOOKUP_TABLE, or already a value on a line of its own.
            Some(_) if cursor.line_has_word() && !next_is_table(cursor) => {
                cursor.count("the number of components")?
            }
            _ => 1,
        };
        if cursor.accept("LOOKUP_TABLE") {
            cursor.word("the name of a lookup table")?;
        }
        self.values(cursor, &name, element, components, self.attribute_count())
    }

    fn named(&mut self, cursor: &mut Cursor<'_>, keyword: &str, components: usize) -> Result<(), Fault> {
        let name = cursor.word("a name")?.to_owned();
        let element = arrays::element(cursor, keyword)?;
        self.skip(cursor, &name, element, components)
    }

    fn field_arrays(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        cursor.word("the name of the field")?;
        let arrays = cursor.count("the number of arrays")?;
        for _ in 0..arrays {
            // METADATA of the array before may stand between two arrays.
            while cursor.accept("METADATA") {
                metadata(cursor);
            }
            let name = cursor.word("the name of an array")?.to_owned();
            if name.eq_ignore_ascii_case("NULL_ARRAY") {
                continue;
            }
            let components = cursor.count("the number of components")?;
            let tuples = cursor.count("the number of tuples")?;
            let element = arrays::element(cursor, &format!("array \"{name}\""))?;
            self.values(cursor, &name, element, components, tuples)?;
        }
        Ok(())
    }

    /// Keeps the values if they are the first field on the points; moves over them otherwise.
    fn values(
        &mut self,
        cursor: &mut Cursor<'_>,
        name: &str,
        element: Element,
        components: usize,
        tuples: usize,
    ) -> Result<(), Fault> {
        let array = format!("array \"{name}\"");
        let on_points = matches!(self.attributes, Attributes::Points(count) if count == tuples);
        if on_points && components == 1 && element != Element::Text && self.field.is_none() {
            let values = arrays::floats(cursor, element, tuples, &array)?;
            self.field = Some(Field { name: name.to_owned(), values });
            return Ok(());
        }
        arrays::skip(cursor, element, components.saturating_mul(tuples), &array)
    }

    fn skip(
        &self,
        cursor: &mut Cursor<'_>,
        name: &str,
        element: Element,
        components: usize,
    ) -> Result<(), Fault> {
        let count = self.attribute_count().saturating_mul(components);
        arrays::skip(cursor, element, count, &format!("array \"{name}\""))
    }

    fn attribute_count(&self) -> usize {
        match self.attributes {
            Attributes::Dataset => 0,
            Attributes::Points(count) | Attributes::Cells(count) => count,
        }
    }
}

/// Moves over a METADATA block, which ends with an empty line.
fn metadata(cursor: &mut Cursor<'_>) {
    cursor.line();
    while cursor.left() > 0 && !cursor.line().is_empty() {}
}

fn next_is_table(cursor: &Cursor<'_>) -> bool {
    cursor.peek().is_some_and(|word| word.eq_ignore_ascii_case("LOOKUP_TABLE"))
}

fn triple(cursor: &mut Cursor<'_>, keyword: &str) -> Result<[f64; 3], Fault> {
    let mut values = [0.0; 3];
    for value in &mut values {
        let word = cursor.word(keyword)?;
        *value =
            number::float(word).map_err(|problem| cursor.fault_before(format!("{keyword}: {problem}")))?;
    }
    Ok(values)
}

fn axis(cursor: &mut Cursor<'_>, keyword: &str) -> Result<Vec<f64>, Fault> {
    let count = cursor.count("the number of coordinates")?;
    let element = arrays::element(cursor, keyword)?;
    arrays::floats(cursor, element, count, keyword)
}
