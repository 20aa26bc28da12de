//! Unix names as text: kernel names are any bytes, an address is one printable word.

use std::fmt;

use super::Fault;

/// Prints a Unix name so that it stays one word and parses back: kernel names are any bytes.
pub(super) fn write_escaped(f: &mut fmt::Formatter<'_>, name: &[u8]) -> fmt::Result {
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if needs_escape(letter) {
                let mut buffer = [0; 4];
                write_percent(f, letter.encode_utf8(&mut buffer).as_bytes())?;
            } else {
                write!(f, "{letter}")?;
            }
        }
        write_percent(f, chunk.invalid())?;
    }
    Ok(())
}

fn write_percent(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "%{byte:02X}"))
}

/// `?` and `#` are kept free for parameters.
fn needs_escape(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control() || "%?#".contains(letter)
}

pub(super) fn unescape(text: &str) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        rest = match letter {
            '%' => {
                bytes.push(percent_byte(after).ok_or_else(|| {
                    Fault::syntax("a % is followed by two hexadecimal digits; itself it is %25")
                })?);
                &after[2..]
            }
            '\0' => return Err(Fault::syntax("a path has no NUL")),
            '?' | '#' => {
                return Err(Fault::syntax(format!(
                    "a Unix socket takes no parameters; in a name write %{:02X} for {letter}",
                    u32::from(letter)
                )));
            }
            _ if letter.is_whitespace() => {
                return Err(Fault::syntax(
                    "an address has no spaces; in a name write %20",
                ));
            }
            _ if letter.is_control() => {
                return Err(Fault::syntax("an address has no control characters"));
            }
            _ => {
                bytes.extend_from_slice(&rest.as_bytes()[..letter.len_utf8()]);
                after
            }
        };
    }
    Ok(bytes)
}

fn percent_byte(after: &str) -> Option<u8> {
    let digits = after.get(..2)?;
    // `from_str_radix` takes a sign.
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u8::from_str_radix(digits, 16).ok())?
}
