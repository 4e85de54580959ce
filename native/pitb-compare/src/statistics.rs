//! What differs between two tensors, in one pass over values that stay in the processor's cache.
//!
//! The answers are those of `pitb.stream.statistics` in Python, to the bit: squares are added in
//! NumPy's order, which is pairwise, and of large tensors chunk by chunk.

use crate::Otherwise;

/// Values whose squares are added by themselves: the order in which an RMSE is added up.
pub const CHUNK: u64 = 1 << 17;
/// Values that NumPy adds up in eight sums; more are cut in two.
const BLOCK: usize = 128;
/// Values that are read at once, of each side.
pub const READ: usize = 1 << 12;
/// The least positive double: a scale of 0 becomes this, and 0 over it is 0.
const TINY: f64 = 5e-324;
const NOT_FINITE: Otherwise = Otherwise("a value is not finite");

/// Of some values of two tensors, or of two whole ones, all finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Of the value that differs most, the first of them.
    pub index: u64,
    /// Its value on the one side.
    pub a: f64,
    /// And on the other.
    pub b: f64,
    /// The largest absolute difference.
    pub max_abs: f64,
    /// The largest one in units in the last place.
    pub max_ulp: u64,
    /// The largest one over the larger of both values.
    pub relative: f64,
    /// The sum of the squares of all differences.
    pub squares: f64,
}

impl Statistics {
    /// Of no values.
    pub const NONE: Self = Self {
        index: 0,
        a: f64::NAN,
        b: f64::NAN,
        max_abs: 0.0,
        max_ulp: 0,
        relative: 0.0,
        squares: 0.0,
    };

    /// Those of these values and of some that follow them.
    pub fn and(self, then: Self) -> Self {
        let worse = if then.max_abs > self.max_abs {
            then
        } else {
            self
        };
        Self {
            max_ulp: self.max_ulp.max(then.max_ulp),
            relative: self.relative.max(then.relative),
            squares: self.squares + then.squares,
            ..worse
        }
    }
}

/// Reads values of both sides: which is the first, and where its bytes and the following go.
pub type Read<'r> = dyn FnMut(u64, &mut [u8], &mut [u8]) -> Result<(), Otherwise> + 'r;

/// Compare `count` values, from `start` of a tensor on.
pub fn compare(
    start: u64,
    count: u64,
    is_f32: bool,
    room: &mut (Vec<u8>, Vec<u8>),
    read: &mut Read,
) -> Result<Statistics, Otherwise> {
    let mut pass = Pass {
        is_f32,
        found: Statistics {
            max_abs: -1.0,
            ..Statistics::NONE
        },
    };
    let squares = pass.read(start, count as usize, room, read)?;
    Ok(Statistics {
        squares,
        ..pass.found
    })
}

struct Pass {
    is_f32: bool,
    found: Statistics,
}

impl Pass {
    /// The sum of the squares of values that are too many to be read at once.
    fn read(
        &mut self,
        start: u64,
        count: usize,
        room: &mut (Vec<u8>, Vec<u8>),
        read: &mut Read,
    ) -> Result<f64, Otherwise> {
        if count > READ {
            let half = halved(count);
            let first = self.read(start, half, room, read)?;
            return Ok(first + self.read(start + half as u64, count - half, room, read)?);
        }
        let (a, b) = (&mut room.0[..8 * count], &mut room.1[..8 * count]);
        read(start, a, b)?;
        self.add(start, a, b)
    }

    /// The sum of the squares, added pairwise.
    fn add(&mut self, start: u64, a: &[u8], b: &[u8]) -> Result<f64, Otherwise> {
        let count = a.len() / 8;
        if count > BLOCK {
            let half = halved(count);
            let ((a, more_a), (b, more_b)) = (a.split_at(8 * half), b.split_at(8 * half));
            let first = self.add(start, a, b)?;
            return Ok(first + self.add(start + half as u64, more_a, more_b)?);
        }
        let mut numbers = [[0.0; BLOCK]; 2];
        for (numbers, bytes) in numbers.iter_mut().zip([a, b]) {
            for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
                *number = f64::from_le_bytes(*bytes);
            }
        }
        self.block(start, &numbers[0][..count], &numbers[1][..count])
    }

    fn block(&mut self, start: u64, a: &[f64], b: &[f64]) -> Result<f64, Otherwise> {
        let (squares, largest) = summed(a, b);
        if !squares.is_finite() {
            return Err(NOT_FINITE);
        }
        if largest > self.found.max_abs {
            let differs = |(a, b): (&f64, &f64)| (a - b).abs() == largest;
            let index = a.iter().zip(b).position(differs).unwrap_or(0);
            let (a, b) = (a[index], b[index]);
            let index = start + index as u64;
            self.found = Statistics {
                index,
                a,
                b,
                max_abs: largest,
                ..self.found
            };
        }
        if largest > 0.0 && self.may_exceed(a, b) {
            for (&a, &b) in a.iter().zip(b) {
                let relative = (a - b).abs() / a.abs().max(b.abs()).max(TINY);
                self.found.relative = self.found.relative.max(relative);
                let ulp = if self.is_f32 {
                    apart_f32(a, b)
                } else {
                    apart_f64(a, b)
                };
                self.found.max_ulp = self.found.max_ulp.max(ulp);
            }
        }
        Ok(squares)
    }

    /// Whether a value may differ more, in ulps or relatively, than those before.
    ///
    /// A relative difference is no more than q = |a - b| / |a|. Each ulp between two values is at
    /// least 2^-p of the smaller one, which is at least |a| (1 - q); p is the precision. A value
    /// that its dtype cannot hold, as in a trace that lies, is rounded by less than one.
    fn may_exceed(&self, a: &[f64], b: &[f64]) -> bool {
        let precision = if self.is_f32 { 24 } else { 53 };
        let most = self.found.max_ulp as f64;
        let ulps = most / ((1_u64 << precision) as f64 + most);
        // The products below are rounded.
        let share = self.found.relative.min(ulps) * (1.0 - 2_f64.powi(-20));
        let mut found = false;
        if self.is_f32 {
            // A product next to 0, which no float32 makes, may be rounded up to the next double.
            for (a, b) in a.iter().zip(b) {
                found |= (a - b).abs() > (a.abs() * share - TINY).max(0.0);
            }
        } else {
            // A product may be too small for a double; a quotient is rounded as any.
            for (a, b) in a.iter().zip(b) {
                found |= (a - b).abs() / a.abs() > share;
            }
        }
        found
    }
}

/// Where NumPy cuts a sum in two.
fn halved(count: usize) -> usize {
    count / 2 - count / 2 % 8
}

/// The sum of the squares of up to `BLOCK` differences, and the largest of them.
fn summed(a: &[f64], b: &[f64]) -> (f64, f64) {
    let mut largest = 0.0;
    let mut squared = |a: f64, b: f64| {
        let difference = (a - b).abs();
        largest = if difference > largest {
            difference
        } else {
            largest
        };
        difference * difference
    };
    if a.len() < 8 {
        let sum = a
            .iter()
            .zip(b)
            .fold(0.0, |sum, (&a, &b)| sum + squared(a, b));
        return (sum, largest);
    }
    let (eights_a, rest_a) = a.as_chunks::<8>();
    let (eights_b, rest_b) = b.as_chunks::<8>();
    let (mut r, mut most) = ([0.0; 8], [0.0; 8]);
    for (a, b) in eights_a.iter().zip(eights_b) {
        for place in 0..8 {
            let difference = (a[place] - b[place]).abs();
            r[place] += difference * difference;
            most[place] = if difference > most[place] {
                difference
            } else {
                most[place]
            };
        }
    }
    let mut sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (&a, &b) in rest_a.iter().zip(rest_b) {
        sum += squared(a, b);
    }
    (sum, most.into_iter().fold(largest, f64::max))
}

/// How many floats of 32 bits lie between two values.
fn apart_f32(a: f64, b: f64) -> u64 {
    let place = |value: f64| {
        let bits = (value as f32).to_bits();
        let size = i64::from(bits & (u32::MAX >> 1));
        if bits >> 31 == 1 { -size } else { size }
    };
    place(a).abs_diff(place(b))
}

/// How many doubles lie between two values.
fn apart_f64(a: f64, b: f64) -> u64 {
    let place = |value: f64| {
        let size = (value.to_bits() & (u64::MAX >> 1)) as i64;
        if value.is_sign_negative() {
            -size
        } else {
            size
        }
    };
    place(a).abs_diff(place(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(a: &[f64], b: &[f64], is_f32: bool) -> Result<Statistics, Otherwise> {
        let bytes = |values: &[f64]| values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let (all_a, all_b): (Vec<u8>, Vec<u8>) = (bytes(a), bytes(b));
        let mut room = (vec![0; 8 * READ], vec![0; 8 * READ]);
        compare(0, a.len() as u64, is_f32, &mut room, &mut |first, a, b| {
            let first = 8 * first as usize;
            a.copy_from_slice(&all_a[first..first + a.len()]);
            b.copy_from_slice(&all_b[first..first + b.len()]);
            Ok(())
        })
    }

    #[test]
    fn the_first_of_the_largest_differences_is_found() {
        let a: Vec<f64> = (0..20_000).map(f64::from).collect();
        let mut b = a.clone();
        assert_eq!(compared(&a, &b, true).unwrap().index, 0);
        b[13_000] += 0.5;
        b[17_000] -= 0.5;
        let found = compared(&a, &b, true).unwrap();
        assert_eq!(
            (found.index, found.a, found.b),
            (13_000, 13_000.0, 13_000.5)
        );
        assert_eq!((found.max_abs, found.squares), (0.5, 0.5));
        assert_eq!(found.relative, 0.5 / 13_000.5);
        assert_eq!(found.max_ulp, 512); // of 2^-10 each
    }

    #[test]
    fn units_in_the_last_place_cross_zero() {
        let least = f64::from(f32::from_bits(1));
        assert_eq!(compared(&[-least], &[least], true).unwrap().max_ulp, 2);
        assert_eq!(compared(&[-0.0], &[0.0], true).unwrap().max_ulp, 0);
        assert_eq!(compared(&[-TINY], &[TINY], false).unwrap().max_ulp, 2);
        assert_eq!(
            compared(&[1.0], &[1.0 + f64::EPSILON], false)
                .unwrap()
                .max_ulp,
            1
        );
    }

    #[test]
    fn a_product_that_is_rounded_up_hides_nothing() {
        let (mut a, mut b) = ([1.0; 256], [1.24; 256]);
        a[128..].fill(5.0 * TINY);
        b[128..].fill(4.0 * TINY);
        assert_eq!(compared(&a, &b, true).unwrap().relative, 0.2);
    }

    #[test]
    fn what_is_not_finite_is_left_alone() {
        for value in [f64::NAN, f64::INFINITY, 1e200] {
            for place in [0, 9, 999] {
                let mut a = vec![1.0; 1000];
                a[place] = value;
                assert!(
                    compared(&a, &vec![1.0; 1000], false).is_err(),
                    "{value} at {place}"
                );
            }
        }
        assert!(compared(&[f64::INFINITY], &[f64::INFINITY], true).is_err());
    }
}
