//! What a serial port costs: how long bytes are on its wire, and the plan that this allows.

use std::time::Duration;

use tautline::serial::Parity;
use tautline::{Address, SerialLine};

use super::{LatencyPlan, PlanError, Transport, multiply};

/// How long so many bytes are on the wire: each with its start bit, data, parity and stop bits.
pub fn wire_time(line: &SerialLine, bytes: usize) -> Duration {
    let parity = match line.parity {
        Parity::None => 0,
        Parity::Odd | Parity::Even => 1,
    };
    let bits = u128::from(1 + line.data_bits + parity + line.stop_bits);
    let ns = bytes as u128 * bits * 1_000_000_000 / u128::from(line.baud.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

impl LatencyPlan {
    /// This plan on one port whose ends are joined, with small payloads: a line is slow.
    #[must_use]
    pub fn on_plug(self, line: SerialLine) -> Self {
        Self {
            transports: vec![Transport::Serial],
            sizes: PLUG_SIZES.to_vec(),
            plug: Some(line),
            ..self
        }
    }

    /// This plan with half a minute for each run, unless it has a budget: for echoes on a port that were
    /// not asked for by number.
    #[must_use]
    pub fn half_a_minute_a_run(self) -> Self {
        let runs = (self.cells().len() * self.runs) as u64;
        Self {
            budget: self.budget.or_else(|| Some(multiply(PLUG_RUN, runs))),
            ..self
        }
    }

    pub(super) fn check_plug(&self) -> Result<(), PlanError> {
        let Some(line) = &self.plug else {
            return Ok(());
        };
        let refused = |message: String| Err(PlanError::new("--loopback-plug", message));
        if self.transports != [Transport::Serial] {
            return refused("it is a serial port, and measures no other transport".to_owned());
        }
        let bound = self.duration_bound();
        // Without a budget the echoes were asked for by number.
        if self.budget.is_some() && bound > PLUG_LIMIT {
            let address = Address::Serial(line.clone());
            return refused(format!(
                "{address}: up to {} min; fewer or smaller --sizes, fewer --drivers or --rounds, or say by \
                 --iterations that it shall take as long as it takes",
                bound.as_secs().div_ceil(60)
            ));
        }
        Ok(())
    }
}

const PLUG_SIZES: [usize; 3] = [64, 256, 1_024];
const PLUG_RUN: Duration = Duration::from_secs(30);
/// Above, somebody has to have asked for it.
const PLUG_LIMIT: Duration = Duration::from_secs(60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> SerialLine {
        match format!("serial:///dev/ttyS0?{text}").parse().unwrap() {
            Address::Serial(line) => line,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn every_bit_of_a_character_is_on_the_wire() {
        // 64 B and their prefix of 4: 68 characters of 10 bits, 680 / 115,200 s.
        assert_eq!(wire_time(&line("baud=115200"), 68).as_nanos(), 5_902_777);
        // Start, 7 data, parity, 2 stop: 11 bits; 11,000 / 9,600 s.
        let slow = line("baud=9600&data_bits=7&parity=even&stop_bits=2");
        assert_eq!(wire_time(&slow, 1_000).as_nanos(), 1_145_833_333);
        assert_eq!(wire_time(&line("baud=4000000"), 1).as_nanos(), 2_500);
        assert_eq!(wire_time(&line("baud=50"), 0), Duration::ZERO);
    }

    #[test]
    fn a_plug_has_small_payloads_and_half_a_minute_a_run() {
        let plan = LatencyPlan::default()
            .on_plug(line("baud=115200"))
            .half_a_minute_a_run();
        assert_eq!(plan.sizes, [64, 256, 1_024]);
        assert_eq!(plan.budget, Some(Duration::from_secs(270)));
        plan.check_plug().unwrap();
    }

    #[test]
    fn hours_on_a_slow_line_have_to_be_asked_for_by_number() {
        let mut plan = LatencyPlan::default()
            .on_plug(line("baud=300"))
            .half_a_minute_a_run();
        let said = plan.check_plug().unwrap_err().to_string();
        assert!(
            said.starts_with("--loopback-plug: serial:///dev/ttyS0?baud=300: up to "),
            "{said}"
        );
        plan.budget = None;
        plan.check_plug().unwrap();
        assert!(plan.duration_bound() > Duration::from_secs(24 * 60 * 60));
    }
}
