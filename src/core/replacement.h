// New content for a file, which takes the old one's place when it is complete or leaves no trace.
#pragma once

#include <string>
#include <string_view>

#include "core/descriptor.h"

namespace stretto {

// What happens to a link, device or pipe that has the file's name.
enum class Special { written_through, replaced };

// Until it is complete the content has no name where the file system can do that, so nothing of it
// stays behind when the process is ended in mid-write. Throws SystemError.
class Replacement {
 public:
  explicit Replacement(const std::string& path, Special special = Special::written_through);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void write(std::string_view content);
  void commit();

 private:
  int open_beside(Special special);
  // Gives nameless content the file's name; false: `errno` says why not.
  bool name_it();

  std::string path_;
  std::string target_;
  std::string folder_;     // of content without a name
  std::string temporary_;  // empty: the content has no such name
  Descriptor file_;
};

}  // namespace stretto
