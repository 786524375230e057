//! Two requests to the kernel's routing socket: the loopback interface of a new network namespace goes up, and the
//! addresses of all interfaces are listed. Interfaces of allocations are the business of CNI plugins.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_DUMP: u16 = 0x300;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFF_UP: u32 = 1;
/// Number of the loopback interface in every network namespace.
const LOOPBACK: i32 = 1;
const HEADER_BYTES: usize = 16;
/// Bytes of an address message before its attributes.
const ADDRESS_BYTES: usize = 8;
/// Size of the buffer of an answer; the kernel sends at most this much at once.
const ANSWER_BYTES: usize = 32 * 1024;

/// An address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    /// Number of the interface.
    pub index: u32,
    /// Address.
    pub ip: IpAddr,
}

/// Brings the loopback interface of this thread's network namespace up. Fails without `CAP_NET_ADMIN`.
pub(crate) fn raise_loopback() -> io::Result<()> {
    let mut body = vec![0; 4];
    body.extend(LOOPBACK.to_ne_bytes());
    body.extend(IFF_UP.to_ne_bytes());
    body.extend(IFF_UP.to_ne_bytes());
    let socket = ask(RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, &body)?;
    let answer = receive(&socket)?;
    let (kind, body, _) = message(&answer).ok_or_else(|| io::Error::other("an answer of the kernel is cut off"))?;
    if kind == NLMSG_ERROR { outcome(body) } else { Err(io::Error::other("the kernel gave another answer")) }
}

/// Lists the addresses of all interfaces of this thread's network namespace, in the kernel's order.
pub(crate) fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let socket = ask(RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, &[0; ADDRESS_BYTES])?;
    let mut found = Vec::new();
    loop {
        let answer = receive(&socket)?;
        let mut rest = answer.as_slice();
        while let Some((kind, body, after)) = message(rest) {
            match kind {
                NLMSG_DONE => return Ok(found),
                NLMSG_ERROR => outcome(body)?,
                RTM_NEWADDR => found.extend(address(body)),
                _ => {}
            }
            rest = after;
        }
    }
}

fn ask(kind: u16, flags: u16, body: &[u8]) -> io::Result<OwnedFd> {
    // Without a protocol this is the routing family.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let bytes = u32::try_from(HEADER_BYTES + body.len()).map_err(io::Error::other)?;
    let mut request = Vec::with_capacity(HEADER_BYTES + body.len());
    request.extend(bytes.to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    // Sequence and port: there is one request on each socket, and the kernel chooses the port.
    request.extend([0; 8]);
    request.extend(body);
    send(&socket, &request, SendFlags::empty())?;
    Ok(socket)
}

fn receive(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; ANSWER_BYTES];
    let (bytes, _) = recv(socket, buffer.as_mut_slice(), RecvFlags::empty())?;
    if bytes == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    buffer.truncate(bytes);
    Ok(buffer)
}

/// Type and body of the first message, and the messages after it; `None` at the end.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(number(bytes.get(..4)?)).ok()?;
    let kind = short(bytes.get(4..6)?);
    let body = bytes.get(HEADER_BYTES..length)?;
    Some((kind, body, bytes.get(aligned(length)..).unwrap_or_default()))
}

/// The result in an error message: the negative number of an error, or 0.
fn outcome(body: &[u8]) -> io::Result<()> {
    let code = body.get(..4).map_or(0, number).cast_signed();
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code.wrapping_neg())) }
}

fn address(body: &[u8]) -> Option<InterfaceAddress> {
    let index = number(body.get(4..ADDRESS_BYTES)?);
    let (mut rest, mut local, mut peer) = (body.get(ADDRESS_BYTES..)?, None, None);
    while let Some(header) = rest.get(..4) {
        let length = usize::from(short(&header[..2]));
        let Some(value) = rest.get(4..length) else { break };
        match short(&header[2..]) {
            IFA_LOCAL => local = ip(value),
            IFA_ADDRESS => peer = ip(value),
            _ => {}
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    // On a point-to-point interface the plain attribute is the other end's address.
    Some(InterfaceAddress { index, ip: local.or(peer)? })
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(value).map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)));
    v4.or_else(|_| <[u8; 16]>::try_from(value).map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes)))).ok()
}

fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_ne_bytes)
}

fn short(bytes: &[u8]) -> u16 {
    bytes.try_into().map_or(0, u16::from_ne_bytes)
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_include_the_loopback_address() {
        let all = addresses().expect("the kernel answers");
        let loopback = InterfaceAddress { index: 1, ip: IpAddr::V4(Ipv4Addr::LOCALHOST) };
        assert!(all.contains(&loopback), "{all:?}");
    }

    #[test]
    fn cut_off_messages_are_not_read() {
        let mut whole = Vec::new();
        whole.extend(28_u32.to_ne_bytes());
        whole.extend(RTM_NEWADDR.to_ne_bytes());
        whole.extend([0; 10]);
        whole.extend([2, 8, 0, 0, 7, 0, 0, 0, 8, 0, 2]);
        assert!(message(&whole).is_none(), "the length is larger than the bytes");
        whole.push(0);
        let (kind, body, rest) = message(&whole).expect("it is whole");
        assert_eq!((kind, rest), (RTM_NEWADDR, &[][..]));
        assert_eq!(address(body), None, "the attribute is longer than the message");
    }
}
