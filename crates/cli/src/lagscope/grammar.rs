//! The form of lagscope's command line: a letter a word, its value glued to it.
//!
//! `-r`, `-R` and `-P` have a value only if it is glued; the others may also have it as the next
//! word.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;

use crate::options::Usage;

/// The options of a command line by their letters, each with its value if it has one.
#[derive(Debug, Default)]
pub(super) struct Given {
    values: BTreeMap<char, Option<OsString>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// No value.
    Flag,
    /// Perhaps a value, glued.
    Glued,
    /// A value, glued or as the next word.
    Value,
}

impl Given {
    /// Takes the words apart.
    pub(super) fn read(words: &[OsString]) -> Result<Self, Usage> {
        let mut given = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (letter, glued) = split(word)?;
            let form = form(letter)
                .ok_or_else(|| Usage::new(format_args!("{word:?} is not an option of lagscope")))?;
            let value = match form {
                Form::Flag if glued.is_some() => {
                    return Err(Usage::new(format_args!(
                        "{word:?}: -{letter} takes no value; each option is a word of its own"
                    )));
                }
                Form::Flag => None,
                Form::Glued => glued,
                Form::Value => Some(match glued.or_else(|| words.next().cloned()) {
                    Some(value) if !value.is_empty() => value,
                    _ => return Err(Usage::new(format_args!("-{letter}: its value is missing"))),
                }),
            };
            // A flag that is given twice says nothing new; two values contradict each other.
            if given.values.insert(letter, value).is_some() && form != Form::Flag {
                return Err(Usage::new(format_args!("-{letter} is given twice")));
            }
        }
        Ok(given)
    }

    pub(super) fn has(&self, letter: char) -> bool {
        self.values.contains_key(&letter)
    }

    /// Which of these were given.
    pub(super) fn of(&self, letters: &'static str) -> impl Iterator<Item = char> + '_ {
        letters.chars().filter(|&letter| self.has(letter))
    }

    pub(super) fn value(&self, letter: char) -> Option<&OsStr> {
        self.values.get(&letter)?.as_deref()
    }

    /// The value as text that is not empty.
    pub(super) fn text(&self, letter: char) -> Result<Option<String>, Usage> {
        self.value(letter)
            .map(|value| match value.to_str() {
                Some(text) => Ok(text.to_owned()),
                None => Err(Usage::new(format_args!("-{letter}: {value:?} is not text"))),
            })
            .transpose()
    }

    /// The value as a whole number: digits, and nothing else.
    pub(super) fn number(
        &self,
        letter: char,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Usage> {
        let Some(value) = self.value(letter) else {
            return Ok(None);
        };
        let digits = value.as_bytes().iter().all(u8::is_ascii_digit);
        let number = value
            .to_str()
            .filter(|_| digits)
            .and_then(|text| text.parse().ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(Usage::new(format_args!(
                "-{letter}: {value:?} is not a whole number from {} to {}",
                range.start(),
                range.end()
            ))),
        }
    }
}

/// The letter of a word and what is glued to it.
fn split(word: &OsStr) -> Result<(char, Option<OsString>), Usage> {
    match word.as_bytes() {
        b"--help" => Ok(('h', None)),
        [b'-', letter, glued @ ..] if letter.is_ascii_alphanumeric() => {
            let glued = (!glued.is_empty()).then(|| OsStr::from_bytes(glued).to_owned());
            Ok((char::from(*letter), glued))
        }
        _ => Err(Usage::new(format_args!(
            "{word:?} is not an option of lagscope; a value stands behind its letter, as in -n1000"
        ))),
    }
}

fn form(letter: char) -> Option<Form> {
    match letter {
        'D' | '6' | 'H' | 'V' | 'h' => Some(Form::Flag),
        'r' | 'R' | 'P' => Some(Form::Glued),
        's' | 'f' | 'p' | 'o' | 'b' | 'z' | 't' | 'n' | 'i' | 'a' | 'l' | 'c' => Some(Form::Value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Result<Given, String> {
        let words: Vec<OsString> = line.iter().map(Into::into).collect();
        Given::read(&words).map_err(|usage| usage.message)
    }

    #[test]
    fn values_are_glued_or_stand_next() {
        let given = read(&["-s10.0.0.5", "-n", "1000", "-H", "-z4"]).unwrap();
        assert_eq!(given.text('s'), Ok(Some("10.0.0.5".to_owned())));
        assert_eq!(given.number('n', 1..=9999), Ok(Some(1_000)));
        assert_eq!(given.number('z', 1..=9), Ok(Some(4)));
        assert!(given.has('H') && !given.has('V'));
    }

    #[test]
    fn three_options_take_only_what_is_glued_to_them() {
        let given = read(&["-r", "-R", "-P", "-D"]).unwrap();
        assert_eq!(
            (given.value('r'), given.value('R'), given.value('P')),
            (None, None, None)
        );
        let given = read(&["-r::1", "-Rx.csv", "-Px.json"]).unwrap();
        assert_eq!(given.value('R'), Some(OsStr::new("x.csv")));
        assert_eq!(
            read(&["-P", "x.json"]).unwrap_err(),
            "\"x.json\" is not an option of lagscope; a value stands behind its letter, as in -n1000"
        );
    }

    #[test]
    fn a_value_that_is_missing_or_given_twice_names_the_option() {
        assert_eq!(read(&["-n"]).unwrap_err(), "-n: its value is missing");
        assert_eq!(read(&["-s", ""]).unwrap_err(), "-s: its value is missing");
        assert_eq!(read(&["-n5", "-n5"]).unwrap_err(), "-n is given twice");
        assert_eq!(read(&["-R", "-Rx"]).unwrap_err(), "-R is given twice");
        assert!(read(&["-V", "-V"]).is_ok());
    }

    #[test]
    fn what_is_no_option_is_refused() {
        for word in ["", "-", "--", "--npings", "-é", "10.0.0.5"] {
            let message = read(&[word]).unwrap_err();
            assert!(
                message.contains("is not an option of lagscope"),
                "{message}"
            );
        }
        assert_eq!(
            read(&["-u"]).unwrap_err(),
            "\"-u\" is not an option of lagscope"
        );
        assert_eq!(
            read(&["-HP"]).unwrap_err(),
            "\"-HP\": -H takes no value; each option is a word of its own"
        );
    }

    #[test]
    fn numbers_are_digits_within_the_range() {
        for text in [
            "abc", "-1", "+1", "1,5", "0.1", "1e3", "nan", " 1", "0x1", "0", "99", "1 ",
        ] {
            let given = read(&["-c", text]).unwrap();
            assert_eq!(
                given.number('c', 1..=98).unwrap_err().message,
                format!("-c: {text:?} is not a whole number from 1 to 98")
            );
        }
        let given = read(&["-t99999999999999999999999"]).unwrap();
        assert!(given.number('t', 1..=u64::MAX).is_err());
    }
}
