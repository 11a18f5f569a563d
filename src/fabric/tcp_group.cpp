#include "fabric/tcp_group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "fabric/frame.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

// What the server may take beyond a round's own deadline.
constexpr double kServerGraceS = 10;

class TcpGroup : public HostGroup {
 public:
  TcpGroup(const Member& member, const Address& address, Socket socket,
           std::unique_ptr<TcpServer> server)
      : member_(member), address_(address), server_(std::move(server)), socket_(std::move(socket)) {
    const Deadline deadline = after(member.join_timeout_s);
    if (!socket_) socket_ = connect_to(address, deadline);
    if (!socket_) {
      throw SystemError(fmt::format("rank 0 did not open {} within {:g} s", to_string(address),
                                    member.join_timeout_s));
    }
    say_hello(deadline);
    meet("joining the job", {}, member.join_timeout_s);
  }

  ~TcpGroup() override { send_all(socket_, FrameWriter().frame(FrameType::leave), after(1)); }

  int rank() const override { return member_.rank; }
  int size() const override { return member_.size; }

 private:
  std::vector<std::string> gather(std::string_view what, std::string_view mine,
                                  double patience_s) override {
    const double usual_s = member_.timeout_s;
    return meet(what, mine, patience_s > 0 ? std::min(patience_s, usual_s) : usual_s);
  }

  struct Frame {
    FrameType type{};  // none: no answer
    std::string body;
  };

  void say_hello(Deadline deadline) {
    const uint64_t who =
        (static_cast<uint64_t>(member_.size) << 32) | static_cast<uint64_t>(member_.rank);
    const std::string hello = FrameWriter()
                                  .raw(member_.secret)
                                  .number(who)
                                  .number(static_cast<uint64_t>(getpid()))
                                  .frame(FrameType::hello);
    Frame answer;
    if (send_all(socket_, hello, deadline) == Transfer::done) answer = receive(deadline);
    if (answer.type == FrameType::welcome) return;
    FrameReader reader(answer.body);
    std::string reason(reader.text());
    const bool is_answer = answer.type == FrameType::refused && reader.at_end();
    if (!is_answer) reason = "what listens there is no Stretto job";
    const std::string message =
        fmt::format("cannot join the job at {}: {}", to_string(address_), one_line(reason, 300));
    if (!is_answer || reason == kWrongSecret) throw NotThisJob(message);
    throw SystemError(message);
  }

  std::vector<std::string> meet(std::string_view what, std::string_view mine, double timeout_s) {
    STRETTO_ASSERT(mine.size() <= kMaxMessageBytes, "a message fits its frame");
    const uint64_t sequence = next_++;
    const Deadline deadline = after(timeout_s + kServerGraceS);
    const std::string frame = FrameWriter()
                                  .number(sequence)
                                  .number(static_cast<uint64_t>(timeout_s * 1000))
                                  .text(what.substr(0, 200))
                                  .text(mine)
                                  .frame(FrameType::gather);
    Frame answer{};
    if (send_all(socket_, frame, deadline) == Transfer::done) answer = receive(deadline);
    FrameReader reader(answer.body);
    if (reader.number() != sequence) lose();
    if (answer.type == FrameType::failed) {
      const std::string reason(reader.text());
      throw SystemError(one_line(reason, 500));
    }
    std::vector<std::string> all;
    for (int i = 0; i < member_.size; ++i) all.emplace_back(reader.text());
    if (answer.type != FrameType::all || !reader.at_end()) lose();
    return all;
  }

  Frame receive(Deadline deadline) {
    FrameHeader header{};
    const auto take = [&](char* to, size_t num_bytes) {
      return receive_all(socket_, to, num_bytes, deadline) == Transfer::done;
    };
    if (!take(reinterpret_cast<char*>(&header), sizeof(header))) return {};
    const uint64_t most = (kMaxMessageBytes + 16) * static_cast<uint64_t>(member_.size) + 4096;
    if (header.num_bytes > most) return {};
    Frame frame{header.type, std::string(header.num_bytes, '\0')};
    if (!take(frame.body.data(), frame.body.size())) return {};
    return frame;
  }

  [[noreturn]] void lose() const {
    throw SystemError(
        fmt::format("rank 0's process at {} ended or does not answer", to_string(address_)));
  }

  Member member_;
  Address address_;
  std::unique_ptr<TcpServer> server_;  // ends after the socket's farewell
  Socket socket_;
  uint64_t next_ = 0;
};

}  // namespace

std::unique_ptr<HostGroup> tcp_group(const Member& member, const Address& address, Socket socket,
                                     std::unique_ptr<TcpServer> server) {
  STRETTO_ASSERT(member.secret.size() == kSecretBytes, "secrets have one length");
  return std::make_unique<TcpGroup>(member, address, std::move(socket), std::move(server));
}

}  // namespace stretto::fabric
