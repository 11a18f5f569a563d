#include "report/deflate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

namespace stretto {
namespace {

constexpr size_t kWindow = 32768, kLeastMatch = 3, kMostMatch = 258;
constexpr size_t kHashes = 1 << 15, kMostTried = 48, kGoodMatch = 64;
constexpr size_t kBlockTokens = 1 << 16;
constexpr int kLiterals = 286, kDistances = 30, kCodeLengths = 19;
constexpr int kEnd = 256, kMostBits = 15, kMostLengthBits = 7;

// Of lengths and distances: what the code stands for, and how many bits follow it.
struct Range {
  uint16_t base;
  uint8_t bits;
};
constexpr Range kLengths[] = {
    {3, 0},  {4, 0},  {5, 0},  {6, 0},   {7, 0},   {8, 0},   {9, 0},   {10, 0},  {11, 1}, {13, 1},
    {15, 1}, {17, 1}, {19, 2}, {23, 2},  {27, 2},  {31, 2},  {35, 3},  {43, 3},  {51, 3}, {59, 3},
    {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0}};
constexpr Range kDistanceRanges[] = {{1, 0},     {2, 0},     {3, 0},      {4, 0},      {5, 1},
                                     {7, 1},     {9, 2},     {13, 2},     {17, 3},     {25, 3},
                                     {33, 4},    {49, 4},    {65, 5},     {97, 5},     {129, 6},
                                     {193, 6},   {257, 7},   {385, 7},    {513, 8},    {769, 8},
                                     {1025, 9},  {1537, 9},  {2049, 10},  {3073, 10},  {4097, 11},
                                     {6145, 11}, {8193, 12}, {12289, 12}, {16385, 13}, {24577, 13}};

template <size_t N>
int code_of(const Range (&ranges)[N], size_t value) {
  const auto next = std::upper_bound(std::begin(ranges), std::end(ranges), value,
                                     [](size_t v, const Range& range) { return v < range.base; });
  return static_cast<int>(next - std::begin(ranges)) - 1;
}

class Bits {
 public:
  void add(uint32_t value, int count) {
    held_ |= uint64_t{value} << num_held_;
    num_held_ += count;
    for (; num_held_ >= 8; num_held_ -= 8, held_ >>= 8) out_ += static_cast<char>(held_ & 0xff);
  }
  std::string finish() {
    if (num_held_ > 0) out_ += static_cast<char>(held_ & 0xff);
    return std::move(out_);
  }

 private:
  std::string out_;
  uint64_t held_ = 0;
  int num_held_ = 0;
};

// A prefix code by how often each symbol comes.
struct Code {
  std::vector<uint8_t> lengths;
  std::vector<uint16_t> words;  // bits in the order in which they are written

  Code(std::vector<uint32_t> counts, int most_bits) {
    if (std::count_if(counts.begin(), counts.end(), [](uint32_t n) { return n > 0; }) == 0) {
      counts[0] = 1;
    }
    // Where a code word would be too long, rare symbols are taken for less rare.
    for (uint32_t least = 1; !set_lengths(counts, least, most_bits); least *= 2) {
    }
    set_words();
  }

 private:
  bool set_lengths(const std::vector<uint32_t>& counts, uint32_t least, int most_bits) {
    struct Node {
      uint64_t count;
      size_t number;
      bool operator>(const Node& other) const {
        return std::pair(count, number) > std::pair(other.count, other.number);
      }
    };
    const size_t symbols = counts.size();
    std::priority_queue<Node, std::vector<Node>, std::greater<>> nodes;
    std::vector<size_t> parents(symbols * 2, 0);
    for (size_t symbol = 0; symbol < symbols; ++symbol) {
      if (counts[symbol] > 0) nodes.push({std::max(counts[symbol], least), symbol});
    }
    lengths.assign(symbols, 0);
    if (nodes.size() == 1) {
      lengths[nodes.top().number] = 1;
      return true;
    }
    size_t next = symbols;
    while (nodes.size() > 1) {
      const Node a = nodes.top();
      nodes.pop();
      const Node b = nodes.top();
      nodes.pop();
      parents[a.number] = parents[b.number] = next;
      nodes.push({a.count + b.count, next++});
    }
    const size_t root = next - 1;
    for (size_t symbol = 0; symbol < symbols; ++symbol) {
      if (counts[symbol] == 0) continue;
      int bits = 0;
      for (size_t at = symbol; at != root; at = parents[at]) ++bits;
      if (bits > most_bits) return false;
      lengths[symbol] = static_cast<uint8_t>(bits);
    }
    return true;
  }

  void set_words() {
    std::array<uint32_t, kMostBits + 2> next{};
    for (const uint8_t bits : lengths) next[bits + 1u] += bits > 0;
    for (size_t bits = 1; bits < next.size(); ++bits)
      next[bits] = (next[bits] + next[bits - 1]) << 1;
    words.assign(lengths.size(), 0);
    for (size_t symbol = 0; symbol < lengths.size(); ++symbol) {
      if (lengths[symbol] == 0) continue;
      uint32_t word = next[lengths[symbol]]++, reversed = 0;
      for (int bit = 0; bit < lengths[symbol]; ++bit, word >>= 1) {
        reversed = reversed << 1 | (word & 1);
      }
      words[symbol] = static_cast<uint16_t>(reversed);
    }
  }
};

struct Token {
  uint16_t length;    // 0: a literal
  uint16_t distance;  // or the literal
};

void write_block(Bits& bits, const std::vector<Token>& tokens, bool is_last) {
  std::vector<uint32_t> literals(kLiterals, 0), distances(kDistances, 0);
  for (const Token& token : tokens) {
    if (token.length == 0) {
      ++literals[token.distance];
      continue;
    }
    ++literals[257u + static_cast<size_t>(code_of(kLengths, token.length))];
    ++distances[static_cast<size_t>(code_of(kDistanceRanges, token.distance))];
  }
  ++literals[kEnd];
  const Code of_literals(literals, kMostBits), of_distances(distances, kMostBits);
  // Each length of a code word by itself: headers are few.
  std::vector<uint32_t> counts(kCodeLengths, 0);
  for (const Code* code : {&of_literals, &of_distances}) {
    for (const uint8_t length : code->lengths) ++counts[length];
  }
  const Code of_lengths(counts, kMostLengthBits);
  bits.add(is_last, 1);
  bits.add(2, 2);
  bits.add(kLiterals - 257, 5);
  bits.add(kDistances - 1, 5);
  bits.add(kCodeLengths - 4, 4);
  for (const size_t symbol : {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}) {
    bits.add(of_lengths.lengths[symbol], 3);
  }
  for (const Code* code : {&of_literals, &of_distances}) {
    for (const uint8_t length : code->lengths) {
      bits.add(of_lengths.words[length], of_lengths.lengths[length]);
    }
  }
  const auto put = [&](const Code& code, size_t symbol) {
    bits.add(code.words[symbol], code.lengths[symbol]);
  };
  for (const Token& token : tokens) {
    if (token.length == 0) {
      put(of_literals, token.distance);
      continue;
    }
    const auto length = static_cast<size_t>(code_of(kLengths, token.length));
    put(of_literals, 257 + length);
    bits.add(token.length - uint32_t{kLengths[length].base}, kLengths[length].bits);
    const auto distance = static_cast<size_t>(code_of(kDistanceRanges, token.distance));
    put(of_distances, distance);
    bits.add(token.distance - uint32_t{kDistanceRanges[distance].base},
             kDistanceRanges[distance].bits);
  }
  put(of_literals, kEnd);
}

// Where the same three bytes came before.
class Matches {
 public:
  explicit Matches(std::string_view bytes)
      : bytes_(bytes), heads_(kHashes, kNone), before_(bytes.size(), kNone) {}

  void insert(size_t at) {
    if (at + kLeastMatch > bytes_.size()) return;
    uint32_t& head = heads_[hash(at)];
    before_[at] = head;
    head = static_cast<uint32_t>(at);
  }

  // The longest one, the nearest of these.
  Token longest(size_t at) const {
    Token best{0, 0};
    if (at + kLeastMatch > bytes_.size()) return best;
    const size_t most = std::min(kMostMatch, bytes_.size() - at);
    size_t tried = 0;
    for (uint32_t from = heads_[hash(at)]; from != kNone && at - from <= kWindow;
         from = before_[from]) {
      if (++tried > kMostTried) break;
      if (best.length >= most) break;
      if (bytes_[from + best.length] != bytes_[at + best.length]) continue;
      size_t length = 0;
      while (length < most && bytes_[from + length] == bytes_[at + length]) ++length;
      if (length < kLeastMatch || length <= best.length) continue;
      // A distance of 32768 does not fit the field, and is one of many.
      if (at - from >= kWindow) continue;
      best = {static_cast<uint16_t>(length), static_cast<uint16_t>(at - from)};
    }
    return best;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  size_t hash(size_t at) const {
    const auto byte = [&](size_t i) {
      return uint32_t{static_cast<unsigned char>(bytes_[at + i])};
    };
    return ((byte(0) << 16 | byte(1) << 8 | byte(2)) * 2654435761u) >> 17;
  }

  std::string_view bytes_;
  std::vector<uint32_t> heads_, before_;
};

}  // namespace

std::string deflate(std::string_view bytes) {
  Bits bits;
  Matches matches(bytes);
  std::vector<Token> tokens;
  for (size_t at = 0; at < bytes.size();) {
    Token match = matches.longest(at);
    matches.insert(at);
    // One byte later there may be a longer one.
    if (match.length > 0 && match.length < kGoodMatch &&
        matches.longest(at + 1).length > match.length) {
      match.length = 0;
    }
    if (match.length == 0) {
      tokens.push_back({0, static_cast<unsigned char>(bytes[at++])});
    } else {
      tokens.push_back(match);
      for (size_t i = 1; i < match.length; ++i) matches.insert(at + i);
      at += match.length;
    }
    if (tokens.size() == kBlockTokens && at < bytes.size()) {
      write_block(bits, tokens, false);
      tokens.clear();
    }
  }
  write_block(bits, tokens, true);
  return bits.finish();
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    for (size_t j = 0; j < 4; ++j) {
      out += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

}  // namespace stretto
