//! Finding a mark of a few bytes: a delimiter, or a pattern.

/// Where the mark first stands. Linear in the bytes, whatever they are: a mark is short.
#[inline]
pub(super) fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    let found = match mark {
        [byte] => find_byte(bytes, *byte),
        _ => find_long(bytes, mark),
    };
    #[cfg(test)]
    LOOKED_AT.set(LOOKED_AT.get() + found.map_or(bytes.len(), |at| at + mark.len()));
    found
}

/// Where a byte first stands, eight at a time.
#[inline]
pub(super) fn find_byte(bytes: &[u8], wanted: u8) -> Option<usize> {
    const LOW: u64 = u64::MAX / 255;
    const HIGH: u64 = LOW << 7;
    let pattern = LOW * u64::from(wanted);
    let (words, rest) = bytes.as_chunks();
    for (index, word) in words.iter().enumerate() {
        let differing = u64::from_le_bytes(*word) ^ pattern;
        // The lowest bit that stands here is that of the first byte that does not differ.
        let equal = differing.wrapping_sub(LOW) & !differing & HIGH;
        if equal != 0 {
            return Some(8 * index + equal.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|&byte| byte == wanted)?;
    Some(bytes.len() - rest.len() + at)
}

/// Where a mark of several bytes first stands.
fn find_long(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + find_byte(&bytes[from..], mark[0])?;
        if bytes[at..].starts_with(mark) {
            return Some(at);
        }
        from = at + 1;
    }
}

#[cfg(test)]
std::thread_local! {
    /// Bytes that searches have looked at: quadratic work shows here, whatever the machine.
    pub(super) static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Where the mark first stands at `from` or behind it.
#[inline]
pub(super) fn find_from(bytes: &[u8], mark: &[u8], from: usize) -> Option<usize> {
    Some(from + find(bytes.get(from..)?, mark)?)
}

/// From where to look once the first `examined_bytes` were searched in vain: a mark may have begun in
/// their last few.
#[inline]
pub(super) const fn resume(examined_bytes: usize, mark: &[u8]) -> usize {
    examined_bytes.saturating_sub(mark.len() - 1)
}

/// Whether a reader who looks for the first mark behind the payload finds the one that is put there:
/// none inside, and none that begins inside and ends in the mark itself.
#[inline]
pub(super) fn first_is_behind(payload: &[u8], mark: &[u8]) -> bool {
    if find(payload, mark).is_some() {
        return false;
    }
    let reach = (mark.len() - 1).min(payload.len());
    let end = &payload[payload.len() - reach..];
    // Begins with the last n bytes of the payload, goes on with the first of the mark itself.
    !(1..=reach).any(|inside| end.ends_with(&mark[..inside]) && mark.starts_with(&mark[inside..]))
}

/// How many bytes to ask for when nobody knows how many are missing: twice as many, so that searching
/// and moving them stays linear.
#[inline]
pub(super) fn more_than(there_bytes: usize, most_bytes: usize) -> usize {
    (there_bytes + there_bytes.max(STEP_BYTES))
        .min(most_bytes)
        .max(there_bytes + 1)
}

const STEP_BYTES: usize = 256;

/// Says what is wrong with a mark, if something is.
pub(super) fn check(mark: &[u8], name: &str, most_bytes: usize) -> Result<(), String> {
    match mark.len() {
        0 => Err(format!("{name} is empty: nothing would mark a frame")),
        length if length > most_bytes => Err(format!(
            "{name} has {length} bytes, {most_bytes} is the most"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_wherever_it_stands_and_whatever_is_around_it() {
        for length in 0..40 {
            for at in 0..length {
                for (wanted, filler) in [(0, 1), (0, 0x80), (0x80, 0), (0xff, 0xfe), (b'\n', 0x0b)]
                {
                    let mut bytes = vec![filler; length];
                    assert_eq!(find_byte(&bytes, wanted), None);
                    bytes[at..].fill(wanted);
                    assert_eq!(find_byte(&bytes, wanted), Some(at));
                }
            }
        }
    }

    #[test]
    fn a_mark_is_found_behind_its_own_beginnings() {
        assert_eq!(find(b"aaab", b"aab"), Some(1));
        assert_eq!(find(b"\r\r\n", b"\r\n"), Some(1));
        assert_eq!(find(b"\r", b"\r\n"), None);
    }
}
