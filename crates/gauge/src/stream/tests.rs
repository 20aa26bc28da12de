//! Streams to a responder of our own, and to servers that are none.

use std::net::{TcpListener, UdpSocket};

use tautline::{Address, Strategy};

use super::*;
use crate::report::stream::StreamSlice;
use crate::serve::{ServePlan, Server};

fn serve(address: &str) -> Server {
    Server::start(ServePlan {
        addresses: vec![address.parse().unwrap()],
        ..ServePlan::default()
    })
    .unwrap()
}

fn plan(address: &Address, strategy: Strategy) -> StreamPlan {
    StreamPlan {
        addresses: vec![address.clone()],
        sizes: vec![64],
        strategy,
        duration: Duration::from_millis(100),
        placement: crate::plan::PlacementPlan {
            placement: crate::plan::Placement::Free,
            ..crate::plan::PlacementPlan::default()
        },
        ..StreamPlan::default()
    }
}

fn measured(plan: StreamPlan) -> StreamResult {
    let environment = Environment::read();
    let mut onlooker = Onlooker {
        progress: &mut |_| {},
        every: None,
        interval: &mut |_| {},
    };
    let plan = plan.checked().unwrap();
    run(&plan, &environment, &mut onlooker, &AtomicBool::new(false))
}

#[test]
fn every_strategy_over_every_transport_is_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let uds = format!("uds://{}", folder.path().join("s").display());
    for address in ["tcp://127.0.0.1:0", "udp://127.0.0.1:0", &uds] {
        let server = serve(address);
        for strategy in Strategy::ALL {
            let result = measured(plan(&server.addresses()[0], strategy));
            assert_eq!(result.error, None, "{address} {strategy:?}");
            assert_eq!(result.same_host, Some(true));
            let row = &result.rows[0];
            let delivered = row.delivered.unwrap();
            assert!(row.accepted > 0 && delivered > 0, "{row:?}");
            assert_eq!(row.offered, row.accepted + row.refused);
            assert_eq!(
                row.accepted,
                row.evicted + row.discarded + row.lost.unwrap() + delivered
            );
            assert!(row.accounting_closes);
            assert_eq!((row.duplicates, row.corrupted), (Some(0), Some(0)));
            if !address.starts_with("udp") {
                assert_eq!((row.lost, row.reordered), (Some(0), Some(0)));
            }
            match strategy {
                Strategy::Reliable => assert_eq!((row.refused, row.evicted), (0, 0)),
                Strategy::BestEffort => assert_eq!(row.evicted, 0),
                Strategy::KeepLatest => {}
            }
        }
    }
}

#[test]
fn a_rate_is_kept_and_never_exceeded() {
    let server = serve("tcp://127.0.0.1:0");
    let mut plan = plan(&server.addresses()[0], Strategy::Reliable);
    plan.rate_hz = Some(200.0);
    let row = &measured(plan).rows[0];
    // Number k leaves at k / 200 s, up to 0.1 s.
    assert_eq!((row.offered, row.delivered), (20, Some(20)));
}

#[test]
fn every_second_of_a_stream_is_a_slice() {
    let server = serve("tcp://127.0.0.1:0");
    let mut plan = plan(&server.addresses()[0], Strategy::Reliable);
    plan.rate_hz = Some(100.0);
    plan.duration = Duration::from_millis(2_500);
    let row = &measured(plan).rows[0];
    // Looks come late on a busy machine, so a slice may be longer, and there may be fewer.
    assert!((1..=2).contains(&row.slices.len()), "{:?}", row.slices);
    for slice in &row.slices {
        assert!(slice.seconds >= 1.0, "{slice:?}");
        assert_eq!(slice.offered, slice.accepted);
    }
    let sum = |of: fn(&StreamSlice) -> u64| row.slices.iter().map(of).sum::<u64>();
    assert!((1..=row.accepted).contains(&sum(|slice| slice.accepted)));
    assert!(sum(|slice| slice.written) <= row.accepted);
}

#[test]
fn several_sizes_are_several_cells() {
    let server = serve("tcp://127.0.0.1:0");
    let mut plan = plan(&server.addresses()[0], Strategy::Reliable);
    plan.sizes = vec![16, 1_048_572];
    let result = measured(plan);
    let sizes: Vec<usize> = result.rows.iter().map(|row| row.payload_bytes).collect();
    assert_eq!((result.error, sizes), (None, vec![16, 1_048_572]));
}

#[test]
fn a_refusal_of_the_server_is_told() {
    let server = Server::start(ServePlan {
        addresses: vec!["tcp://127.0.0.1:0".parse().unwrap()],
        allow: vec!["10.0.0.0/8".parse().unwrap()],
        ..ServePlan::default()
    })
    .unwrap();
    let address = &server.addresses()[0];
    let error = measured(plan(address, Strategy::Reliable)).error.unwrap();
    assert_eq!(error.kind, BenchErrorKind::Setup);
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("{address}: it refuses: its address is not")),
        "{text}"
    );
}

#[test]
fn nobody_and_whoever_is_no_server_are_told_apart() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let result = measured(plan(&Address::tcp(free), Strategy::Reliable));
    let text = result.error.unwrap().to_string();
    assert!(text.contains("connection refused"), "{text}");

    let free = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let result = measured(plan(&Address::udp(free), Strategy::Reliable));
    let text = result.error.unwrap().to_string();
    assert!(text.contains("nobody listens there"), "{text}");

    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::tcp(other.local_addr().unwrap());
    let ending = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        // Whoever says hello is connected: it is not turned away before.
        std::io::Read::read_exact(&mut stream, &mut [0]).unwrap();
    });
    let text = measured(plan(&address, Strategy::Reliable))
        .error
        .unwrap()
        .to_string();
    ending.join().unwrap();
    assert!(text.contains("it is no `tautline serve`"), "{text}");
}

#[test]
fn a_server_that_ends_in_mid_run_leaves_a_partial_row() {
    let server = serve("tcp://127.0.0.1:0");
    let mut plan = plan(&server.addresses()[0], Strategy::Reliable);
    plan.duration = Duration::from_secs(60);
    let mut server = Some(server);
    let mut onlooker = Onlooker {
        progress: &mut |look| {
            if look.accepted > 0 {
                server.take();
            }
        },
        every: None,
        interval: &mut |_| {},
    };
    let result = run(
        &plan.checked().unwrap(),
        &Environment::read(),
        &mut onlooker,
        &AtomicBool::new(false),
    );
    let error = result.error.unwrap();
    assert_eq!(error.kind, BenchErrorKind::Partial);
    assert!(error.to_string().contains("ended in mid-run"), "{error}");
    let row = &result.rows[0];
    assert!(row.accepted > 0);
    assert_eq!((row.delivered, row.mib_per_s), (None, None));
}

#[test]
fn a_stop_ends_it_with_its_figures() {
    let server = serve("tcp://127.0.0.1:0");
    let mut plan = plan(&server.addresses()[0], Strategy::Reliable);
    plan.duration = Duration::from_secs(36_000_000);
    let stop = AtomicBool::new(false);
    let mut intervals = 0;
    let mut onlooker = Onlooker {
        progress: &mut |look| {
            if look.accepted > 0 {
                stop.store(true, Ordering::Relaxed);
            }
        },
        every: Some(Duration::from_millis(1)),
        interval: &mut |_| intervals += 1,
    };
    let plan = plan.checked().unwrap();
    let result = run(&plan, &Environment::read(), &mut onlooker, &stop);
    assert!(result.interrupted && intervals > 0);
    assert_eq!(result.error, None);
    assert_eq!(result.rows[0].delivered, Some(result.rows[0].accepted));
}
