// Sanitizers make tests about ten times slower: those that go through everything take a part there.
#pragma once

#include <cstddef>

namespace stretto {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

template <typename T>
constexpr T all_or_sample(T all, T sample) {
  return kSanitized ? sample : all;
}

// Of a long list, every so manieth. Lists are products of short ones, so it divides none of those.
inline constexpr size_t kSampleStep = all_or_sample<size_t>(1, 7);

}  // namespace stretto
