//! Which sockets listen on a TCP port.
//!
//! Asked from the kernel directly (`sock_diag(7)`, only those that listen): `/proc/net/tcp` walks a
//! table that is sized for the machine's memory, which takes up to 15 ms. It is read where it must
//! be: for another network namespace, or where netlink is forbidden.

use std::io;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// `TCP_LISTEN` of net/tcp_states.h.
const LISTEN: u8 = 10;
const HEADER: usize = 16;

/// The inodes of the sockets that listen on `port` in the network of process `pid`.
#[must_use]
pub(crate) fn sockets(pid: i32, port: u16) -> Vec<u64> {
    let ours = |pid: &str| nix::sys::stat::stat(format!("/proc/{pid}/ns/net").as_str());
    let same = match (ours("self"), ours(&pid.to_string())) {
        (Ok(ours), Ok(theirs)) => ours.st_ino == theirs.st_ino,
        _ => false,
    };
    if same
        && let (Ok(mut four), Ok(six)) = (
            by_netlink(libc::AF_INET, port),
            by_netlink(libc::AF_INET6, port),
        )
    {
        four.extend(six);
        return four;
    }
    ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok())
        .flat_map(|table| in_table(&table, port))
        .collect()
}

fn by_netlink(family: i32, port: u16) -> io::Result<Vec<u64>> {
    let netlink = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    // `struct nlmsghdr`, then `struct inet_diag_req_v2` with a socket id of zeros: all of them.
    let mut request = Vec::with_capacity(HEADER + 56);
    request.extend((HEADER as u32 + 56).to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend([family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    request.extend((1u32 << LISTEN).to_ne_bytes());
    request.resize(HEADER + 56, 0);
    send(netlink.as_raw_fd(), &request, MsgFlags::empty())?;
    let mut found = Vec::new();
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let length = match recv(netlink.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Err(Errno::EINTR) => continue,
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            other => other?,
        };
        if read_answer(&buffer[..length], port, &mut found)? {
            return Ok(found);
        }
    }
}

/// Takes the answers apart; `true` after the last.
fn read_answer(bytes: &[u8], port: u16, found: &mut Vec<u64>) -> io::Result<bool> {
    let mut rest = bytes;
    while rest.len() >= HEADER {
        let length = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
        let kind = i32::from(u16::from_ne_bytes([rest[4], rest[5]]));
        if kind == libc::NLMSG_DONE {
            return Ok(true);
        }
        if kind == libc::NLMSG_ERROR || length < HEADER || length > rest.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // `struct inet_diag_msg`: the state is its second byte, the port its fifth and sixth, the
        // inode its last four of 72.
        if let Some(message) = rest.get(HEADER..HEADER + 72)
            && message[1] == LISTEN
            && u16::from_be_bytes([message[4], message[5]]) == port
        {
            let inode = [message[68], message[69], message[70], message[71]];
            found.push(u64::from(u32::from_ne_bytes(inode)));
        }
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
    }
    Ok(false)
}

/// The same from `/proc/net/tcp` or `tcp6`.
fn in_table(table: &str, port: u16) -> Vec<u64> {
    let wanted = format!("{port:04X}");
    let listens = format!("{LISTEN:02X}");
    let rows = table.lines().skip(1).filter_map(|row| {
        let mut words = row.split_whitespace();
        let local = words.nth(1)?;
        let state = words.nth(1)?;
        let inode = words.nth(5)?;
        let here = state == listens && local.rsplit_once(':')?.1 == wanted;
        here.then(|| inode.parse().ok())?
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_kernel() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   114        0 20461 1 0 100 0 0 10 0
   1: 0100007F:0CEA 0100007F:8E22 01 00000000:00000000 00:00000000 00000000   114        0 20462 1 0 100 0 0 10 0
   2: 00000000000000000000000000000000:0CEA 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0 100 0 0 10 0
";
        assert_eq!(in_table(table, 3306), [20461, 777]);
        assert_eq!(in_table(table, 3307), [] as [u64; 0]);
        assert_eq!(in_table("", 3306), [] as [u64; 0]);
    }

    #[test]
    fn both_ways_find_our_own() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let slow = in_table(&table, port);
        assert_eq!(slow.len(), 1);
        let ours = std::process::id() as i32;
        assert_eq!(sockets(ours, port), slow);
        // Where netlink is not forbidden it says the same.
        if let Ok(fast) = by_netlink(libc::AF_INET, port) {
            assert_eq!(fast, slow);
        }
        drop(server);
        // A test beside us may be between a fork and its exec, and has it too for that moment.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !sockets(ours, port).is_empty() && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(sockets(ours, port), [] as [u64; 0]);
    }
}
