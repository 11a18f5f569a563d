// Whole files in and out, with errors that name the file and the system's reason.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stretto {

// Throws SystemError when the file cannot be read, UsageError when it holds more than `max_bytes`.
std::string read_file(const std::string& path, size_t max_bytes);
// The same, of a file and nothing else: UsageError for a pipe or device, which may have nothing to
// read for ever, at once.
std::string read_regular_file(const std::string& path, size_t max_bytes);

// Writes beside the target, flushes, then gives it the name: the old content survives any failure,
// a reader never sees half of the new one, and nothing is left where the process is ended in
// between (on file systems without nameless files, FILE.<number>.tmp). Devices and pipes
// (/dev/stdout) are written directly.
// Throws SystemError.
void write_file(const std::string& path, std::string_view content);

// The same for a folder of our own, which others may write too: what has the name already is never
// written through. A link or pipe there gives way to the file.
void write_own_file(const std::string& path, std::string_view content);

// Throws write_file's SystemError early, before the work whose result is to be written.
void check_writable(const std::string& path);

// Whether two paths lead to one file, through links too; it need not exist. Devices, pipes and
// folders are none.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace stretto
