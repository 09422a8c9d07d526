#include "server/handlers/held_source.h"

#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>

#include "engine/image/memory_io.h"

namespace upscaled::server {
namespace {

// Gives bytes in portions, and counts its end.
class Portions final : public ByteSource {
 public:
  Portions(size_t bytes, size_t portion) : left_(bytes), portion_(portion) {}
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    const size_t count = std::min({dst.size(), left_, portion_});
    std::fill_n(dst.begin(), count, uint8_t{7});
    left_ -= count;
    ends_ += count == 0;
    return count;
  }
  size_t left() const { return left_; }
  int ends() const { return ends_; }

 private:
  size_t left_;
  const size_t portion_;
  int ends_ = 0;
};

constexpr int64_t kMax = 1'000'000;

struct Received {
  absl::StatusOr<bool> whole = false;
  std::vector<uint8_t> bytes;
  int64_t reserved = 0;
};

Received Receive(ByteSource& source, int64_t total_bytes) {
  Received received;
  HeldSource held(source, total_bytes);
  received.whole = held.ReadAll(kMax, [&](int64_t bytes) {
    received.reserved = bytes;
    return true;
  });
  received.bytes = held.TakeBytes();
  return received;
}

TEST(HeldSourceTest, ReceivesAllThereIs) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{300'000}, size_t{kMax}}) {
    for (const size_t portion : {size_t{977}, size_t{1} << 20}) {
      Portions source(bytes, portion);
      const Received received = Receive(source, 0);
      EXPECT_TRUE(*received.whole);
      EXPECT_EQ(received.bytes, std::vector<uint8_t>(bytes, 7));
      EXPECT_EQ(source.ends(), 1);
      EXPECT_GE(received.reserved, static_cast<int64_t>(bytes));
    }
  }
}

TEST(HeldSourceTest, TellsWhetherThereIsAny) {
  Portions none(0, 100), some(1000, 100);
  HeldSource empty(none, 0), held(some, 0);
  EXPECT_EQ(*empty.IsEmpty(), true);
  EXPECT_EQ(*held.IsEmpty(), false);
  EXPECT_TRUE(*held.ReadAll(kMax, [](int64_t) { return true; }));
  EXPECT_EQ(held.bytes().size(), 1000u);
}

TEST(HeldSourceTest, StopsBeyondTheMaximumAndLosesNothing) {
  Portions source(3 * kMax, 10'000);
  const Received received = Receive(source, 0);
  EXPECT_FALSE(*received.whole);
  EXPECT_GT(received.bytes.size(), size_t{kMax});
  EXPECT_EQ(received.bytes.size() + source.left(), size_t{3 * kMax});
  EXPECT_LE(received.reserved, 2 * (kMax + 1));
}

TEST(HeldSourceTest, WaitsForNoEndWhereTheSizeIsKnown) {
  Portions source(5000, 1000);
  EXPECT_TRUE(*Receive(source, 5000).whole);
  EXPECT_EQ(source.ends(), 0);
}

TEST(HeldSourceTest, ASizeThatIsTooLargeDoesNoHarm) {
  Portions source(5000, 1000);
  const Received received = Receive(source, 9000);
  EXPECT_TRUE(*received.whole);
  EXPECT_EQ(received.bytes.size(), 5000u);
}

TEST(HeldSourceTest, AsksBeforeItTakesMemory) {
  Portions source(5000, 1000);
  HeldSource held(source, 0);
  EXPECT_FALSE(*held.ReadAll(kMax, [](int64_t) { return false; }));
  EXPECT_EQ(source.left(), 5000u);
}

// A TIFF with its directory far behind.
TEST(HeldSourceTest, LongHeadersTakeMemoryThatWasAskedFor) {
  std::string file("II\x2a\0\0\0\x30\0", 8);
  file.resize(4 << 20);
  const DecodeLimits limits{.max_metadata_bytes = 1 << 20};
  MemorySource source(file);
  HeldSource held(source, 0);
  const absl::Status none = absl::ResourceExhaustedError("no memory");
  int64_t asked = 0;
  const auto header = held.ReadHeader(limits, [&](int64_t bytes) {
    asked = bytes;
    return none;
  });
  EXPECT_EQ(header.status(), none);
  EXPECT_GE(asked, 2 << 20);
  EXPECT_LE(held.bytes().size(), size_t{1} << 20);
}

}  // namespace
}  // namespace upscaled::server
