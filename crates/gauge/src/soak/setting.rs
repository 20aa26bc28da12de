//! What stands in the report of a run before it begins: what was asked for, and of which kernel.

use super::SoakPlan;
use crate::environment::Environment;
use crate::report::soak::{KernelLine, Setting};
use crate::sys;

/// What was asked for, before anything came of it.
pub(super) fn setting(plan: &SoakPlan) -> Setting {
    Setting {
        senders: plan.senders,
        pings: plan.pings,
        payload_bytes: plan.payload_bytes,
        warmup: plan.warmup,
        repeats: plan.repeats,
        address: None,
        own_receiver: plan.to.is_none(),
        receiver_sched: plan.receiver_sched.to_string(),
        receiver_sched_effective: None,
        receiver_sched_refused: None,
        one_session: plan.one_session,
        limit: plan.limit.to_string(),
        load_threads: plan.load_threads,
        load_sched: plan.load_sched.to_string(),
        wakeup_ns: plan.wakeup.as_nanos() as u64,
        trace_over_ns: plan.trace_over.map(|over| over.as_nanos() as u64),
        processes: Vec::new(),
    }
}

/// The kernel in words.
pub(super) fn kernel_line(environment: &Environment) -> KernelLine {
    let kernel = &environment.kernel;
    let idle = &environment.idle;
    let idle = [&idle.driver, &idle.governor]
        .into_iter()
        .flatten()
        .cloned()
        .collect::<Vec<_>>();
    let mitigations = environment.mitigations.as_ref().map(|all| {
        let with = |word: &str| all.values().filter(|what| what.starts_with(word)).count();
        format!(
            "{} on, {} vulnerable",
            with("Mitigation"),
            with("Vulnerable")
        )
    });
    KernelLine {
        release: kernel.release.clone(),
        preemption: kernel.preemption.clone(),
        // The coarse clock steps once a tick.
        hz: sys::clock::tick_ns().map(|ns| format!("{:.0}", 1e9 / ns as f64)),
        governor: environment
            .frequency
            .governors
            .as_ref()
            .map(|names| names.join("+")),
        idle: (!idle.is_empty()).then(|| idle.join("/")),
        mitigations,
        autogroup: environment.scheduler.autogroup,
        rt_runtime_us: environment.scheduler.rt_runtime_us,
        boot_id: kernel.boot_id.clone(),
    }
}
