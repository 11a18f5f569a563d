#include "fabric/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "core/text.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList resolve(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int status = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (status != 0) {
    throw SystemError(
        fmt::format("no address for host {}: {}", quote(address.host), gai_strerror(status)));
  }
  return {found, &freeaddrinfo};
}

Socket open_socket(const addrinfo& info, int flags) {
  return Socket(socket(info.ai_family, info.ai_socktype | SOCK_CLOEXEC | flags, info.ai_protocol));
}

void set_option(const Socket& socket, int level, int option) {
  const int on = 1;
  setsockopt(socket.fd(), level, option, &on, sizeof(on));
}

// Waits for readiness; false at the deadline.
bool ready(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd waiting{fd, events, 0};
    const int count = poll(&waiting, 1, left_ms(deadline));
    if (count > 0) return true;
    if (count == 0 || errno != EINTR) return false;
  }
}

Socket try_connect(const addrinfo& info, Deadline deadline) {
  Socket made = open_socket(info, SOCK_NONBLOCK);
  if (!made) return {};
  if (connect(made.fd(), info.ai_addr, info.ai_addrlen) != 0) {
    if (errno != EINPROGRESS || !ready(made.fd(), POLLOUT, deadline)) return {};
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(made.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return {};
  }
  set_option(made, IPPROTO_TCP, TCP_NODELAY);
  return made;
}

}  // namespace

Deadline after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(seconds));
}

int left_ms(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<long>(left.count(), 0, 1'000'000'000));
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

std::string to_string(const Address& address) {
  const bool colons = address.host.find(':') != std::string::npos;
  return colons ? fmt::format("[{}]:{}", address.host, address.port)
                : fmt::format("{}:{}", address.host, address.port);
}

Address address_from(std::string_view text) {
  const size_t colon = text.rfind(':');
  const auto port =
      colon == std::string_view::npos ? std::nullopt : int_from(text.substr(colon + 1));
  std::string_view host = text.substr(0, std::min(colon, text.size()));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (!port || *port < 0 || *port > 65535 || host.empty() || host.size() > 255) {
    throw UsageError(fmt::format("{} is no address; HOST:PORT is", quote(text)));
  }
  return {std::string(host), static_cast<int>(*port)};
}

Socket listen_at(const Address& address) {
  const AddressList list = resolve(address);
  int error = 0;
  for (const addrinfo* info = list.get(); info != nullptr; info = info->ai_next) {
    Socket made = open_socket(*info, SOCK_NONBLOCK);
    if (made) {
      set_option(made, SOL_SOCKET, SO_REUSEADDR);
      if (bind(made.fd(), info->ai_addr, info->ai_addrlen) == 0 && listen(made.fd(), 256) == 0) {
        return made;
      }
    }
    error = errno;
  }
  throw SystemError(
      fmt::format("cannot listen at {}: {}", to_string(address), std::strerror(error)));
}

int port_of(const Socket& listener) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

Socket connect_to(const Address& address, Deadline deadline) {
  const AddressList list = resolve(address);
  do {
    for (const addrinfo* info = list.get(); info != nullptr; info = info->ai_next) {
      if (Socket made = try_connect(*info, deadline)) return made;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(20, left_ms(deadline))));
  } while (left_ms(deadline) > 0);
  return {};
}

Transfer send_all(const Socket& socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!ready(socket.fd(), POLLOUT, deadline)) return Transfer::late;
    } else if (errno != EINTR) {
      return Transfer::closed;
    }
  }
  return Transfer::done;
}

Transfer receive_all(const Socket& socket, char* to, size_t num_bytes, Deadline deadline) {
  while (num_bytes > 0) {
    const ssize_t got = recv(socket.fd(), to, num_bytes, MSG_DONTWAIT);
    if (got > 0) {
      to += got;
      num_bytes -= static_cast<size_t>(got);
    } else if (got == 0) {
      return Transfer::closed;
    } else if (errno == EAGAIN) {
      if (!ready(socket.fd(), POLLIN, deadline)) return Transfer::late;
    } else if (errno != EINTR) {
      return Transfer::closed;
    }
  }
  return Transfer::done;
}

}  // namespace stretto::fabric
