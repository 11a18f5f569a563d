// Any bytes are a listing of programs or a UsageError; one that was read prints and reads the same.
#include <cstdint>
#include <cstdlib>

#include "stretto/error.h"
#include "tables/program_listing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  cuda::ProgramListing listing;
  try {
    listing = cuda::parse_listing({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const UsageError&) {
    return 0;
  }
  if (cuda::parse_listing(cuda::print(listing)) != listing) std::abort();
  return 0;
}
