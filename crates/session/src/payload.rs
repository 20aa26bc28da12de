//! A message as it is handed over: to be copied, or to be kept as it is.

use std::ops::Deref;

use bytes::Bytes;

/// The bytes of a message.
#[derive(Debug, Clone, Copy)]
pub enum Payload<'a> {
    /// Whoever has to keep them copies them.
    Borrowed(&'a [u8]),
    /// Whoever has to keep them may share them.
    Owned(&'a Bytes),
}

impl Deref for Payload<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Borrowed(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Payload<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Borrowed(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Payload<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Borrowed(bytes)
    }
}

impl<'a> From<&'a Bytes> for Payload<'a> {
    fn from(bytes: &'a Bytes) -> Self {
        Self::Owned(bytes)
    }
}
