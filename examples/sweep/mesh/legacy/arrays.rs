//! Reads the values of one array of a legacy file: its type's name, then text or big-endian bytes.
//!
//! A count is never believed: room is made for what the rest of the file can hold, and no more.

use super::{
    super::{
        Fault,
        number::{self, ByteOrder, Number},
    },
    cursor::{Cursor, Format},
};

/// What the values of an array are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    Number(Number),
    Bit,
    Text,
}

/// The next word as the type of an array's values.
pub fn element(cursor: &mut Cursor<'_>, array: &str) -> Result<Element, Fault> {
    let name = cursor.word("a data type")?;
    match name.to_ascii_lowercase().as_str() {
        "bit" => Ok(Element::Bit),
        "string" | "utf8_string" => Ok(Element::Text),
        _ => Number::from_legacy(name).map(Element::Number).ok_or_else(|| {
            let name = number::shortened(name);
            cursor.fault_before(format!("data type \"{name}\" of {array} is not supported"))
        }),
    }
}

/// Reads `count` floats.
pub fn floats(
    cursor: &mut Cursor<'_>,
    element: Element,
    count: usize,
    array: &str,
) -> Result<Vec<f64>, Fault> {
    match (element, cursor.format) {
        (Element::Text, _) => {
            Err(cursor.fault_before(format!("{array} holds text, where numbers were expected")))
        }
        (_, Format::Ascii) => words(cursor, count, array, number::float),
        (Element::Bit, Format::Binary) => {
            let bytes = binary(cursor, count.div_ceil(8), 1, array)?;
            Ok((0..count)
                .map(|bit| f64::from(bytes.get(bit / 8).map_or(0, |byte| byte >> (7 - bit % 8) & 1)))
                .collect())
        }
        (Element::Number(number), Format::Binary) => {
            let bytes = binary(cursor, count, number.size_bytes(), array)?;
            Ok(number.floats(bytes, ByteOrder::Big))
        }
    }
}

/// Reads `count` indices.
pub fn indices(
    cursor: &mut Cursor<'_>,
    element: Element,
    count: usize,
    array: &str,
) -> Result<Vec<u64>, Fault> {
    match (element, cursor.format) {
        (Element::Number(_), Format::Ascii) => words(cursor, count, array, number::index),
        (Element::Number(number), Format::Binary) => {
            let bytes = binary(cursor, count, number.size_bytes(), array)?;
            number
                .indices(bytes, ByteOrder::Big)
                .map_err(|problem| cursor.fault_before(format!("{array} {problem}")))
        }
        _ => Err(cursor.fault_before(format!("{array} must hold whole numbers"))),
    }
}

/// Moves over `count` values.
pub fn skip(cursor: &mut Cursor<'_>, element: Element, count: usize, array: &str) -> Result<(), Fault> {
    match (element, cursor.format) {
        (Element::Text, Format::Ascii) => {
            cursor.line();
            for _ in 0..fitting(cursor, count, array)? {
                if cursor.left() == 0 {
                    return Err(
                        cursor.fault_before(format!("the file ends inside {array}: it may be truncated"))
                    );
                }
                cursor.line();
            }
        }
        (Element::Text, Format::Binary) => {
            cursor.line();
            for _ in 0..fitting(cursor, count, array)? {
                let length = text_length(cursor, array)?;
                cursor.raw(length, array)?;
            }
        }
        (_, Format::Ascii) => {
            for _ in 0..fitting(cursor, count, array)? {
                cursor.word(array)?;
            }
        }
        (Element::Bit, Format::Binary) => drop(binary(cursor, count.div_ceil(8), 1, array)?),
        (Element::Number(number), Format::Binary) => drop(binary(cursor, count, number.size_bytes(), array)?),
    }
    Ok(())
}

/// The bytes of `count` values of `size_bytes` each, which start on the next line.
fn binary<'a>(
    cursor: &mut Cursor<'a>,
    count: usize,
    size_bytes: usize,
    array: &str,
) -> Result<&'a [u8], Fault> {
    cursor.line();
    match count.checked_mul(size_bytes) {
        Some(length) => cursor.raw(length, array),
        None => Err(cursor.fault_before(format!("{array} asks for {count} values: no file holds so many"))),
    }
}

fn words<T>(
    cursor: &mut Cursor<'_>,
    count: usize,
    array: &str,
    value: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Fault> {
    let mut values = Vec::with_capacity(fitting(cursor, count, array)?);
    for _ in 0..count {
        let word = cursor.word(array)?;
        values.push(value(word).map_err(|problem| cursor.fault_before(format!("{array}: {problem}")))?);
    }
    Ok(values)
}

/// `count`, if the rest of the file can hold that many values of a byte or more.
fn fitting(cursor: &Cursor<'_>, count: usize, array: &str) -> Result<usize, Fault> {
    let left = cursor.left();
    if count > left {
        return Err(cursor.fault_before(format!(
            "{array} asks for {count} values, but the file ends after {left} more bytes: it may be truncated"
        )));
    }
    Ok(count)
}

/// The length of the next binary text, whose first two bits say how many bytes the length itself takes.
fn text_length(cursor: &mut Cursor<'_>, array: &str) -> Result<usize, Fault> {
    let first = cursor.raw(1, array)?.first().copied().unwrap_or(0);
    let more = match first >> 6 {
        3 => 0,
        2 => 1,
        1 => 3,
        _ => 7,
    };
    let mut length = u64::from(first & 0x3f);
    for &byte in cursor.raw(more, array)? {
        length = length << 8 | u64::from(byte);
    }
    usize::try_from(length)
        .map_err(|_| cursor.fault_before(format!("{array} holds a text too long for any file")))
}
