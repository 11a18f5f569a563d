// Descriptors between real processes, with memory of the host that both map.
#include "fabric/descriptor_exchange.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fabric/meeting_file.h"
#include "fabric/tcp_group.h"
#include "processes.h"

namespace stretto::fabric {
namespace {

using ::testing::Each;

class HostMemory {
 public:
  explicit HostMemory(int fd) {
    bytes_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  ~HostMemory() { munmap(bytes_, kBytes); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  int& at(int index) const { return static_cast<int*>(bytes_)[index]; }
  static constexpr size_t kBytes = 4096;

 private:
  void* bytes_;
};

std::vector<std::string> exchange_between(int processes, int files_each) {
  const Address address{"127.0.0.1", port_of(listen_at({"127.0.0.1", 0}))};
  const std::string secret = new_secret();
  return on_processes(processes, [&](int rank) {
    std::unique_ptr<TcpServer> server;
    if (rank == 0) server = std::make_unique<TcpServer>(address, processes, secret);
    const auto group = tcp_group({rank, processes, secret, 20, 20}, address, {}, std::move(server));
    std::vector<Socket> files;
    std::vector<int> descriptors;
    for (int i = 0; i < files_each; ++i) {
      files.emplace_back(memfd_create("stretto-test", MFD_CLOEXEC));
      if (ftruncate(files.back().fd(), HostMemory::kBytes) != 0) return std::string("no memory");
      descriptors.push_back(files.back().fd());
    }
    const auto received = exchange_descriptors(*group, descriptors);
    // Everyone writes its mark into everyone's memory, then reads its own.
    for (int peer = 0; peer < processes; ++peer) {
      for (int i = 0; i < files_each; ++i) {
        const auto file = static_cast<size_t>(i);
        const int fd =
            peer == rank ? descriptors[file] : received[static_cast<size_t>(peer)][file].fd();
        HostMemory(fd).at(rank) = 100 * peer + 10 * rank + i;
      }
    }
    group->barrier("marks");
    for (int i = 0; i < files_each; ++i) {
      const HostMemory own(descriptors[static_cast<size_t>(i)]);
      for (int peer = 0; peer < processes; ++peer) {
        if (own.at(peer) != 100 * rank + 10 * peer + i) return std::string("wrong mark");
      }
    }
    return std::string("good");
  });
}

TEST(DescriptorExchangeTest, EveryoneMapsEveryonesMemory) {
  EXPECT_THAT(exchange_between(4, 1), Each("good"));
  EXPECT_THAT(exchange_between(2, 3), Each("good"));
}

TEST(DescriptorExchangeTest, MoreThanAMailboxHolds) {
  EXPECT_THAT(exchange_between(3, 40), Each("good"));
}

}  // namespace
}  // namespace stretto::fabric
