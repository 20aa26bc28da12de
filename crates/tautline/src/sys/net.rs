//! Network interfaces by name and number.

use std::ffi::{CStr, CString};
use std::io;

/// `if_nametoindex(3)`: the number of an interface.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn if_nametoindex(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: `name` is a C string that lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// `if_indextoname(3)`: the name of an interface.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn if_indextoname(index: u32) -> io::Result<String> {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: `name` has the IF_NAMESIZE bytes that the call may write.
    let result = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
    if result.is_null() {
        return Err(io::Error::last_os_error());
    }
    CStr::from_bytes_until_nul(&name)
        .ok()
        .and_then(|name| name.to_str().ok())
        .map(str::to_owned)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_known_both_ways() {
        let index = if_nametoindex("lo").unwrap();
        assert_eq!(if_indextoname(index).unwrap(), "lo");
    }

    #[test]
    fn an_unknown_interface_is_an_error() {
        assert!(if_nametoindex("nosuchif0").is_err());
        assert!(if_nametoindex("a\0b").is_err());
        assert!(if_indextoname(u32::MAX).is_err());
    }
}
