//! What makes no sense among the rules of [`Reconnect`].

use tautline_session::Reconnect;

use crate::error::Error;

/// Refuses by the option's name.
pub(super) fn validate(rules: &Reconnect) -> Result<(), Error> {
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
