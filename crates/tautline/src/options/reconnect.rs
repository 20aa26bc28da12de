//! What makes no sense among the rules of coming back.

use tautline_session::{Framing, OnLoss, Reconnect};

use super::{LinkOptions, queue_bytes};
use crate::address::Address;
use crate::error::Error;

/// Refuses by the option's name.
pub(super) fn validate(options: &LinkOptions, address: &Address) -> Result<(), Error> {
    if let Some(rules) = &options.reconnect {
        validate_rules(rules)?;
    }
    match options.on_loss {
        OnLoss::Discard => Ok(()),
        OnLoss::Keep => validate_keep(options, address),
    }
}

fn validate_rules(rules: &Reconnect) -> Result<(), Error> {
    let shortest = Reconnect::SHORTEST_PAUSE;
    if rules.base < shortest {
        let why = format!(
            "{:?} is less than the shortest pause, {shortest:?}",
            rules.base
        );
        return Err(Error::option("reconnect.base", why));
    }
    if rules.cap < rules.base {
        let why = format!("{:?} is less than base, {:?}", rules.cap, rules.base);
        return Err(Error::option("reconnect.cap", why));
    }
    if rules.attempts_limit == Some(0) {
        let why = "0 would never try; None is without end";
        return Err(Error::option("reconnect.attempts_limit", why));
    }
    if rules.give_up_after.is_some_and(|limit| limit.is_zero()) {
        let why = "0 would never try; None is without end";
        return Err(Error::option("reconnect.give_up_after", why));
    }
    if rules.steady_after.is_zero() {
        let why = "0 would take any connect for a success, and hammer a server that closes at once";
        return Err(Error::option("reconnect.steady_after", why));
    }
    Ok(())
}

fn validate_keep(options: &LinkOptions, address: &Address) -> Result<(), Error> {
    let refused = |why| Err(Error::option("on_loss", why));
    match address {
        Address::Udp { .. } => return refused("udp loses no connection; leave it at discard"),
        Address::Tcp { .. } | Address::Tls { .. } | Address::Uds(_) | Address::Serial(_) => {}
    }
    if options.framing == Framing::Raw {
        return refused("keep needs a framing other than raw, or a message might be sent in part");
    }
    if options.reconnect.is_none() {
        return refused("keep needs reconnect, or there is no next connection");
    }
    // A part is set aside for what `opened` sends; what is left has to hold a message too.
    if options.queue_limit_messages == 1 {
        let why = "keep needs 2: one is set aside for what `opened` sends";
        return Err(Error::option("queue_limit_messages", why));
    }
    queue_bytes(
        "queue_limit_bytes",
        options.ordinary_queue_bytes(),
        &options.framing,
    )
}
