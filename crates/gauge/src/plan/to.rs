//! What a plan against servers elsewhere may ask for.

use tautline::Address;

use super::{Plan, PlanError, Transport, check_one_a_transport};
use crate::wire::HEADER_BYTES as DATAGRAM_LEAST_BYTES;

impl Plan {
    /// The largest payload that any table sends over this transport.
    pub(crate) fn largest_payload(&self, transport: Transport) -> usize {
        let latency = self.latency.iter().flat_map(|plan| &plan.sizes);
        let strategy = self.strategy.iter().flat_map(|plan| &plan.sizes);
        latency
            .chain(strategy)
            .copied()
            .filter(|&size| size <= transport.payload_limit_bytes())
            .max()
            .unwrap_or(DATAGRAM_LEAST_BYTES)
    }

    pub(super) fn check_to(&self) -> Result<(), PlanError> {
        let refused = |message: String| Err(PlanError::new("--to", message));
        check_one_a_transport("--to", &self.to)?;
        if self.to.is_empty() {
            return Ok(());
        }
        if self.smoke.is_some() {
            return refused("udp-smoke is measured in one process".to_owned());
        }
        if !self.bind.is_empty() {
            return refused("the servers are elsewhere, there is nothing to --bind".to_owned());
        }
        for address in &self.to {
            if let Address::Tls { .. } | Address::Serial(_) = address {
                return refused(format!(
                    "{address}: over {} both ends are measured in one process",
                    address.scheme()
                ));
            }
            let nowhere = matches!(
                address,
                Address::Tcp { port: 0, .. } | Address::Udp { port: 0, .. }
            );
            if nowhere {
                return refused(format!(
                    "{address}: port 0 is for listening, nobody can be reached there"
                ));
            }
        }
        for transport in self.transports() {
            let reached = |address: &Address| address.scheme() == transport.token();
            if !self.to.iter().any(reached) {
                return refused(format!("it has no address for {transport}"));
            }
            let latency = self.latency.iter().flat_map(|plan| &plan.sizes);
            let strategy = self.strategy.iter().flat_map(|plan| &plan.sizes);
            let mut sizes = latency.chain(strategy);
            if transport == Transport::Udp
                && let Some(size) = sizes.find(|&&size| size < DATAGRAM_LEAST_BYTES)
            {
                return Err(PlanError::new(
                    "--sizes",
                    format!(
                        "{size}: over udp to a server elsewhere a message has \
                         {DATAGRAM_LEAST_BYTES} bytes at least"
                    ),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::LatencyPlan;

    fn latency(plan: &mut Plan) -> &mut LatencyPlan {
        plan.latency.as_mut().unwrap()
    }

    fn refusal(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = Plan::full(1);
        change(&mut plan);
        plan.checked()
            .expect_err("the change is out of range")
            .to_string()
    }

    /// A plan against this server, of this payload over the server's transport.
    fn to(address: &str, size: usize) -> impl FnOnce(&mut Plan) {
        let address: Address = address.parse().unwrap();
        move |plan| {
            let transport: Transport = address.scheme().parse().unwrap();
            *latency(plan) = LatencyPlan {
                transports: vec![transport],
                sizes: vec![size],
                ..LatencyPlan::default()
            };
            (plan.strategy, plan.smoke) = (None, None);
            plan.to = vec![address];
        }
    }

    #[test]
    fn a_server_elsewhere_decides_the_transports_and_the_least_datagram() {
        let mut plan = Plan::full(1);
        to("tcp://10.0.0.5:6001", 16)(&mut plan);
        plan.checked().unwrap();
        assert_eq!(
            refusal(to("udp://10.0.0.5:6001", 31)),
            "--sizes: 31: over udp to a server elsewhere a message has 32 bytes at least"
        );
        assert_eq!(
            refusal(to("tcp://10.0.0.5:0", 64)),
            "--to: tcp://10.0.0.5:0: port 0 is for listening, nobody can be reached there"
        );
        let other = |plan: &mut Plan| {
            to("tcp://10.0.0.5:6001", 64)(plan);
            latency(plan).transports.push(Transport::Uds);
        };
        assert_eq!(refusal(other), "--to: it has no address for uds");
        let bound = |plan: &mut Plan| {
            to("tcp://10.0.0.5:6001", 64)(plan);
            plan.bind = vec!["tcp://127.0.0.1:1".parse().unwrap()];
        };
        assert_eq!(
            refusal(bound),
            "--to: the servers are elsewhere, there is nothing to --bind"
        );
    }
}
