//! The plan of a `stream`: what will be measured, validated once.

use std::time::Duration;

use tautline::{Address, Strategy, Tls};

use crate::line;
use crate::plan::{
    DATAGRAM_PAYLOAD_LIMIT_BYTES, PAYLOAD_LEAST_BYTES, PlacementPlan, PlanError,
    STREAM_PAYLOAD_LIMIT_BYTES,
};
use crate::wire::HEADER_BYTES;

/// What one invocation of `stream` measures: every address with every size, one after the other.
#[derive(Debug, Clone)]
pub struct StreamPlan {
    /// Where servers are.
    pub addresses: Vec<Address>,
    /// Bytes of a message, framing not counted.
    pub sizes: Vec<usize>,
    /// What the link does when its queue is full.
    pub strategy: Strategy,
    /// What the link gives up instead of writing: whatever waited longer. `None` is nothing.
    pub max_queue_delay: Option<Duration>,
    /// Messages a second on an absolute schedule; `None` is as fast as they go.
    pub rate_hz: Option<f64>,
    /// How long messages are sent in each cell.
    pub duration: Duration,
    /// Whom to trust over TLS, and who we are there.
    pub tls: Tls,
    /// Where threads run and how the machine is held.
    pub placement: PlacementPlan,
}

impl Default for StreamPlan {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            sizes: vec![1_024],
            strategy: Strategy::Reliable,
            max_queue_delay: None,
            rate_hz: None,
            duration: Duration::from_secs(10),
            tls: Tls::default(),
            placement: PlacementPlan::default(),
        }
    }
}

impl StreamPlan {
    /// The same plan, if it can be measured.
    ///
    /// # Errors
    ///
    /// Names the first option that cannot be followed, and why.
    pub fn checked(self) -> Result<Self, PlanError> {
        if self.duration.is_zero() {
            let why = "it has to be above 0".to_owned();
            return Err(PlanError::new("-t", why));
        }
        if let Some(why) = self.why_no_queue_delay() {
            return Err(PlanError::new("--max-queue-delay", why.to_owned()));
        }
        if let Some(rate_hz) = self.rate_hz
            && !(LEAST_RATE_HZ..=MOST_RATE_HZ).contains(&rate_hz)
        {
            let why = format!("{rate_hz} is not within {LEAST_RATE_HZ} to {MOST_RATE_HZ}");
            return Err(PlanError::new("--rate", why));
        }
        for address in &self.addresses {
            for &size in &self.sizes {
                check_size(address, size)?;
            }
        }
        self.placement.check()?;
        Ok(self)
    }

    fn why_no_queue_delay(&self) -> Option<&'static str> {
        match self.max_queue_delay {
            Some(Duration::ZERO) => Some("0 would give up every message that waits at all"),
            Some(_) if self.strategy == Strategy::Reliable => {
                Some("reliable gives up nothing; take --strategy besteffort or keeplatest")
            }
            _ => None,
        }
    }

    /// How long it takes at most when nothing goes wrong.
    #[must_use]
    pub fn duration_bound(&self) -> Duration {
        let each = self.addresses.iter().map(|address| match address {
            Address::Serial(line) => CELL_OVERHEAD + 6 * line::patience(line),
            Address::Tcp { .. } | Address::Tls { .. } | Address::Udp { .. } | Address::Uds(_) => {
                CELL_OVERHEAD
            }
        });
        let cells = each
            .map(|overhead| self.duration.saturating_add(overhead))
            .fold(Duration::ZERO, Duration::saturating_add);
        cells.saturating_mul(self.sizes.len() as u32)
    }
}

fn check_size(address: &Address, size: usize) -> Result<(), PlanError> {
    let (least, most) = match address {
        Address::Tcp { .. } | Address::Tls { .. } | Address::Uds(_) => {
            (PAYLOAD_LEAST_BYTES, STREAM_PAYLOAD_LIMIT_BYTES)
        }
        Address::Udp { .. } | Address::Serial(_) => (HEADER_BYTES, DATAGRAM_PAYLOAD_LIMIT_BYTES),
    };
    if (least..=most).contains(&size) {
        return Ok(());
    }
    let scheme = address.scheme();
    let why = format!("{size} is not within {least} to {most}, as over {scheme}");
    Err(PlanError::new("--size", why))
}

/// Once in a quarter of an hour.
const LEAST_RATE_HZ: f64 = 0.001;
/// More than any machine sends.
const MOST_RATE_HZ: f64 = 1e9;
/// Connecting, and what waits at the end, on a quiet machine.
const CELL_OVERHEAD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(address: &str, size: usize, rate_hz: Option<f64>) -> Result<StreamPlan, String> {
        let plan = StreamPlan {
            addresses: vec![address.parse().unwrap()],
            sizes: vec![size],
            rate_hz,
            ..StreamPlan::default()
        };
        plan.checked().map_err(|why| why.to_string())
    }

    #[test]
    fn each_transport_has_its_sizes() {
        assert!(checked("tcp://h:1", 16, None).is_ok());
        assert!(checked("uds://@a", 1_048_572, None).is_ok());
        assert!(checked("udp://h:1", 65_507, None).is_ok());
        let refused = |address, size| checked(address, size, None).unwrap_err();
        assert_eq!(
            refused("tcp://h:1", 15),
            "--size: 15 is not within 16 to 1048572, as over tcp"
        );
        assert_eq!(
            refused("udp://h:1", 31),
            "--size: 31 is not within 32 to 65507, as over udp"
        );
        assert!(checked("tls://h:1", 16, None).is_ok());
        assert_eq!(
            refused("serial:///dev/ttyS0", 31),
            "--size: 31 is not within 32 to 65507, as over serial"
        );
    }

    #[test]
    fn a_queue_delay_is_not_for_reliable_and_not_0() {
        let checked = |strategy, max_queue_delay| {
            let plan = StreamPlan {
                strategy,
                max_queue_delay: Some(max_queue_delay),
                ..StreamPlan::default()
            };
            plan.checked().map(|_| ()).map_err(|why| why.to_string())
        };
        let ms = Duration::from_millis(1);
        assert_eq!(
            checked(Strategy::Reliable, ms).unwrap_err(),
            "--max-queue-delay: reliable gives up nothing; take --strategy besteffort or keeplatest"
        );
        assert_eq!(
            checked(Strategy::BestEffort, Duration::ZERO).unwrap_err(),
            "--max-queue-delay: 0 would give up every message that waits at all"
        );
        assert_eq!(checked(Strategy::BestEffort, ms), Ok(()));
        assert_eq!(checked(Strategy::KeepLatest, ms), Ok(()));
    }

    #[test]
    fn a_rate_has_bounds() {
        for rate in [0.0, -1.0, 1e-12, 1e10, f64::NAN, f64::INFINITY] {
            assert!(checked("tcp://h:1", 64, Some(rate)).is_err(), "{rate}");
        }
        assert!(checked("tcp://h:1", 64, Some(0.001)).is_ok());
    }

    #[test]
    fn hours_do_not_overflow() {
        let plan = StreamPlan {
            addresses: vec!["tcp://h:1".parse().unwrap(); 3],
            duration: Duration::MAX,
            ..StreamPlan::default()
        };
        assert_eq!(plan.duration_bound(), Duration::MAX);
    }
}
