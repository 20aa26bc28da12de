//! The transports, and fresh addresses on them.

use std::path::PathBuf;

use tautline::{Address, Framing, Tls, UdsName};
use tempfile::TempDir;

use super::certificates::trusting;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Tls,
    Uds,
    Udp,
    Serial,
}

/// Named as in the tables.
pub(crate) const fn tcp() -> Transport {
    Transport::Tcp
}

#[cfg_attr(
    not(feature = "tls"),
    expect(dead_code, reason = "no test runs over it")
)]
pub(crate) const fn tls() -> Transport {
    Transport::Tls
}

pub(crate) const fn uds() -> Transport {
    Transport::Uds
}

pub(crate) const fn udp() -> Transport {
    Transport::Udp
}

/// Pseudo-terminals.
#[cfg(feature = "serial")]
pub(crate) const fn serial() -> Transport {
    Transport::Serial
}

impl Transport {
    pub(crate) const fn is_stream(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// So much room in the kernel for what is sent, where that can be chosen. A pseudo-terminal has some
    /// 12 KiB.
    pub(crate) fn send_buffer(self, bytes: usize) -> Option<usize> {
        (self != Self::Serial).then_some(bytes)
    }

    /// What keeps the borders of messages here.
    pub(crate) const fn framing(self) -> Framing {
        match self {
            Self::Tcp | Self::Tls | Self::Uds | Self::Serial => Framing::length_prefix(),
            Self::Udp => Framing::Raw,
        }
    }

    /// What the transport itself has to be told.
    pub(crate) fn tls(self) -> Tls {
        match self {
            Self::Tls => trusting(),
            Self::Tcp | Self::Uds | Self::Udp | Self::Serial => Tls::default(),
        }
    }

    /// What a message weighs here.
    pub(crate) const fn encoded(self, payload_bytes: usize) -> usize {
        match self {
            Self::Tcp | Self::Tls | Self::Uds | Self::Serial => 4 + payload_bytes,
            Self::Udp => payload_bytes,
        }
    }
}

/// An address that nobody uses, with the folder it stands in.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) address: Address,
    _folder: Option<TempDir>,
}

/// Somewhere to listen.
pub(crate) fn fresh(transport: Transport) -> Place {
    let (address, folder) = match transport {
        Transport::Tcp => ("tcp://127.0.0.1:0".parse().unwrap(), None),
        Transport::Tls => ("tls://127.0.0.1:0".parse().unwrap(), None),
        Transport::Udp => ("udp://127.0.0.1:0".parse().unwrap(), None),
        // Where nobody can listen, and no device is.
        Transport::Serial => ("serial:///dev/ttyNONE7".parse().unwrap(), None),
        Transport::Uds => {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("x.sock");
            (Address::Uds(UdsName::Path(path)), Some(folder))
        }
    };
    Place {
        address,
        _folder: folder,
    }
}

impl Place {
    /// One that lives as long as a folder.
    pub(crate) const fn within(address: Address, folder: TempDir) -> Self {
        Self {
            address,
            _folder: Some(folder),
        }
    }

    /// An address that needs no folder.
    pub(crate) fn of(address: &str) -> Self {
        Self {
            address: address.parse().unwrap(),
            _folder: None,
        }
    }

    /// The file of a Unix socket.
    pub(crate) fn path(&self) -> PathBuf {
        match &self.address {
            Address::Uds(UdsName::Path(path)) => path.clone(),
            other => panic!("{other} has no file"),
        }
    }
}
