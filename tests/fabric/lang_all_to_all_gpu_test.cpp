// The low-latency all-to-all on GPUs: every row with its scales in calls that follow each other
// without a host between them, some ranks getting none and some more than fits; and ranks that call
// otherwise named.
#include "fibre/scenarios/all_to_all.h"
#include "lang_gpu_fixture.h"

namespace stretto::fabric {
namespace {

using fibre::byte_of;
using fibre::rows_to;
using ::testing::HasSubstr;

constexpr size_t kRowBytes = 48, kRowScales = 3, kMostRowsHere = 3, kCalls = 6;
constexpr size_t kSlotsOfCalls = 2;  // what is left of them after the last call

class AllToAllGpuTest : public LangGpuTest {
 protected:
  void SetUp() override {
    LangGpuTest::SetUp();
    if (IsSkipped()) return;
    num_ = size_t(ranks_);
    const auto take = [&](const char* name, size_t bytes) {
      return group_->allocate(name, bytes, 0);
    };
    tokens_ = take("tokens", kCalls * num_ * 5 * kRowBytes);
    scales_ = take("scales", kCalls * num_ * 5 * kRowScales * 4);
    offsets_ = take("offsets", kCalls * (num_ + 1) * 4);
    slots_ = take("slots", kSlotsOfCalls * num_ * kMostRowsHere * kRowBytes);
    scale_slots_ = take("scale_slots", kSlotsOfCalls * num_ * kMostRowsHere * kRowScales * 4);
    signals_ = take("signals", all_to_all_signals(num_) * 8);
    calls_ = take("calls", num_ * 8);
    received_ = take("received", kSlotsOfCalls * num_ * 4);
    refused_ = take("refused", 4);
    kernel_ = compile({"kernels/all_to_all.h", "all_to_all<GpuBlock>", "AllToAllArgs<GpuBlock>"});
    for (int r = 0; r < ranks_; ++r) upload_calls(r);
  }
  void upload_calls(int r) {
    std::vector<uint8_t> tokens(kCalls * num_ * 5 * kRowBytes);
    std::vector<float> scales(kCalls * num_ * 5 * kRowScales);
    std::vector<uint32> offsets;
    for (size_t call = 0; call < kCalls; ++call) {
      size_t row = call * num_ * 5, sent = 0;
      offsets.push_back(0);
      for (int to = 0; to < ranks_; ++to) {
        for (size_t i = 0; i < rows_to(r, to, call); ++i, ++row, ++sent) {
          for (size_t b = 0; b < kRowBytes; ++b) {
            tokens[row * kRowBytes + b] = byte_of(r, to, call, i, b);
          }
          for (size_t s = 0; s < kRowScales; ++s) scales[row * kRowScales + s] = float(i + 10 * s);
        }
        offsets.push_back(uint32(sent));
      }
    }
    upload(r, tokens_, tokens);
    upload(r, scales_, scales);
    upload(r, offsets_, offsets);
  }
  AllToAllArgs<GpuBlock> args(int r, size_t call) const {
    return {group_->at<uint8>(r, tokens_) + call * num_ * 5 * kRowBytes,
            group_->at<float>(r, scales_) + call * num_ * 5 * kRowScales,
            group_->at<uint32>(r, offsets_) + call * (num_ + 1),
            kRowBytes,
            kRowScales,
            kMostRowsHere,
            group_->at<uint8>(r, slots_),
            group_->at<float>(r, scale_slots_),
            group_->at<uint64>(r, signals_),
            group_->at<uint64>(r, calls_),
            group_->at<uint32>(r, received_),
            group_->at<uint32>(r, refused_)};
  }
  // The halves of the last two calls.
  void expect_rows(int r) {
    const auto slots = download<uint8_t>(r, slots_, 2 * num_ * kMostRowsHere * kRowBytes);
    const auto scales = download<float>(r, scale_slots_, 2 * num_ * kMostRowsHere * kRowScales);
    const auto received = download<uint32>(r, received_, 2 * num_);
    size_t refused = 0;
    for (size_t call = 0; call < kCalls; ++call) {
      for (int to = 0; to < ranks_; ++to) {
        const size_t rows = rows_to(r, to, call);
        refused += to != r && rows > kMostRowsHere ? rows - kMostRowsHere : 0;
      }
    }
    EXPECT_EQ(download<uint32>(r, refused_, 1)[0], refused);
    for (size_t call = kCalls - 2; call < kCalls; ++call) {
      for (int from = 0; from < ranks_; ++from) {
        if (from == r) continue;
        const size_t slot = (call + 1) % 2 * num_ + size_t(from);
        const size_t rows = std::min(rows_to(from, r, call), kMostRowsHere);
        ASSERT_EQ(received[slot], rows) << "from rank " << from << " in call " << call;
        for (size_t i = 0; i < rows; ++i) {
          const size_t row = slot * kMostRowsHere + i;
          for (size_t b = 0; b < kRowBytes; ++b) {
            ASSERT_EQ(slots[row * kRowBytes + b], byte_of(from, r, call, i, b));
          }
          for (size_t s = 0; s < kRowScales; ++s) {
            ASSERT_EQ(scales[row * kRowScales + s], float(i + 10 * s));
          }
        }
      }
    }
  }

  size_t num_ = 0;
  Kernels kernel_;
  size_t tokens_, scales_, offsets_, slots_, scale_slots_, signals_, calls_, received_, refused_;
};

TEST_F(AllToAllGpuTest, MovesEveryRowCallAfterCall) {
  for (size_t call = 0; call < kCalls; ++call) {
    for (int r = 0; r < ranks_; ++r) launch(kernel_, r, args(r, call), ranks_ - 1);
  }
  ASSERT_EQ(error_of_run(), "");
  for (int r = 0; r < ranks_; ++r) expect_rows(r);
}

TEST_F(AllToAllGpuTest, RanksThatCallOtherwiseAreNamed) {
  for (int r = 0; r < ranks_; ++r) {
    AllToAllArgs<GpuBlock> one = args(r, 0);
    if (r == 1) one.max_rows = kMostRowsHere - 1;
    launch(kernel_, r, one, ranks_ - 1);
  }
  EXPECT_THAT(error_of_run(), HasSubstr("different arguments: max_rows is "));
}

}  // namespace
}  // namespace stretto::fabric
