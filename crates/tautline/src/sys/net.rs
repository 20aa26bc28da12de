//! Network interfaces by name and number.

use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

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

/// `getifaddrs(3)`: the number of an interface that has this address; `None` if there is none.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn interface_of(address: IpAddr) -> io::Result<Option<u32>> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the call writes one pointer, and `list` is one.
    super::retry(|| unsafe { libc::getifaddrs(&mut list) as isize })?;
    let mut found = None;
    let mut entry = list;
    // SAFETY: the list is valid, whole and ours until it is freed below, once.
    unsafe {
        while let Some(listed) = entry.as_ref() {
            if ip_at(listed.ifa_addr) == Some(address) {
                found = Some(libc::if_nametoindex(listed.ifa_name)).filter(|index| *index != 0);
                if found.is_some() {
                    break;
                }
            }
            entry = listed.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    Ok(found)
}

/// The IP address in a socket address, if it is one.
///
/// # Safety
///
/// `address` is null, or points to a socket address as long as its family says.
#[expect(unsafe_code, reason = "libc's types for addresses overlap")]
unsafe fn ip_at(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: by the promise, here and below.
    let family = unsafe { address.as_ref()? }.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: as above; it may be unaligned.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above; it may be unaligned.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
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
    fn an_interface_is_found_by_its_address() {
        let index = if_nametoindex("lo").unwrap();
        assert_eq!(interface_of([127, 0, 0, 1].into()).unwrap(), Some(index));
        assert_eq!(interface_of([198, 51, 100, 1].into()).unwrap(), None);
    }

    #[test]
    fn an_unknown_interface_is_an_error() {
        assert!(if_nametoindex("nosuchif0").is_err());
        assert!(if_nametoindex("a\0b").is_err());
        assert!(if_indextoname(u32::MAX).is_err());
    }
}
