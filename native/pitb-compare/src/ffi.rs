//! What Python calls, through `ctypes`: bytes in, bytes out.
#![allow(unsafe_code)]

use std::panic::catch_unwind;
use std::ptr;

use crate::{Request, compare};

/// The sources that this was built from, one after the other by their names: Python uses no
/// library that was built from others.
const SOURCES: &str = concat!(
    include_str!("columns.rs"),
    include_str!("contents.rs"),
    include_str!("ffi.rs"),
    include_str!("layout.rs"),
    include_str!("lib.rs"),
    include_str!("statistics.rs"),
    include_str!("thrift.rs"),
    include_str!("work.rs"),
);

/// Where `SOURCES` stand; `length` is set to their length.
///
/// # Safety
///
/// `length` points to a number that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pitb_sources(length: *mut usize) -> *const u8 {
    // SAFETY: as the caller promises.
    unsafe { *length = SOURCES.len() };
    SOURCES.as_ptr()
}

/// Compare two files; `request` is JSON, and the answer's length is left in `length`.
///
/// Returns null where the comparison is left to Python. An answer is given back to `pitb_free`.
///
/// # Safety
///
/// `request` points to as many bytes as `length` says, which may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pitb_compare(request: *const u8, length: *mut usize) -> *mut u8 {
    // SAFETY: as the caller promises.
    let text = unsafe { std::slice::from_raw_parts(request, *length) };
    let found = catch_unwind(|| {
        let request: Request = serde_json::from_slice(text).ok()?;
        compare(&request).ok()
    });
    let Ok(Some(answer)) = found else {
        return ptr::null_mut();
    };
    let answer = Box::leak(answer.into_boxed_slice());
    // SAFETY: as the caller promises.
    unsafe { *length = answer.len() };
    answer.as_mut_ptr()
}

/// Take back an answer of `pitb_compare`.
///
/// # Safety
///
/// Both are what `pitb_compare` gave, and are not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pitb_free(answer: *mut u8, length: usize) {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(answer, length)) });
}
