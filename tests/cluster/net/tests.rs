//! The network applies the configured faults to packets.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use expect_test::{Expect, expect};

use super::*;
use crate::Run;

const PORT: u16 = 7000;
/// Number of packets that are sent to measure losses.
const PACKETS: u32 = 50;
/// Longest time of a packet that is not lost.
const ARRIVES_WITHIN: Duration = Duration::from_millis(500);

/// A socket in namespace `n` with a read timeout.
fn socket(net: &Net, n: usize) -> Result<UdpSocket> {
    thread::scope(|scope| {
        let made = scope.spawn(|| {
            net.enter(n)?;
            let socket = UdpSocket::bind((inside(n), PORT)).context("binding")?;
            socket.set_read_timeout(Some(ARRIVES_WITHIN))?;
            Ok(socket)
        });
        made.join().map_err(|_| anyhow!("entering a namespace panicked"))?
    })
}

/// Pairs of servers that receive each other's packets, when each sends one packet to each other.
fn heard(net: &Net, sockets: &[UdpSocket]) -> Result<String> {
    let mut lines = String::new();
    for (from, sender) in sockets.iter().enumerate() {
        for (to, receiver) in sockets.iter().enumerate().filter(|(to, _)| *to != from) {
            sender
                .send_to(b"x", (inside(to), PORT))
                .with_context(|| format!("sending through {:?}", net.address(from, PORT)))?;
            let mut space = [0; 16];
            if receiver.recv_from(&mut space).is_ok() {
                lines.push_str(&format!("{from}>{to} "));
            }
        }
    }
    Ok(lines)
}

fn check(cut: &[(usize, usize)], expected: Expect) -> Result<()> {
    let Some(run) = Run::begin("network") else { return Ok(()) };
    let net = Net::new(3, run.seed)?;
    let sockets = (0..3).map(|n| socket(&net, n)).collect::<Result<Vec<_>>>()?;
    net.set(Faults { cut: cut.iter().copied().collect(), ..Faults::default() });
    expected.assert_eq(&heard(&net, &sockets)?);
    net.set(Faults::default());
    expect!["0>1 0>2 1>0 1>2 2>0 2>1 "].assert_eq(&heard(&net, &sockets)?);
    Ok(())
}

#[test]
fn network_cut_has_a_direction_and_heals() -> Result<()> {
    check(&[(0, 1)], expect!["0>2 1>0 1>2 2>0 2>1 "])
}

#[test]
fn server_can_be_isolated_from_all_others() -> Result<()> {
    check(&[(0, 1), (0, 2), (1, 0), (2, 0)], expect!["1>2 2>1 "])
}

#[test]
fn injected_packet_loss_and_delay_take_effect() -> Result<()> {
    let Some(run) = Run::begin("network") else { return Ok(()) };
    let net = Net::new(2, run.seed)?;
    let (sender, receiver) = (socket(&net, 0)?, socket(&net, 1)?);
    let delay = Duration::from_millis(30);
    net.set(Faults { delay, jitter: Duration::from_millis(10), ..Faults::default() });
    let sent = Instant::now();
    sender.send_to(b"x", (inside(1), PORT))?;
    receiver.recv_from(&mut [0; 16]).context("a late packet arrives")?;
    assert!(sent.elapsed() >= delay, "it took {:?}", sent.elapsed());

    net.set(Faults { lost_per_thousand: 500, ..Faults::default() });
    for _ in 0..PACKETS {
        sender.send_to(b"x", (inside(1), PORT))?;
    }
    let arrived = (0..PACKETS).take_while(|_| receiver.recv_from(&mut [0; 16]).is_ok()).count();
    assert!((1..PACKETS as usize).contains(&arrived), "{arrived} of {PACKETS} arrived");
    Ok(())
}
