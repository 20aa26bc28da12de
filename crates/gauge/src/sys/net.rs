//! Network interfaces by name.

use std::ffi::CString;
use std::io;

/// `if_nametoindex`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn if_nametoindex(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    // SAFETY: `name` ends with a zero byte and lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}
