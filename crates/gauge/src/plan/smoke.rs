//! The UDP payload smoke test: which payloads, how many echoes, how long a reply may take.

use std::time::Duration;

use super::{
    DATAGRAM_PAYLOAD_LIMIT_BYTES, MOST_ITERATIONS, PAYLOAD_LEAST_BYTES, PlanError, SETUP_BOUND,
    Transport, check_list, check_range, echo_bound, multiply,
};

/// The UDP payload smoke test.
#[derive(Debug, Clone)]
pub struct SmokePlan {
    /// Payload bytes, in the order of the table.
    pub sizes: Vec<usize>,
    /// Echoes of each size over each path.
    pub iterations: u64,
    /// Echoes before them that are not counted.
    pub warmup: u64,
    /// How long a reply may take.
    pub timeout: Duration,
}

impl Default for SmokePlan {
    fn default() -> Self {
        Self {
            sizes: SMOKE_SIZES.to_vec(),
            iterations: 1_000,
            warmup: 100,
            timeout: Duration::from_secs(1),
        }
    }
}

impl SmokePlan {
    pub(super) fn check(&self) -> Result<(), PlanError> {
        check_list("--sizes", &self.sizes)?;
        for &size in &self.sizes {
            if size > DATAGRAM_PAYLOAD_LIMIT_BYTES {
                return Err(PlanError::new(
                    "--sizes",
                    format!(
                        "{size}: a datagram carries {DATAGRAM_PAYLOAD_LIMIT_BYTES} bytes at most"
                    ),
                ));
            }
            let (least, most) = (PAYLOAD_LEAST_BYTES, DATAGRAM_PAYLOAD_LIMIT_BYTES);
            check_range("--sizes", size as u64, least as u64, most as u64)?;
        }
        check_range("--iterations", self.iterations, 1, MOST_ITERATIONS)?;
        check_range("--warmup", self.warmup, 0, MOST_ITERATIONS)?;
        if self.timeout.is_zero() || self.timeout > MOST_TIMEOUT {
            return Err(PlanError::new(
                "--timeout",
                "more than 0, at most 1 min".to_owned(),
            ));
        }
        Ok(())
    }

    pub(super) fn duration_bound(&self) -> Duration {
        self.sizes
            .iter()
            .map(|&size| multiply(self.path_bound(size), SMOKE_PATHS))
            .sum()
    }

    /// What one path of one payload takes where every reply comes.
    pub(crate) fn path_bound(&self, payload_bytes: usize) -> Duration {
        multiply(
            echo_bound(Transport::Udp, payload_bytes),
            self.warmup + self.iterations,
        ) + SETUP_BOUND
    }
}

const SMOKE_SIZES: [usize; 4] = [1_024, 4_096, 16_384, DATAGRAM_PAYLOAD_LIMIT_BYTES];
/// Raw sockets, reliable, besteffort.
const SMOKE_PATHS: u64 = 3;
const MOST_TIMEOUT: Duration = Duration::from_secs(60);
