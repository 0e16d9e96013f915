//! The number types of mesh files, and how their bytes and their text become values.

/// How the bytes of a number follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    Big,
    Little,
}

/// A number type as files name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

/// Runs `$body` with `$read` set to what turns one number's bytes into its value.
macro_rules! with_reader {
    ($number:expr, $order:expr, |$read:ident| $body:expr) => {
        with_reader!(@each $number, $order, $read, $body,
            I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64, F32 f32, F64 f64)
    };
    (@each $number:expr, $order:expr, $read:ident, $body:expr, $($variant:ident $type:ty),*) => {
        match ($number, $order) {
            $((Number::$variant, ByteOrder::Big) => {
                let $read = |bytes: &[u8]| <$type>::from_be_bytes(bytes.try_into().unwrap_or_default());
                $body
            }
            (Number::$variant, ByteOrder::Little) => {
                let $read = |bytes: &[u8]| <$type>::from_le_bytes(bytes.try_into().unwrap_or_default());
                $body
            })*
        }
    };
}

impl Number {
    /// The type a legacy file calls `name`. Its `vtkIdType` has four bytes, whatever VTK was built with.
    pub fn from_legacy(name: &str) -> Option<Number> {
        Some(match name.to_ascii_lowercase().as_str() {
            "char" | "signed_char" | "vtktypeint8" => Number::I8,
            "unsigned_char" | "vtktypeuint8" => Number::U8,
            "short" | "vtktypeint16" => Number::I16,
            "unsigned_short" | "vtktypeuint16" => Number::U16,
            "int" | "vtkidtype" | "vtktypeint32" => Number::I32,
            "unsigned_int" | "vtktypeuint32" => Number::U32,
            "long" | "vtktypeint64" | "long_long" => Number::I64,
            "unsigned_long" | "vtktypeuint64" | "unsigned_long_long" => Number::U64,
            "float" | "vtktypefloat32" => Number::F32,
            "double" | "vtktypefloat64" => Number::F64,
            _ => return None,
        })
    }

    /// The type an XML file calls `name`.
    pub fn from_xml(name: &str) -> Option<Number> {
        Some(match name {
            "Int8" => Number::I8,
            "UInt8" => Number::U8,
            "Int16" => Number::I16,
            "UInt16" => Number::U16,
            "Int32" => Number::I32,
            "UInt32" => Number::U32,
            "Int64" => Number::I64,
            "UInt64" => Number::U64,
            "Float32" => Number::F32,
            "Float64" => Number::F64,
            _ => return None,
        })
    }

    pub fn size_bytes(self) -> usize {
        match self {
            Number::I8 | Number::U8 => 1,
            Number::I16 | Number::U16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 => 8,
        }
    }

    /// The numbers in `bytes` as floats. A rest too short for a number is left out.
    #[allow(clippy::unnecessary_cast)] // for one of the types it is
    pub fn floats(self, bytes: &[u8], order: ByteOrder) -> Vec<f64> {
        let each = bytes.chunks_exact(self.size_bytes());
        with_reader!(self, order, |read| each.map(|bytes| read(bytes) as f64).collect())
    }

    /// The numbers in `bytes` as indices, or what keeps them from being any.
    #[allow(clippy::unnecessary_cast)] // for one of the types it is
    pub fn indices(self, bytes: &[u8], order: ByteOrder) -> Result<Vec<u64>, String> {
        if matches!(self, Number::F32 | Number::F64) {
            return Err("holds floats, where integers were expected".into());
        }
        let each = bytes.chunks_exact(self.size_bytes());
        with_reader!(self, order, |read| each
            .map(|bytes| {
                let value = read(bytes) as i64;
                if value >= 0 || self == Number::U64 {
                    Ok(value as u64)
                } else {
                    Err(format!("holds {value}, where no negative number may be"))
                }
            })
            .collect())
    }
}

/// The float that `text` spells.
pub fn float(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("\"{}\" is not a number", shortened(text)))
}

/// The index that `text` spells.
pub fn index(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("\"{}\" is not a whole number from 0 up", shortened(text)))
}

/// At most the first 24 characters of `text`, for a message.
pub fn shortened(text: &str) -> String {
    text.chars().take(24).filter(|character| !character.is_control()).collect()
}
