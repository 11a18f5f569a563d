#include "fabric/descriptor_exchange.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "fabric/meeting_file.h"
#include "fabric/tcp_server.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

constexpr double kTimeoutS = 30;
constexpr size_t kTokenBytes = 64;

// What travels beside a descriptor. The token is the receiver's: only members of the job know it.
struct Note {
  char token[kTokenBytes];
  uint32_t process, index;
};

SystemError failed(const char* what) {
  return SystemError(fmt::format("cannot {} a descriptor: {}", what, std::strerror(errno)));
}

// A datagram socket with a name that the system chose, in the namespace that has no files.
class Mailbox {
 public:
  Mailbox() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (!socket_ || bind(socket_.fd(), reinterpret_cast<sockaddr*>(&address),
                         sizeof(address.sun_family)) != 0) {
      throw failed("make a socket for");
    }
    socklen_t size = sizeof(address);
    getsockname(socket_.fd(), reinterpret_cast<sockaddr*>(&address), &size);
    name_.assign(reinterpret_cast<const char*>(&address), size);
  }

  const std::string& name() const { return name_; }
  const std::string& token() const { return token_; }

  // False when the receiver has no room now.
  bool send(const std::string& to, const Note& note, int descriptor) const {
    iovec part{const_cast<Note*>(&note), sizeof(note)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_name = const_cast<char*>(to.data());
    message.msg_namelen = static_cast<socklen_t>(to.size());
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    if (sendmsg(socket_.fd(), &message, MSG_NOSIGNAL) >= 0) return true;
    if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS) return false;
    throw failed("send");
  }

  struct Parcel {
    Note note{};
    Socket descriptor;
  };
  // Nothing when nothing has come. What strangers send is closed and forgotten.
  std::optional<Parcel> receive() const {
    Parcel parcel;
    iovec part{&parcel.note, sizeof(parcel.note)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(socket_.fd(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0) return std::nullopt;
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
      parcel.descriptor = Socket(descriptor);
    }
    const bool whole =
        got == static_cast<ssize_t>(sizeof(Note)) && message.msg_flags == MSG_CMSG_CLOEXEC;
    if (!whole || !parcel.descriptor || !same_secret({parcel.note.token, kTokenBytes}, token_)) {
      return Parcel{};
    }
    return parcel;
  }

  void wait(Deadline deadline) const {
    pollfd waiting{socket_.fd(), POLLIN, 0};
    // Short: nothing tells when a receiver has room again.
    poll(&waiting, 1, std::min(2, left_ms(deadline)));
  }

 private:
  Socket socket_;
  std::string name_;
  const std::string token_ = new_secret();
};

}  // namespace

std::vector<std::vector<Socket>> exchange_descriptors(HostGroup& group, std::span<const int> mine) {
  std::vector<std::vector<Socket>> received(static_cast<size_t>(group.size()));
  if (group.size() == 1) return received;
  std::optional<Mailbox> mailbox;
  group.together("opening mailboxes", [&] { mailbox.emplace(); });
  const std::vector<std::string> cards =
      group.all_gather("handing memory over", mailbox->token() + mailbox->name());
  const auto self = static_cast<size_t>(group.rank());
  for (size_t process = 0; process < received.size(); ++process) {
    if (process != self) received[process].resize(mine.size());
  }
  group.together("handing memory over", [&] {
    const Deadline deadline = after(kTimeoutS);
    size_t to_receive = (received.size() - 1) * mine.size();
    size_t sent = 0;  // counts over all peers and descriptors
    const size_t to_send = to_receive;
    while (sent < to_send || to_receive > 0) {
      if (sent < to_send) {
        const size_t process = (self + 1 + sent / mine.size()) % received.size();
        const size_t index = sent % mine.size();
        Note note{{}, static_cast<uint32_t>(self), static_cast<uint32_t>(index)};
        std::memcpy(note.token, cards[process].data(), kTokenBytes);
        if (mailbox->send(cards[process].substr(kTokenBytes), note, mine[index])) ++sent;
      }
      while (auto parcel = mailbox->receive()) {
        const size_t process = parcel->note.process, index = parcel->note.index;
        if (!parcel->descriptor || process >= received.size() || process == self ||
            index >= mine.size() || received[process][index]) {
          continue;
        }
        received[process][index] = std::move(parcel->descriptor);
        --to_receive;
      }
      if (left_ms(deadline) == 0) throw SystemError("descriptors did not come within 30 s");
      if (sent == to_send && to_receive > 0) mailbox->wait(deadline);
    }
  });
  return received;
}

}  // namespace stretto::fabric
