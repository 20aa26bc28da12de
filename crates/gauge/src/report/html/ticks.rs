//! Where values lie along an axis, and which of them are written beside it.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::plots::{Axis, Scale, Unit};

/// An axis with its ends settled. Its values are the report's; places are its own.
#[derive(Debug, Clone)]
pub(super) struct Ruler {
    log: bool,
    unit: Unit,
    names: Vec<String>,
    /// The ends, as places.
    low: f64,
    high: f64,
    /// Values that are written beside it.
    ticks: Vec<f64>,
}

impl Ruler {
    /// Wide enough for all values.
    pub(super) fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        match &axis.scale {
            Scale::Names(names) => Self::of_names(names),
            Scale::Linear => Self::linear(axis.unit, values),
            Scale::Log => Self::log(axis.unit, values),
        }
    }

    /// The place of a value, on the sheet whatever a file made by hand says; what is not above zero
    /// lies on the lower edge of a log axis.
    fn place(&self, value: f64) -> f64 {
        let place = if !self.log {
            value
        } else if value > 0.0 {
            value.log10()
        } else {
            self.low
        };
        place.clamp(self.low, self.high)
    }

    fn of_names(names: &[String]) -> Self {
        // Every so many, so that sixty CPUs do not write over each other.
        let every = names.len().div_ceil(MOST_NAMES).max(1);
        Self {
            log: false,
            unit: Unit::Plain,
            names: names.to_vec(),
            low: -0.5,
            high: names.len() as f64 - 0.5,
            ticks: (0..names.len())
                .step_by(every)
                .map(|place| place as f64)
                .collect(),
        }
    }

    fn linear(unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let most = match unit {
            Unit::Percent => 100.0,
            _ => values.fold(0.0, f64::max),
        };
        let most = if most > 0.0 { most.min(MOST) } else { 1.0 };
        let step = nice_step(most / LINEAR_STEPS);
        let steps = (most / step + 1e-9).floor() as u32;
        let ticks = (0..=steps).map(|index| f64::from(index) * step);
        Self {
            log: false,
            unit,
            names: Vec::new(),
            low: 0.0,
            high: most * 1.04,
            ticks: ticks.collect(),
        }
    }

    fn log(unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let mut positive: Vec<f64> = values.filter(|&value| value > 0.0).collect();
        positive.sort_by(f64::total_cmp);
        positive.dedup();
        let (first, last) = match (positive.first(), positive.last()) {
            (Some(&first), Some(&last)) => (first.log10(), last.log10()),
            _ => (0.0, 1.0),
        };
        let margin = ((last - first) * 0.04).max(LEAST_MARGIN);
        let (low, high) = match unit {
            Unit::Tail => (first, last + margin),
            // Room below the rarest count for what never came.
            Unit::Plain | Unit::Percent => (first - margin.max(0.2), last + margin),
            Unit::Time | Unit::Bytes | Unit::Seconds => (first - margin, last + margin),
        };
        let ticks = match unit {
            Unit::Bytes => apart(&positive, (high - low) / MOST_PAYLOADS),
            Unit::Tail => tails(last),
            _ => log_values(low, high),
        };
        Self {
            log: true,
            unit,
            names: Vec::new(),
            low,
            high,
            ticks,
        }
    }
}

impl Ranged for Ruler {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (self.place(*value) - self.low) / (self.high - self.low);
        from + (f64::from(to - from) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // No lines between the ticks: they would only make the sheet grey.
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.ticks.clone(),
        }
    }

    fn range(&self) -> Range<f64> {
        match self.log {
            true => 10f64.powf(self.low)..10f64.powf(self.high),
            false => self.low..self.high,
        }
    }
}

impl ValueFormatter<f64> for Ruler {
    fn format_ext(&self, value: &f64) -> String {
        match self.names.get(value.round() as usize) {
            Some(name) => name.clone(),
            None => written(self.unit, *value),
        }
    }
}

/// Of values in order, those that leave room for what is written.
fn apart(values: &[f64], least: f64) -> Vec<f64> {
    let mut kept: Vec<f64> = Vec::new();
    for &value in values {
        if kept
            .last()
            .is_none_or(|last| value.log10() - last.log10() >= least)
        {
            kept.push(value);
        }
    }
    kept
}

/// The fastest one, the median, then every nine.
fn tails(last: f64) -> Vec<f64> {
    let nines = (1..=(last + 1e-9).floor() as i32).map(|nines| 10f64.powi(nines));
    [1.0, 2.0]
        .into_iter()
        .filter(|tail: &f64| tail.log10() <= last)
        .chain(nines)
        .collect()
}

/// Powers of ten, with more between them the fewer there are.
fn log_values(low: f64, high: f64) -> Vec<f64> {
    let within = |digits: &[f64], every: usize| -> Vec<f64> {
        (low.floor() as i32..=high.ceil() as i32)
            .step_by(every)
            .flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade)))
            .filter(|value| (low..=high).contains(&value.log10()))
            .collect()
    };
    if high - low > 10.0 {
        return within(&[1.0], 3);
    }
    let finest: Vec<f64> = (10..100).map(|tenths| f64::from(tenths) / 10.0).collect();
    let choices: [&[f64]; 3] = [
        &[1.0],
        &[1.0, 2.0, 5.0],
        &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
    ];
    choices
        .iter()
        .map(|digits| within(digits, 1))
        .find(|values| values.len() >= LEAST_TICKS)
        .unwrap_or_else(|| within(&finest, 1))
}

/// 1, 2 or 5 of a power of ten, not below what is asked for.
fn nice_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0].map(|digit| digit * decade);
    let step = step.into_iter().find(|&step| step >= least * 0.999);
    step.unwrap_or(10.0 * decade)
}

/// A value as it is written beside its axis.
fn written(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Time => match value {
            _ if value >= 1e9 => format!("{} s", short(value / 1e9)),
            _ if value >= 1e6 => format!("{} ms", short(value / 1e6)),
            _ if value >= 1e3 => format!("{} us", short(value / 1e3)),
            _ => format!("{} ns", short(value)),
        },
        Unit::Tail if value < 1.5 => "min".to_owned(),
        Unit::Tail if value < 2.5 => "p50".to_owned(),
        Unit::Tail => {
            let nines = value.log10().round() as usize;
            match nines {
                1 => "p90".to_owned(),
                2 => "p99".to_owned(),
                _ => format!("p99.{}", "9".repeat(nines - 2)),
            }
        }
        Unit::Bytes => {
            let bytes = value as u64;
            match bytes {
                _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => {
                    format!("{}Mi", bytes >> 20)
                }
                _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => {
                    format!("{}Ki", bytes >> 10)
                }
                _ => bytes.to_string(),
            }
        }
        Unit::Seconds | Unit::Percent => short(value),
        Unit::Plain => match value {
            _ if value >= 1e9 => format!("{}G", short(value / 1e9)),
            _ if value >= 1e6 => format!("{}M", short(value / 1e6)),
            _ if value >= 1e3 => format!("{}k", short(value / 1e3)),
            _ => short(value),
        },
    }
}

/// Without the zeros behind its point, and without what a division left there.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

const LINEAR_STEPS: f64 = 7.0;
const LEAST_TICKS: usize = 3;
const MOST_NAMES: usize = 24;
const MOST_PAYLOADS: f64 = 14.0;
/// Thirty years in nanoseconds: nothing measured is more.
const MOST: f64 = 1e18;
/// A single value has room on both sides.
const LEAST_MARGIN: f64 = 0.03;

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, unit: Unit, values: &[f64]) -> Vec<String> {
        let axis = Axis {
            name: "x",
            scale,
            unit,
        };
        let ruler = Ruler::new(&axis, values.iter().copied());
        let ticks = ruler.ticks.iter();
        ticks.map(|value| ruler.format_ext(value)).collect()
    }

    #[test]
    fn times_are_told_in_the_unit_that_reads_best() {
        assert_eq!(
            labels(Scale::Log, Unit::Time, &[900.0, 2e6]),
            ["1 us", "10 us", "100 us", "1 ms"]
        );
        assert_eq!(
            labels(Scale::Log, Unit::Time, &[9_000.0, 52_000.0]),
            ["10 us", "20 us", "50 us"]
        );
    }

    #[test]
    fn the_tail_is_written_as_percentiles_to_where_it_ends() {
        assert_eq!(
            labels(Scale::Log, Unit::Tail, &[1.0, 1_500.0]),
            ["min", "p50", "p90", "p99", "p99.9"]
        );
    }

    #[test]
    fn payloads_are_written_where_they_were_measured() {
        assert_eq!(
            labels(
                Scale::Log,
                Unit::Bytes,
                &[64.0, 1_024.0, 65_507.0, 65_536.0]
            ),
            ["64", "1Ki", "65507"]
        );
    }

    #[test]
    fn a_linear_axis_begins_at_zero() {
        assert_eq!(
            labels(Scale::Linear, Unit::Seconds, &[10.0]),
            ["0", "2", "4", "6", "8", "10"]
        );
    }

    #[test]
    fn every_axis_has_a_tick_whatever_lies_on_it() {
        for values in [
            &[] as &[f64],
            &[0.0],
            &[1.0],
            &[123_456.0],
            &[1e-9, 1e18],
            &[f64::MAX],
        ] {
            for scale in [Scale::Linear, Scale::Log] {
                let found = labels(scale, Unit::Time, values);
                assert!(
                    !found.is_empty() && found.len() < 40,
                    "{values:?}: {found:?}"
                );
            }
        }
    }
}
