// Stream sockets with deadlines: every wait ends.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace stretto::fabric {

using Deadline = std::chrono::steady_clock::time_point;
Deadline after(double seconds);
// Milliseconds left, as poll() takes them; 0 when the deadline has passed.
int left_ms(Deadline deadline);

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct Address {
  std::string host;  // a name or a number; an interface of this machine where a server listens
  int port = 0;      // 0: any free one
};
std::string to_string(const Address& address);
// "host:port", "[::1]:port". Throws UsageError.
Address address_from(std::string_view text);

// Throws SystemError: the address is not of this machine, the port is in use.
Socket listen_at(const Address& address);
int port_of(const Socket& listener);
// Tries again while nobody listens. Returns an empty socket at the deadline; throws SystemError for
// a name that does not resolve.
Socket connect_to(const Address& address, Deadline deadline);

enum class Transfer { done, closed, late };
Transfer send_all(const Socket& socket, std::string_view bytes, Deadline deadline);
Transfer receive_all(const Socket& socket, char* to, size_t num_bytes, Deadline deadline);

}  // namespace stretto::fabric
