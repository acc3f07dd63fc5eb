//! Listening TCP sockets and their accept queues, as the kernel's `sock_diag` lists them
//! (`sock_diag(7)`): it walks the listening sockets alone, where `/proc/net/tcp` walks all.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// A listening socket of this network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listener {
    pub(super) is_v6: bool,
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) inode: u32,
    /// Connections that wait to be accepted.
    pub(super) length: u32,
    /// Connections that may wait.
    pub(super) limit: u32,
    /// Connections and segments that it dropped; none before Linux 4.7.
    pub(super) drops: Option<u32>,
}

/// A netlink socket.
#[derive(Debug)]
pub(super) struct Diag {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// The kernel fills at most 32 KiB at once.
const BUFFER: usize = 1 << 15;
/// Length of `nlmsghdr`.
const HEADER: usize = 16;
/// Length of a request: with its header.
const REQUEST: u32 = 72;
/// Length of `inet_diag_msg`.
const MESSAGE: usize = 72;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x301;
const DONE_OR_ERROR: [u16; 2] = [3, 2];
const TCP: u8 = 6;
const LISTEN: u32 = 1 << 10;
/// Attribute with the memory and the drops of a socket, and the place of the drops in it.
const SKMEMINFO: u16 = 7;
const DROPS: usize = 8;

impl Diag {
    /// Open a netlink socket.
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub(super) fn open() -> Result<Self, Errno> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkSockDiag,
        )?;
        Ok(Self {
            socket,
            buffer: vec![0; BUFFER],
        })
    }

    /// List the listening sockets of IPv4, of IPv6, or of both.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn listeners(&mut self, is_v6: &[bool]) -> Result<Vec<Listener>, Errno> {
        let mut found = Vec::new();
        for is_v6 in is_v6 {
            let family = if *is_v6 {
                AddressFamily::Inet6
            } else {
                AddressFamily::Inet
            };
            self.list(family, &mut found)?;
        }
        Ok(found)
    }

    fn list(&mut self, family: AddressFamily, found: &mut Vec<Listener>) -> Result<(), Errno> {
        let fd = self.socket.as_raw_fd();
        send(fd, &request(family), MsgFlags::empty())?;
        loop {
            let length = recv(fd, &mut self.buffer, MsgFlags::empty())?;
            if read_messages(&self.buffer[..length], found)? {
                return Ok(());
            }
        }
    }
}

/// Write a request for the listening sockets of a family.
fn request(family: AddressFamily) -> Vec<u8> {
    let mut request = Vec::with_capacity(REQUEST as usize);
    request.extend(REQUEST.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST_DUMP.to_ne_bytes());
    // Sequence number and sender.
    request.extend([0; 8]);
    request.extend([family as u8, TCP, 1 << (SKMEMINFO - 1), 0]);
    request.extend(LISTEN.to_ne_bytes());
    // Any addresses and ports.
    request.extend([0; 48]);
    request
}

/// Read the messages of a datagram; true if the list ends in it.
fn read_messages(mut bytes: &[u8], found: &mut Vec<Listener>) -> Result<bool, Errno> {
    while let Some(length) = number::<4>(bytes, 0).map(|n| u32::from_ne_bytes(n) as usize) {
        let Some(message) = bytes.get(HEADER..length) else {
            return Ok(true);
        };
        let kind = number(bytes, 4).map_or(0, u16::from_ne_bytes);
        if kind == DONE_OR_ERROR[1] {
            let code = number(message, 0).map_or(0, i32::from_ne_bytes);
            return Err(Errno::from_raw(-code));
        }
        if kind == DONE_OR_ERROR[0] {
            return Ok(true);
        }
        found.extend(listener(message));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn listener(message: &[u8]) -> Option<Listener> {
    let is_v6 = *message.first()? == AddressFamily::Inet6 as u8;
    Some(Listener {
        is_v6,
        address: if is_v6 {
            number::<16>(message, 8)?.into()
        } else {
            number::<4>(message, 8)?.into()
        },
        port: u16::from_be_bytes(number(message, 4)?),
        length: u32::from_ne_bytes(number(message, 56)?),
        limit: u32::from_ne_bytes(number(message, 60)?),
        inode: u32::from_ne_bytes(number(message, 68)?),
        drops: attribute(message.get(MESSAGE..)?, SKMEMINFO)
            .and_then(|memory| number(memory, DROPS * 4))
            .map(u32::from_ne_bytes),
    })
}

fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(number(bytes, 0)?));
        let value = bytes.get(4..length)?;
        if u16::from_ne_bytes(number(bytes, 2)?) == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_listening_socket_is_listed_with_its_queue() {
        let mut diag = Diag::open().unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = TcpListener::bind(address) else {
                continue;
            };
            let at = socket.local_addr().unwrap();
            let _waiting = [
                TcpStream::connect(at).unwrap(),
                TcpStream::connect(at).unwrap(),
            ];
            let found = diag.listeners(&[false, true]).unwrap();
            let own: Vec<_> = found.iter().filter(|it| it.port == at.port()).collect();
            assert_eq!(own.len(), 1, "{found:?}");
            assert_eq!((own[0].length, own[0].drops), (2, Some(0)));
            assert_eq!(own[0].address, at.ip());
            assert!(own[0].limit >= 2 && own[0].inode > 0, "{own:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read_messages(&bytes, &mut Vec::new());
            let _ = listener(&bytes);
        }
    }
}
