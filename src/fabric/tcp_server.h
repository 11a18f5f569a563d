// The meeting point of a job's processes: a thread in the process of rank 0 that serves rounds.
//
// Strangers are expected: whoever connects must name the job's secret first, within a few seconds
// and a few bytes, and only a bounded number may try at a time.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fabric/rounds.h"
#include "fabric/socket.h"

namespace stretto::fabric {

class TcpServer {
 public:
  // How long a stranger may take to prove itself.
  static constexpr double kHelloTimeoutS = 5;

  // Throws SystemError when it cannot listen there. `secret` has kSecretBytes.
  TcpServer(const Address& address, int size, std::string secret,
            double hello_timeout_s = kHelloTimeoutS);
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  int port() const { return port_; }

 private:
  struct Connection;

  void serve();
  void accept_new();
  void read_from(Connection& connection);
  void take_frames(Connection& connection);
  void take_hello(Connection& connection, std::string_view body);
  void take_gather(Connection& connection, std::string_view body);
  void drop(Connection& connection, bool in_good_order);
  void deliver(const Rounds::Replies& replies);
  void sweep();

  Socket listener_;
  Socket wake_;  // readable when the server shall end
  int port_;
  std::string secret_;
  double hello_timeout_s_;
  Rounds rounds_;
  int num_strangers_refused_ = 0;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

// Equal, in a time that does not depend on where they differ.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace stretto::fabric
