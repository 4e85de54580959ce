//! Reads Thrift's compact protocol, in which Parquet's footer and page headers are written.
//!
//! Source: the protocol's specification, thrift-compact-protocol.md of Apache Thrift. What is read
//! may come from anywhere: every length is held against the bytes that there are.

use crate::Otherwise;

/// Structures within structures; Parquet's own go no deeper than 6.
const MOST_DEPTH: usize = 16;
const SHORT: &str = "the bytes end too early";
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
/// A 16-bit number; those of 32 and 64 bits follow, and are written alike.
const I16: u8 = 4;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// The type of a field's value, and of a boolean the value itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kind(u8);

/// Reads values one after the other.
pub struct Reader<'a> {
    data: &'a [u8],
    /// Where the next byte stands.
    pub position: usize,
}

impl<'a> Reader<'a> {
    /// Has read nothing of `data` yet.
    pub fn new(data: &'a [u8]) -> Self {
        Self { data, position: 0 }
    }

    /// Whether all is read.
    pub fn is_at_end(&self) -> bool {
        self.position == self.data.len()
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Otherwise> {
        let left = self.data.get(self.position..).unwrap_or_default();
        let found = left.get(..count).ok_or(Otherwise(SHORT))?;
        self.position += count;
        Ok(found)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Otherwise> {
        let found = self.data.get(self.position);
        self.position += 1;
        found.copied().ok_or(Otherwise(SHORT))
    }

    /// How often `pattern` stands next, at most `most` times; all of those are read.
    pub fn repeats(&mut self, pattern: &[u8], most: u64) -> u64 {
        let left = self.data.get(self.position..).unwrap_or_default();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let parts = left.chunks_exact(pattern.len()).take(most);
        let found = parts.take_while(|part| *part == pattern).count();
        self.position += found * pattern.len();
        found as u64
    }

    /// An unsigned number of at most 64 bits, in LEB128.
    pub fn varint(&mut self) -> Result<u64, Otherwise> {
        let mut found = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            found |= bits << shift;
            if byte < 0x80 {
                return Ok(found);
            }
        }
        Err(Otherwise("a number is longer than 64 bits"))
    }

    /// A signed number of at most 64 bits.
    pub fn zigzag(&mut self) -> Result<i64, Otherwise> {
        let found = self.varint()?;
        Ok((found >> 1) as i64 ^ -((found & 1) as i64))
    }

    /// A number that is a length or a count.
    pub fn length(&mut self) -> Result<usize, Otherwise> {
        usize::try_from(self.varint()?).map_err(|_| Otherwise("a length is too large"))
    }

    /// A structure: `field` is given the number of each field and takes its value, or says that it
    /// did not, by `false`; the value is then passed over.
    pub fn structure(
        &mut self,
        mut field: impl FnMut(i64, Kind, &mut Self) -> Result<bool, Otherwise>,
    ) -> Result<(), Otherwise> {
        let mut last = i64::MIN;
        while let Some((number, kind)) = self.head(last)? {
            last = number;
            if !field(number, kind, self)? {
                self.pass_over(kind, 0)?;
            }
        }
        Ok(())
    }

    /// The next field of a structure, after the one of number `last`; none at its end.
    fn head(&mut self, last: i64) -> Result<Option<(i64, Kind)>, Otherwise> {
        let head = self.byte()?;
        if head & 0x0F == 0 {
            return Ok(None);
        }
        let number = match head >> 4 {
            0 => self.zigzag()?,
            more => last.max(0) + i64::from(more),
        };
        if number <= last || number > i64::from(i16::MAX) {
            return Err(Otherwise("the fields of a structure are not in order"));
        }
        Ok(Some((number, Kind(head & 0x0F))))
    }

    /// A field's number of 16 to 64 bits.
    pub fn number(&mut self, kind: Kind) -> Result<i64, Otherwise> {
        match kind.0 {
            I16..=I64 => self.zigzag(),
            _ => Err(Otherwise("a field is no number")),
        }
    }

    /// A field's number, as a length or an offset.
    pub fn size(&mut self, kind: Kind) -> Result<u64, Otherwise> {
        u64::try_from(self.number(kind)?).map_err(|_| Otherwise("a size is negative"))
    }

    /// A field's text or bytes.
    pub fn binary(&mut self, kind: Kind) -> Result<&'a [u8], Otherwise> {
        if kind.0 != BINARY {
            return Err(Otherwise("a field is no text"));
        }
        let count = self.length()?;
        self.take(count)
    }

    /// A field that is a structure, as `structure` reads it.
    pub fn inner(
        &mut self,
        kind: Kind,
        field: impl FnMut(i64, Kind, &mut Self) -> Result<bool, Otherwise>,
    ) -> Result<(), Otherwise> {
        if kind.0 != STRUCT {
            return Err(Otherwise("a field is no structure"));
        }
        self.structure(field)
    }

    /// A field that is a list of structures, each read by `item`.
    pub fn list(
        &mut self,
        kind: Kind,
        mut item: impl FnMut(&mut Self) -> Result<(), Otherwise>,
    ) -> Result<(), Otherwise> {
        if kind.0 != LIST {
            return Err(Otherwise("a field is no list"));
        }
        let (count, of) = self.list_head()?;
        if of.0 != STRUCT {
            return Err(Otherwise("a list is not one of structures"));
        }
        (0..count).try_for_each(|_| item(self))
    }

    fn list_head(&mut self) -> Result<(usize, Kind), Otherwise> {
        let head = self.byte()?;
        let count = match usize::from(head >> 4) {
            15 => self.length()?,
            few => few,
        };
        self.check_count(count)?;
        Ok((count, Kind(head & 0x0F)))
    }

    /// Each item takes a byte at least.
    fn check_count(&self, count: usize) -> Result<(), Otherwise> {
        if count > self.data.len().saturating_sub(self.position) {
            return Err(Otherwise("a list is longer than its bytes"));
        }
        Ok(())
    }

    fn pass_over(&mut self, kind: Kind, depth: usize) -> Result<(), Otherwise> {
        if depth > MOST_DEPTH {
            return Err(Otherwise("structures are nested too deeply"));
        }
        match kind.0 {
            TRUE | FALSE => {}
            BYTE => {
                self.byte()?;
            }
            I16..=I64 => {
                self.varint()?;
            }
            DOUBLE => {
                self.take(8)?;
            }
            BINARY => {
                let count = self.length()?;
                self.take(count)?;
            }
            LIST | SET => {
                let (count, of) = self.list_head()?;
                for _ in 0..count {
                    self.pass_over_item(of, depth + 1)?;
                }
            }
            MAP => {
                let count = self.length()?;
                self.check_count(count)?;
                if count > 0 {
                    let kinds = self.byte()?;
                    for _ in 0..count {
                        self.pass_over_item(Kind(kinds >> 4), depth + 1)?;
                        self.pass_over_item(Kind(kinds & 0x0F), depth + 1)?;
                    }
                }
            }
            STRUCT => {
                let mut last = i64::MIN;
                while let Some((number, kind)) = self.head(last)? {
                    last = number;
                    self.pass_over(kind, depth + 1)?;
                }
            }
            _ => return Err(Otherwise("there is no such type")),
        }
        Ok(())
    }

    /// Within a list or a map a boolean takes a byte.
    fn pass_over_item(&mut self, kind: Kind, depth: usize) -> Result<(), Otherwise> {
        match kind.0 {
            TRUE | FALSE => self.byte().map(|_| ()),
            _ => self.pass_over(kind, depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(data: &[u8]) -> Result<Vec<(i64, i64)>, Otherwise> {
        let mut found = Vec::new();
        Reader::new(data).structure(|number, kind, reader| {
            if (I16..=I64).contains(&kind.0) {
                found.push((number, reader.number(kind)?));
                return Ok(true);
            }
            Ok(false)
        })?;
        Ok(found)
    }

    #[test]
    fn numbers_are_read_and_all_else_is_passed_over() {
        // 1: i32 -3; 2: true; 3: "ab"; 4: list of two i64; 20: i64 300 (its number told whole).
        let data = [
            0x15, 0x05, 0x11, 0x18, 2, b'a', b'b', 0x19, 0x26, 2, 4, 0x06, 40, 0xD8, 0x04, 0,
        ];
        assert_eq!(fields(&data).unwrap(), [(1, -3), (20, 300)]);
        for end in 0..data.len() {
            assert!(fields(&data[..end]).is_err(), "cut off after {end} bytes");
        }
    }

    #[test]
    fn a_field_comes_once_and_in_order() {
        assert!(fields(&[0x05, 4, 2, 0x05, 2, 2, 0]).is_err());
        assert!(fields(&[0x05, 4, 2, 0x05, 4, 2, 0]).is_err());
    }

    #[test]
    fn varints_have_64_bits() {
        let varint = |data: &[u8]| Reader::new(data).varint();
        assert_eq!(varint(&[0xAC, 0x02]).unwrap(), 300);
        let mut most = [0xFF; 10];
        most[9] = 1;
        assert_eq!(varint(&most).unwrap(), u64::MAX);
        most[9] = 2;
        assert!(varint(&most).is_err());
        assert_eq!(Reader::new(&[3]).zigzag().unwrap(), -2);
    }

    #[test]
    fn what_repeats_is_read_whole_and_no_more_often_than_asked() {
        let mut reader = Reader::new(&[2, 0, 2, 0, 2, 0, 2]);
        assert_eq!(reader.repeats(&[2, 0], 2), 2);
        assert_eq!(reader.repeats(&[2, 0], u64::MAX), 1);
        assert_eq!(reader.repeats(&[2, 0], 1), 0);
        assert_eq!(reader.byte().unwrap(), 2);
        assert_eq!(reader.repeats(&[2], 1), 0);
    }

    #[test]
    fn nesting_and_lengths_have_limits() {
        assert!(fields(&[0x1C; 64]).is_err());
        assert!(fields(&[0x19, 0xF5, 0xFF, 0xFF, 0xFF, 0x7F, 0]).is_err());
    }
}
