//! Socket options. Buffer sizes are left to the kernel, which grows them as the path needs. A requested
//! size is set before connect or listen: later it would not change the window scale that both ends
//! agree on.

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A peer that does not acknowledge for this long is gone.
const DEAD_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Backlog of connections to accept: all agents may reconnect at once.
const BACKLOG: i32 = 4096;

/// Sizes of a socket's buffers: requested, and granted by the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Requested size in bytes; 0 when left to the system.
    pub asked_bytes: usize,
    /// The send buffer as granted, in bytes. The kernel adds its own overhead and so doubles the request.
    pub send_bytes: usize,
    /// The receive buffer as granted, in bytes.
    pub receive_bytes: usize,
}

/// Connects to `address`, with buffers of `buffer_bytes` unless that is 0.
pub async fn connect(address: SocketAddr, buffer_bytes: usize) -> io::Result<(TcpStream, Buffers)> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if buffer_bytes > 0 {
        socket.set_send_buffer_size(buffer_bytes as u32)?;
        socket.set_recv_buffer_size(buffer_bytes as u32)?;
    }
    let stream = socket.connect(address).await?;
    prepare(&stream)?;
    let granted = buffers(&stream, buffer_bytes)?;
    Ok((stream, granted))
}

/// Listens on `address`; connections have buffers of `buffer_bytes` unless that is 0.
pub fn listen(address: SocketAddr, buffer_bytes: usize) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    if buffer_bytes > 0 {
        socket.set_send_buffer_size(buffer_bytes)?;
        socket.set_recv_buffer_size(buffer_bytes)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Sets the options of every connection: small packets are sent at once, and a lost peer is noticed.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(DEAD_AFTER))?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))
}

/// The buffers of a connection.
pub fn buffers(stream: &TcpStream, asked_bytes: usize) -> io::Result<Buffers> {
    let socket = SockRef::from(stream);
    let (send_bytes, receive_bytes) = (socket.send_buffer_size()?, socket.recv_buffer_size()?);
    Ok(Buffers { asked_bytes, send_bytes, receive_bytes })
}
