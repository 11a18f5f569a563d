// A host group whose processes meet at a TCP server in the process of rank 0.
#pragma once

#include <memory>
#include <string>

#include "fabric/host_group.h"
#include "fabric/socket.h"
#include "fabric/tcp_server.h"
#include "stretto/error.h"

namespace stretto::fabric {

// Who listens there knows another secret, or is no job at all.
class NotThisJob : public SystemError {
 public:
  using SystemError::SystemError;
};

struct Member {
  int rank = 0, size = 1;
  std::string secret;          // kSecretBytes
  double join_timeout_s = 60;  // for all processes to come
  double timeout_s = 60;       // for all to come to a later call
};

// Joins the others, by `socket` where that is connected already; returns when all are there. Rank
// 0 passes the server that it has opened, which
// then lives as long as the group; the others pass none. Throws SystemError: nobody serves, wrong
// secret (NotThisJob), ranks that do not come (named), sizes that differ.
std::unique_ptr<HostGroup> tcp_group(const Member& member, const Address& address, Socket socket,
                                     std::unique_ptr<TcpServer> server);

}  // namespace stretto::fabric
