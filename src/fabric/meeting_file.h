// How local processes of a job find rank 0: a small file that only their user can read, with the
// address at which rank 0 listens and the job's secret.
#pragma once

#include <optional>
#include <string>

#include "fabric/socket.h"

namespace stretto::fabric {

struct Meeting {
  Address address;
  std::string secret;
};

// 64 hexadecimal digits from the system's random source.
std::string new_secret();
bool is_secret(std::string_view text);
// The first line of a file that nobody else may read. Throws SystemError, UsageError.
std::string secret_from_file(const std::string& path);

// The file of the job `key` in this user's own folder: $XDG_RUNTIME_DIR, or a folder in /tmp that
// is made, and refused when it is not this user's alone.
std::string meeting_path(const std::string& key);

// Replaces whatever an earlier job has left there. Throws SystemError.
void write_meeting(const std::string& path, const Meeting& meeting);
// Nothing when there is no such file yet. Throws SystemError when it is not this user's alone or
// holds something else.
std::optional<Meeting> read_meeting(const std::string& path);

}  // namespace stretto::fabric
