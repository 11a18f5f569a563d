// Groups of real processes over TCP, which meet at a port that is free.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "fabric/meeting_file.h"
#include "fabric/tcp_group.h"

namespace stretto::fabric {

// A port that is free now; rank 0 opens it in its own process.
inline int free_port() { return port_of(listen_at({"127.0.0.1", 0})); }

class TcpGroupTest : public ::testing::Test {
 protected:
  std::unique_ptr<HostGroup> join(int rank, int size) const {
    Member member{rank, size, secret_, join_timeout_s_, timeout_s_};
    std::unique_ptr<TcpServer> server;
    if (rank == 0) server = std::make_unique<TcpServer>(address_, size, secret_);
    return tcp_group(member, address_, {}, std::move(server));
  }

  std::string secret_ = new_secret();
  Address address_{"127.0.0.1", free_port()};
  double join_timeout_s_ = 10, timeout_s_ = 10;
};

}  // namespace stretto::fabric
