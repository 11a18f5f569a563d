#include "fabric/tcp_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fabric/frame.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

// After rank 0 has left: for the others to learn how its last rounds ended.
constexpr double kLingerS = 3;
constexpr double kFlushTimeoutS = 2;
constexpr size_t kMaxStrangers = 64;
// What is accepted before those that came are read: a member says at once who it is.
constexpr int kMostAccepts = 16;
// What is read of one connection before others have their turn.
constexpr int kMostReads = 16;
// Replies that a member does not read: it is stuck.
constexpr size_t kMaxUnsentBytes = size_t{1} << 30;

}  // namespace

struct TcpServer::Connection {
  Socket socket;
  Deadline hello_deadline;
  int rank = -1;  // -1: a stranger
  std::string in, out;
  bool closing = false;  // to be closed when `out` is sent
  bool dead = false;
};

bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

TcpServer::TcpServer(const Address& address, int size, std::string secret, double hello_timeout_s)
    : listener_(listen_at(address)),
      wake_(eventfd(0, EFD_CLOEXEC)),
      port_(port_of(listener_)),
      secret_(std::move(secret)),
      hello_timeout_s_(hello_timeout_s),
      rounds_(size) {
  STRETTO_ASSERT(secret_.size() == kSecretBytes, "secrets have one length");
  thread_ = std::thread([this] { serve(); });
}

TcpServer::~TcpServer() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.fd(), &one, sizeof(one));
  thread_.join();
}

void TcpServer::serve() {
  Deadline end = Deadline::max();  // set when the server shall end
  const auto is_member = [](const auto& connection) { return connection->rank >= 0; };
  for (;;) {
    const bool ending = end != Deadline::max();
    if (ending &&
        (left_ms(end) == 0 || std::none_of(connections_.begin(), connections_.end(), is_member))) {
      break;
    }
    const int wake = ending ? -1 : wake_.fd();  // poll passes over -1
    std::vector<pollfd> waiting = {{wake, POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    Deadline next = std::min(end, rounds_.next_deadline());
    for (const auto& connection : connections_) {
      const short wants = static_cast<short>(connection->out.empty() ? POLLIN : POLLIN | POLLOUT);
      waiting.push_back({connection->socket.fd(), wants, 0});
      if (connection->rank < 0) next = std::min(next, connection->hello_deadline);
    }
    // A little late, so that a deadline has passed when it is looked at.
    const int patience = next == Deadline::max() ? -1 : left_ms(next) + 1;
    if (poll(waiting.data(), waiting.size(), patience) < 0 && errno != EINTR) return;
    if (waiting[0].revents != 0) end = after(kLingerS);
    for (size_t i = 2; i < waiting.size(); ++i) {
      if ((waiting[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        read_from(*connections_[i - 2]);
      }
    }
    if (waiting[1].revents != 0) accept_new();
    const std::string hint =
        num_strangers_refused_ == 0
            ? ""
            : fmt::format("; {} connections had a wrong secret", num_strangers_refused_);
    deliver(rounds_.expire(hint));
    sweep();
  }
  const Deadline deadline = after(kFlushTimeoutS);
  for (const auto& connection : connections_) {
    send_all(connection->socket, connection->out, deadline);
  }
}

// Where there are too many strangers, the one that has been silent longest makes room: were it the
// newcomer, a burst of strangers would turn members away.
void TcpServer::accept_new() {
  const auto is_stranger = [](const auto& connection) {
    return connection->rank < 0 && !connection->dead;
  };
  for (int i = 0; i < kMostAccepts; ++i) {
    Socket made(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!made) return;
    if (static_cast<size_t>(std::count_if(connections_.begin(), connections_.end(), is_stranger)) >=
        kMaxStrangers + static_cast<size_t>(rounds_.size())) {
      // Connections lie in the order in which they came.
      (*std::find_if(connections_.begin(), connections_.end(), is_stranger))->dead = true;
    }
    const int on = 1;
    setsockopt(made.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    auto connection = std::make_unique<Connection>();
    connection->socket = std::move(made);
    connection->hello_deadline = after(hello_timeout_s_);
    connections_.push_back(std::move(connection));
  }
}

void TcpServer::read_from(Connection& connection) {
  char buffer[65536];
  for (int i = 0; i < kMostReads; ++i) {
    const ssize_t got = recv(connection.socket.fd(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return drop(connection, false);
    if (connection.closing) continue;
    connection.in.append(buffer, static_cast<size_t>(got));
    take_frames(connection);
    if (connection.dead) return;
  }
}

void TcpServer::take_frames(Connection& connection) {
  while (connection.in.size() >= sizeof(FrameHeader) && !connection.closing && !connection.dead) {
    FrameHeader header{};
    std::memcpy(&header, connection.in.data(), sizeof(header));
    const bool is_stranger = connection.rank < 0;
    const bool fits = is_stranger
                          ? header.type == FrameType::hello && header.num_bytes == kHelloBytes
                          : header.num_bytes <= kMaxFrameBytes;
    if (!fits) return drop(connection, false);
    if (connection.in.size() < sizeof(header) + header.num_bytes) return;
    const std::string body = connection.in.substr(sizeof(header), header.num_bytes);
    connection.in.erase(0, sizeof(header) + header.num_bytes);
    if (is_stranger) {
      take_hello(connection, body);
    } else if (header.type == FrameType::gather) {
      take_gather(connection, body);
    } else {
      return drop(connection, header.type == FrameType::leave);
    }
  }
}

void TcpServer::take_hello(Connection& connection, std::string_view body) {
  FrameReader reader(body);
  const std::string_view secret = reader.raw(kSecretBytes);
  const uint64_t who = reader.number(), pid = reader.number();
  const uint64_t rank = who & 0xffff'ffff, size = who >> 32;
  const auto refuse = [&](const std::string& reason) {
    connection.out += FrameWriter().text(reason).frame(FrameType::refused);
    connection.closing = true;
  };
  if (!same_secret(secret, secret_)) {
    ++num_strangers_refused_;
    return refuse(std::string(kWrongSecret));
  }
  const auto ours = static_cast<uint64_t>(rounds_.size());
  if (size != ours || rank >= ours) {
    const std::string reason =
        fmt::format("ranks disagree on the job's size: rank 0 counts {} ranks, rank {} counts {}",
                    ours, rank, size);
    deliver(rounds_.refuse(reason));
    return refuse(reason);
  }
  if (rounds_.has_joined(static_cast<int>(rank))) {
    return refuse(fmt::format("two processes say that they are rank {}", rank));
  }
  connection.rank = static_cast<int>(rank);
  rounds_.join(connection.rank, pid);
  connection.out += FrameWriter().frame(FrameType::welcome);
}

void TcpServer::take_gather(Connection& connection, std::string_view body) {
  FrameReader reader(body);
  const uint64_t sequence = reader.number(), timeout_ms = reader.number();
  const std::string_view what = reader.text();
  const std::string_view bytes = reader.text();
  if (!reader.at_end() || bytes.size() > kMaxMessageBytes) return drop(connection, false);
  deliver(rounds_.arrive(connection.rank, sequence, one_line(what, 200),
                         static_cast<double>(timeout_ms) / 1000, bytes));
}

void TcpServer::drop(Connection& connection, bool in_good_order) {
  if (connection.dead) return;
  connection.dead = true;
  if (connection.rank >= 0) deliver(rounds_.lose(connection.rank, in_good_order));
}

void TcpServer::deliver(const Rounds::Replies& replies) {
  for (const Rounds::Reply& reply : replies) {
    for (const auto& connection : connections_) {
      if (connection->rank == reply.rank && !connection->dead) connection->out += reply.frame;
    }
  }
}

void TcpServer::sweep() {
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = *connections_[i];
    if (connection.dead) continue;
    while (!connection.out.empty()) {
      const ssize_t sent = send(connection.socket.fd(), connection.out.data(),
                                connection.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) break;
      if (sent < 0) {
        drop(connection, false);
        break;
      }
      connection.out.erase(0, static_cast<size_t>(sent));
    }
    if (connection.out.size() > kMaxUnsentBytes) drop(connection, false);
    const bool late = connection.rank < 0 && left_ms(connection.hello_deadline) == 0;
    if (late || (connection.closing && connection.out.empty())) connection.dead = true;
  }
  std::erase_if(connections_, [](const auto& connection) { return connection->dead; });
}

}  // namespace stretto::fabric
