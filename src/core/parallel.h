// Work that is spread over the machine's cores.
#pragma once

#include <cstddef>
#include <functional>

namespace stretto {

// Calls work(i) for every i below `count`, on as many threads as there are cores, `most_threads` at
// most; on fewer where the system gives no more. After a failure nothing new begins; it is thrown
// when all have ended.
void for_each_in_parallel(size_t count, size_t most_threads,
                          const std::function<void(size_t)>& work);

}  // namespace stretto
