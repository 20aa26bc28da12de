//! The figures that a gate can name: where each stands in the report, its unit, what it needs.

use std::fmt;

use crate::quantity;
use crate::report::ping::{PingCell, Times};
use crate::report::soak::Phase;
use crate::report::stream::StreamRow;
use crate::report::wakeup::WakeupRow;
use crate::report::{DriverRow, LatencyRow, Percentile, RttSummary, StrategyRow};

/// One figure by name.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    /// The percentile it is, if it is one: then it needs enough samples.
    percentile: Option<Percentile>,
    pub(super) latency: Option<fn(&Echoes<'_>) -> Option<f64>>,
    pub(super) strategy: Option<fn(&StrategyRow) -> Option<f64>>,
    pub(super) ping: Option<fn(&PingCell) -> Option<f64>>,
    pub(super) wakeup: Option<fn(&WakeupRow) -> Option<f64>>,
    pub(super) soak: Option<fn(&Phase) -> Option<f64>>,
    /// Of a stream to a server.
    pub(super) streamed: Option<fn(&StreamRow) -> Option<f64>>,
}

/// One row that a gate is judged on.
#[derive(Debug)]
pub(super) enum Row<'a> {
    Echo(Echoes<'a>),
    Stream(&'a StrategyRow),
    Ping(&'a PingCell),
    Timer(&'a WakeupRow),
    Soak(&'a Phase),
    /// A stream to a server.
    Streamed(&'a StreamRow),
}

/// The round trips of one driver in one cell.
#[derive(Debug)]
pub(super) struct Echoes<'a> {
    row: &'a LatencyRow,
    driver: &'a str,
    summary: &'a RttSummary,
    beside: Option<&'a DriverRow>,
}

/// What a figure is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Nanoseconds; typed with a unit.
    Time,
    /// A plain number, a ratio or a rate.
    Number,
    Percent,
    /// Bytes; typed as a size.
    Bytes,
}

impl Figure {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        FIGURES.iter().find(|figure| figure.name == name)
    }

    pub(super) fn names() -> Vec<&'static str> {
        FIGURES.iter().map(|figure| figure.name).collect()
    }

    /// Its value in a row of a table that has it.
    pub(super) fn of(&self, row: &Row<'_>) -> Result<f64, String> {
        let value = match row {
            Row::Echo(echoes) => self.latency.and_then(|of| of(echoes)),
            Row::Stream(stream) => self.strategy.and_then(|of| of(stream)),
            Row::Ping(cell) => self.ping.and_then(|of| of(cell)),
            Row::Timer(timer) => self.wakeup.and_then(|of| of(timer)),
            Row::Soak(phase) => self.soak.and_then(|of| of(phase)),
            Row::Streamed(row) => self.streamed.and_then(|of| of(row)),
        };
        value.ok_or_else(|| match (row, self.percentile) {
            (Row::Ping(cell), _) if self.name.starts_with('p') => {
                absent_percentile(self.name, judged(cell))
            }
            (Row::Echo(echoes), Some(percentile)) => format!(
                "needs {} samples and has {}",
                percentile.least_samples(),
                echoes.summary.count
            ),
            _ => "was not measured".to_owned(),
        })
    }

    /// A figure that no table has yet.
    const fn of_none(name: &'static str, unit: Unit) -> Self {
        Self {
            name,
            unit,
            percentile: None,
            latency: None,
            strategy: None,
            ping: None,
            wakeup: None,
            soak: None,
            streamed: None,
        }
    }

    const fn echo(name: &'static str, unit: Unit, of: fn(&Echoes<'_>) -> Option<f64>) -> Self {
        Self {
            latency: Some(of),
            ..Self::of_none(name, unit)
        }
    }

    const fn percentile(
        name: &'static str,
        percentile: Percentile,
        of: fn(&Echoes<'_>) -> Option<f64>,
    ) -> Self {
        Self {
            percentile: Some(percentile),
            ..Self::echo(name, Unit::Time, of)
        }
    }

    const fn stream(name: &'static str, unit: Unit, of: fn(&StrategyRow) -> Option<f64>) -> Self {
        Self {
            strategy: Some(of),
            ..Self::of_none(name, unit)
        }
    }

    const fn ping(name: &'static str, unit: Unit, of: fn(&PingCell) -> Option<f64>) -> Self {
        Self::of_none(name, unit).and_ping(of)
    }

    /// Also of a ping.
    const fn and_ping(self, of: fn(&PingCell) -> Option<f64>) -> Self {
        Self {
            ping: Some(of),
            ..self
        }
    }

    /// Also of timers.
    const fn timed(self, of: fn(&WakeupRow) -> Option<f64>) -> Self {
        Self {
            wakeup: Some(of),
            ..self
        }
    }

    /// Also of a soak.
    const fn soaked(self, of: fn(&Phase) -> Option<f64>) -> Self {
        Self {
            soak: Some(of),
            ..self
        }
    }

    const fn streamed(name: &'static str, unit: Unit, of: fn(&StreamRow) -> Option<f64>) -> Self {
        Self::of_none(name, unit).and_streamed(of)
    }

    /// Also of a stream to a server.
    const fn and_streamed(self, of: fn(&StreamRow) -> Option<f64>) -> Self {
        Self {
            streamed: Some(of),
            ..self
        }
    }

    const fn both(
        name: &'static str,
        latency: fn(&Echoes<'_>) -> Option<f64>,
        strategy: fn(&StrategyRow) -> Option<f64>,
    ) -> Self {
        Self {
            strategy: Some(strategy),
            ..Self::echo(name, Unit::Number, latency)
        }
    }
}

/// In the order of the tables.
const FIGURES: &[Figure] = &[
    Figure::echo("min", Unit::Time, |e| e.summary.min_ns.map(|ns| ns as f64))
        .and_ping(|c| judged(c).min_ns.map(|ns| ns as f64))
        .timed(|w| w.min_ns.map(|ns| ns as f64))
        .soaked(|s| s.rtt.min_ns.map(|ns| ns as f64)),
    Figure::echo("mean", Unit::Time, |e| e.summary.mean_ns)
        .and_ping(|c| judged(c).mean_ns)
        .timed(|w| w.mean_ns)
        .soaked(|s| s.rtt.mean_ns),
    Figure::percentile("p50", Percentile::P50, |e| {
        e.summary.p50_ns.map(|ns| ns as f64)
    })
    .and_ping(|c| percentile_of(c, 50.0))
    .timed(|w| w.p50_ns.map(|ns| ns as f64))
    .soaked(|s| s.rtt.p50_ns.map(|ns| ns as f64)),
    Figure::percentile("p95", Percentile::P95, |e| {
        e.summary.p95_ns.map(|ns| ns as f64)
    })
    .and_ping(|c| percentile_of(c, 95.0)),
    Figure::percentile("p99", Percentile::P99, |e| {
        e.summary.p99_ns.map(|ns| ns as f64)
    })
    .and_ping(|c| percentile_of(c, 99.0))
    .timed(|w| w.p99_ns.map(|ns| ns as f64))
    .soaked(|s| s.rtt.p99_ns.map(|ns| ns as f64)),
    Figure::percentile("p99.9", Percentile::P999, |e| {
        e.summary.p999_ns.map(|ns| ns as f64)
    })
    .and_ping(|c| percentile_of(c, 99.9))
    .timed(|w| w.p999_ns.map(|ns| ns as f64))
    .soaked(|s| s.rtt.p999_ns.map(|ns| ns as f64)),
    Figure::echo("max", Unit::Time, |e| e.summary.max_ns.map(|ns| ns as f64))
        .and_ping(|c| judged(c).max_ns.map(|ns| ns as f64))
        .timed(|w| w.max_ns.map(|ns| ns as f64))
        .soaked(|s| s.rtt.max_ns.map(|ns| ns as f64)),
    Figure::echo("over_5ms", Unit::Number, |e| {
        e.of_row(|row| Some(row.over_5ms as f64))
    })
    .and_ping(|c| over(c, |times| times.over_5ms))
    .soaked(|s| Some(s.over_5ms as f64)),
    Figure::echo("over_10ms", Unit::Number, |e| {
        e.of_row(|row| Some(row.over_10ms as f64))
    })
    .and_ping(|c| over(c, |times| times.over_10ms))
    .soaked(|s| Some(s.over_10ms as f64)),
    Figure::echo("over_50ms", Unit::Number, |e| {
        e.of_row(|row| Some(row.over_50ms as f64))
    }),
    Figure::echo("messages_per_s", Unit::Number, |e| {
        e.of_row(|row| row.messages_per_s)
    }),
    Figure::echo("mib_per_s", Unit::Number, |e| e.of_row(|row| row.mib_per_s))
        .and_streamed(|s| s.mib_per_s),
    Figure::echo("ratio_low", Unit::Number, |e| e.beside?.ratio_low),
    Figure::echo("ratio_high", Unit::Number, |e| e.beside?.ratio_high),
    Figure::both("ratio", |e| e.beside?.p50_ratio, |s| s.control.ratio),
    Figure::both(
        "lost",
        |e| e.measured(e.summary.lost),
        |s| Some(s.lost_messages as f64),
    )
    .and_ping(|c| tried(c, c.lost))
    .and_streamed(|s| told(s.lost)),
    Figure::both(
        "corrupted",
        |e| e.measured(e.summary.corrupted),
        |s| Some(s.integrity.corrupted as f64),
    )
    .and_ping(|c| tried(c, c.corrupted))
    .and_streamed(|s| told(s.corrupted))
    .soaked(|s| Some(s.senders.iter().map(|sender| sender.corrupted).sum::<u64>() as f64)),
    Figure::stream("accepted_mib_per_s", Unit::Number, |s| s.accepted_mib_per_s),
    Figure::stream("received_mib_per_s", Unit::Number, |s| s.received_mib_per_s),
    Figure::stream("delivery", Unit::Percent, |s| s.delivery_percent),
    Figure::stream("failed_sends", Unit::Number, |s| {
        Some(s.failed_sends as f64)
    }),
    Figure::stream("dropped", Unit::Number, |s| Some(s.dropped_messages as f64)),
    Figure::stream("max_queue", Unit::Bytes, |s| Some(s.max_queue_kib * 1024.0))
        .and_streamed(|s| Some(s.max_queue_kib * 1024.0)),
    Figure::stream("pressure_events", Unit::Number, |s| {
        Some(s.pressure_events as f64)
    })
    .and_streamed(|s| Some(s.pressure_events as f64)),
    Figure::stream("duplicates", Unit::Number, |s| {
        Some(s.integrity.duplicates as f64)
    })
    .and_streamed(|s| told(s.duplicates)),
    Figure::stream("reordered", Unit::Number, |s| {
        Some(s.integrity.reordered as f64)
    })
    .and_ping(|c| tried(c, c.reordered))
    .and_streamed(|s| told(s.reordered)),
    Figure::ping("p75", Unit::Time, |c| percentile_of(c, 75.0)),
    Figure::ping("p90", Unit::Time, |c| percentile_of(c, 90.0)),
    Figure::ping("p99.99", Unit::Time, |c| percentile_of(c, 99.99))
        .soaked(|s| s.rtt.p9999_ns.map(|ns| ns as f64)),
    Figure::ping("p99.999", Unit::Time, |c| percentile_of(c, 99.999))
        .soaked(|s| s.rtt.p99999_ns.map(|ns| ns as f64)),
    Figure::ping("over_1ms", Unit::Number, |c| {
        over(c, |times| times.over_1ms)
    })
    .soaked(|s| Some(s.over_1ms as f64)),
    Figure::ping("over_20ms", Unit::Number, |c| {
        over(c, |times| times.over_20ms)
    })
    .soaked(|s| Some(s.over_20ms as f64)),
    Figure::ping("sent", Unit::Number, |c| Some(c.sent as f64)),
    Figure::ping("received", Unit::Number, |c| Some(c.received as f64)),
    Figure::ping("lost_percent", Unit::Percent, |c| {
        tried(c, c.lost).map(|lost| lost * 100.0 / c.sent as f64)
    }),
    Figure::ping("duplicate", Unit::Number, |c| tried(c, c.duplicate)),
    Figure::ping("late", Unit::Number, |c| tried(c, c.late)),
    Figure::ping("late_sends", Unit::Number, |c| {
        c.late_sends.map(|late| late as f64)
    }),
    Figure::ping("achieved_rate", Unit::Number, |c| c.achieved_rate_hz),
    Figure::ping("retransmits", Unit::Number, |c| {
        c.path.retransmits.map(|count| count as f64)
    }),
    Figure::streamed("offered", Unit::Number, |s| Some(s.offered as f64)),
    Figure::streamed("accepted", Unit::Number, |s| Some(s.accepted as f64)),
    Figure::streamed("refused", Unit::Number, |s| Some(s.refused as f64)),
    Figure::streamed("evicted", Unit::Number, |s| Some(s.evicted as f64)),
    Figure::streamed("too_old", Unit::Number, |s| Some(s.too_old as f64)),
    Figure::streamed("delivered", Unit::Number, |s| told(s.delivered)),
    Figure::streamed("gbit_per_s", Unit::Number, |s| s.gbit_per_s),
    Figure::streamed("queue_delay_p50", Unit::Time, |s| {
        told(s.queue_delay.p50_ns)
    }),
    Figure::streamed("queue_delay_p99", Unit::Time, |s| {
        told(s.queue_delay.p99_ns)
    }),
    Figure::streamed("queue_delay_max", Unit::Time, |s| {
        told(s.queue_delay.max_ns)
    }),
];

/// What is known only where the server told it, or enough messages were queued.
fn told(figure: Option<u64>) -> Option<f64> {
    figure.map(|figure| figure as f64)
}

/// What a gate judges: in open loop the response, which is what a user of the server sees.
fn judged(cell: &PingCell) -> &Times {
    cell.response.as_ref().unwrap_or(&cell.rtt)
}

fn percentile_of(cell: &PingCell, percent: f64) -> Option<f64> {
    let all = &judged(cell).percentiles;
    let of = all.iter().find(|of| of.percentile == percent)?;
    of.value_ns.map(|ns| ns as f64)
}

/// A count of times, where there are times.
fn over(cell: &PingCell, of: fn(&Times) -> u64) -> Option<f64> {
    let times = judged(cell);
    (times.count > 0).then(|| of(times) as f64)
}

/// A count of pings, if any was sent.
fn tried(cell: &PingCell, count: u64) -> Option<f64> {
    (cell.sent > 0).then_some(count as f64)
}

fn absent_percentile(name: &str, times: &Times) -> String {
    let of = times
        .percentiles
        .iter()
        .find(|of| name.strip_prefix('p') == Some(&of.percentile.to_string()));
    match of {
        Some(of) => of.reason.clone().unwrap_or_default(),
        None => format!("is not among --percentiles: add {}", &name[1..]),
    }
}

/// A line each: both tables of `bench`, latency, strategy; ping; timers; soak; streams to a server.
pub(super) fn by_table() -> String {
    let of = |latency: bool, strategy: bool| {
        let names: Vec<&str> = FIGURES
            .iter()
            .filter(|figure| {
                (figure.latency.is_some(), figure.strategy.is_some()) == (latency, strategy)
            })
            .map(|figure| figure.name)
            .collect();
        names.join(" ")
    };
    let among = |there: fn(&Figure) -> bool| {
        let names = FIGURES.iter().filter(|figure| there(figure));
        names
            .map(|figure| figure.name)
            .collect::<Vec<_>>()
            .join(" ")
    };
    format!(
        "both: {}\nlatency: {}\nstrategy: {}\nping: {}\nwakeup: {}\nsoak: {}\nstream: {}",
        of(true, true),
        of(true, false),
        of(false, true),
        among(|figure| figure.ping.is_some()),
        among(|figure| figure.wakeup.is_some()),
        among(|figure| figure.soak.is_some()),
        among(|figure| figure.streamed.is_some())
    )
}

/// What chooses a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Labels<'a> {
    pub(super) transport: Option<&'a str>,
    pub(super) strategy: Option<&'a str>,
    pub(super) driver: Option<&'a str>,
    pub(super) load: Option<&'a str>,
    pub(super) payload_bytes: usize,
}

impl<'a> Row<'a> {
    pub(super) fn labels(&self) -> Labels<'_> {
        Labels {
            transport: Some(self.transport()),
            strategy: self.strategy(),
            driver: self.driver(),
            load: self.load(),
            payload_bytes: self.payload_bytes(),
        }
    }

    /// The row of the latency table, with the driver whose figures it shows.
    pub(super) fn shown(row: &'a LatencyRow) -> Self {
        let driver = row.driver.as_deref().unwrap_or_default();
        let beside = row.drivers.iter().find(|beside| beside.driver == driver);
        Self::Echo(Echoes {
            row,
            driver,
            summary: &row.summary,
            beside,
        })
    }

    /// A row for each driver.
    pub(super) fn drivers(row: &'a LatencyRow) -> Vec<Self> {
        row.drivers
            .iter()
            .map(|driver| {
                Self::Echo(Echoes {
                    row,
                    driver: &driver.driver,
                    summary: &driver.summary,
                    beside: Some(driver),
                })
            })
            .collect()
    }

    pub(super) fn transport(&self) -> &str {
        match self {
            Self::Echo(echoes) => &echoes.row.transport,
            Self::Stream(stream) => &stream.transport,
            Self::Ping(cell) => &cell.transport,
            Self::Streamed(row) => &row.transport,
            Self::Timer(_) | Self::Soak(_) => "",
        }
    }

    pub(super) fn strategy(&self) -> Option<&str> {
        match self {
            Self::Echo(_) | Self::Ping(_) | Self::Timer(_) | Self::Soak(_) => None,
            Self::Stream(stream) => Some(&stream.strategy),
            Self::Streamed(row) => Some(&row.strategy),
        }
    }

    pub(super) fn driver(&self) -> Option<&str> {
        match self {
            Self::Echo(echoes) => Some(echoes.driver),
            Self::Stream(_)
            | Self::Ping(_)
            | Self::Timer(_)
            | Self::Soak(_)
            | Self::Streamed(_) => None,
        }
    }

    /// `none` or `primes`.
    pub(super) fn load(&self) -> Option<&str> {
        match self {
            Self::Echo(_)
            | Self::Stream(_)
            | Self::Ping(_)
            | Self::Timer(_)
            | Self::Streamed(_) => None,
            Self::Soak(phase) => Some(&phase.load),
        }
    }

    pub(super) fn payload_bytes(&self) -> usize {
        match self {
            Self::Echo(echoes) => echoes.row.payload_bytes,
            Self::Stream(stream) => stream.payload_bytes,
            Self::Ping(cell) => cell.payload_bytes,
            Self::Streamed(row) => row.payload_bytes,
            // Such rows are not chosen by their payload.
            Self::Timer(_) | Self::Soak(_) => 0,
        }
    }
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ping(cell) => return write!(f, "{} {} B", cell.address, cell.payload_bytes),
            Self::Streamed(row) => return write!(f, "{} {} B", row.address, row.payload_bytes),
            Self::Timer(timer) => return write!(f, "CPU {}", timer.cpu),
            Self::Soak(phase) => return write!(f, "load {} #{}", phase.load, phase.repeat + 1),
            Self::Echo(_) | Self::Stream(_) => {}
        }
        let how = self
            .driver()
            .or_else(|| self.strategy())
            .unwrap_or_default();
        write!(f, "{} {how} {} B", self.transport(), self.payload_bytes())
    }
}

impl Echoes<'_> {
    /// A figure that only the row itself has: rates and counts above a limit.
    fn of_row(&self, figure: impl Fn(&LatencyRow) -> Option<f64>) -> Option<f64> {
        if self.row.driver.as_deref() != Some(self.driver) || self.summary.count == 0 {
            return None;
        }
        figure(self.row)
    }

    /// A count of what went wrong, if anything was tried at all.
    fn measured(&self, count: u64) -> Option<f64> {
        (self.summary.count + count > 0).then_some(count as f64)
    }
}

impl Unit {
    pub(super) fn read(self, text: &str) -> Result<f64, String> {
        let number = |text: &str| {
            quantity::decimal_with_suffix(text).ok_or_else(|| "expected a number".to_owned())
        };
        match self {
            Self::Time => quantity::duration_with_unit(text)
                .map(|time| time.as_nanos() as f64)
                .map_err(|error| error.to_string()),
            Self::Number => number(text),
            Self::Percent => number(text.strip_suffix('%').unwrap_or(text)),
            Self::Bytes => quantity::size(text)
                .map(|bytes| bytes as f64)
                .map_err(|error| error.to_string()),
        }
    }

    pub(super) fn show(self, value: f64) -> String {
        match self {
            Self::Time => format!("{:.1} us", value / 1e3),
            Self::Number => format!("{value:.3}")
                .trim_end_matches('0')
                .trim_end_matches('.')
                .into(),
            Self::Percent => format!("{value:.2} %"),
            Self::Bytes => format!("{value:.0} B"),
        }
    }
}
