// One writer of a file at a time, in all processes of a machine.
#pragma once

#include <chrono>
#include <string>

namespace stretto {

// Held until destroyed, or until its process ends, however it does. It is on 'PATH.lock', which
// stays: the file itself is replaced by its writers, and whoever removed the lock's file could
// leave two processes with a lock each.
class FileLock {
 public:
  // Waits for another's; throws SystemError when it cannot be had in that time, or at all.
  explicit FileLock(const std::string& path,
                    std::chrono::milliseconds most = std::chrono::seconds(20));
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace stretto
