// Whoever connects to a job's server without its secret gets nowhere, and does not disturb.
#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <thread>

#include "fabric/frame.h"
#include "fabric/meeting_file.h"
#include "fabric/tcp_group.h"

namespace stretto::fabric {
namespace {

class StrangerTest : public ::testing::Test {
 protected:
  // True when the server closes the connection after these bytes.
  bool closes_after(std::string_view bytes) const {
    const Socket socket = connect_to({"127.0.0.1", server_.port()}, after(5));
    send_all(socket, bytes, after(5));
    char answer[4096];
    return receive_all(socket, answer, sizeof(answer), after(5)) == Transfer::closed;
  }

  void expect_both_join() const {
    const auto join = [this](int rank) {
      return tcp_group({rank, 2, secret_, 10, 10}, {"127.0.0.1", server_.port()}, {}, nullptr);
    };
    auto other = std::async(std::launch::async, join, 1);
    EXPECT_NO_THROW({ EXPECT_EQ(join(0)->size(), 2); });
    EXPECT_NO_THROW({ EXPECT_EQ(other.get()->size(), 2); });
  }

  const std::string secret_ = new_secret();
  TcpServer server_{{"127.0.0.1", 0}, 2, secret_, /*hello_timeout_s=*/2};
};

std::string header(FrameType type, uint32_t num_bytes) {
  const FrameHeader made{type, num_bytes};
  return {reinterpret_cast<const char*>(&made), sizeof(made)};
}

TEST_F(StrangerTest, AreSentAway) {
  EXPECT_TRUE(closes_after("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_TRUE(closes_after(header(FrameType::hello, 0xffff'ffff)));
  EXPECT_TRUE(closes_after(header(FrameType::gather, kHelloBytes)));
  EXPECT_TRUE(closes_after(header(FrameType::hello, kHelloBytes) + std::string(kHelloBytes, 'x')));
}

TEST_F(StrangerTest, WhoSaysNothingIsSentAwayToo) {
  EXPECT_TRUE(closes_after(header(FrameType::hello, kHelloBytes).substr(0, 3)));
}

// More of them than the server holds: those that came last before the members are still there.
TEST_F(StrangerTest, DoNotDisturb) {
  std::vector<Socket> silent;
  for (int i = 0; i < 300; ++i)
    silent.push_back(connect_to({"127.0.0.1", server_.port()}, after(5)));
  expect_both_join();
}

// One that never stops sending has its turn like any other, and then the refusal.
TEST_F(StrangerTest, WhoNeverStopsSendingDoesNotDisturb) {
  std::atomic<bool> joined = false;
  std::thread flood([&] {
    const std::string wrong =
        header(FrameType::hello, kHelloBytes) + std::string(kHelloBytes + (1 << 20), 'x');
    while (!joined) {
      const Socket socket = connect_to({"127.0.0.1", server_.port()}, after(5));
      while (!joined && send_all(socket, wrong, after(1)) == Transfer::done) {
      }
    }
  });
  expect_both_join();
  joined = true;
  flood.join();
}

TEST_F(StrangerTest, AMemberThatSendsNonsenseIsTakenAsGone) {
  const Socket rogue = connect_to({"127.0.0.1", server_.port()}, after(5));
  const std::string hello =
      FrameWriter().raw(secret_).number((uint64_t{2} << 32) | 1).number(77).frame(FrameType::hello);
  send_all(rogue, hello + header(FrameType::gather, 12) + std::string(12, 'z'), after(5));
  try {
    tcp_group({0, 2, secret_, 5, 5}, {"127.0.0.1", server_.port()}, {}, nullptr);
    FAIL() << "joined";
  } catch (const SystemError& error) {
    EXPECT_STREQ(error.what(), "the process of rank 1 (pid 77) ended before joining the job");
  }
}

TEST(SecretTest, Compare) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abc", "ab"));
}

}  // namespace
}  // namespace stretto::fabric
