//! Takes a place on the machine and does something there.

use std::sync::Arc;

use tautline_gauge::placement::{Hold, Register, Seats};
use tautline_gauge::plan::{PlacementPlan, Transport};
use tautline_gauge::veth::Veth;

use super::list::Condition;
use super::site::{Site, said};

/// Runs `body` on a thread in the client's seat, with the machine held as the condition wants it.
///
/// # Errors
/// Why this machine has no such place, or what `body` said.
pub(crate) fn at<T: Send + 'static>(
    condition: Condition,
    transport: Transport,
    payload_bytes: usize,
    body: impl FnOnce(&Site) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let plan = PlacementPlan {
        placement: condition.placement(),
        stay_awake: condition.stays_awake(),
        ..PlacementPlan::default()
    };
    let seats = Seats::choose(&plan).map_err(said)?;
    if seats.effective != plan.placement {
        return Err(seats
            .note
            .unwrap_or_else(|| "no such placement here".to_owned()));
    }
    let hold = Hold::take(&plan, &seats.cpus());
    if plan.stay_awake && !hold.stays_awake() {
        return Err(hold.notes().join("; "));
    }
    let veth = match condition {
        Condition::Veth => Some(Arc::new(Veth::make()?)),
        Condition::OneCore
        | Condition::Awake
        | Condition::Halting
        | Condition::Split
        | Condition::Free => None,
    };
    let site = Site {
        transport,
        payload_bytes,
        seats,
        register: Arc::new(Register::default()),
        veth,
    };
    let own = site.clone();
    let client = site.spawn(site.seats.client("client"), move || {
        if let Some(veth) = &own.veth {
            veth.enter_client().map_err(said)?;
        }
        body(&own)
    })?;
    match client.join() {
        Ok(Some(outcome)) => outcome,
        Ok(None) | Err(_) => Err("the measuring thread panicked".to_owned()),
    }
}
