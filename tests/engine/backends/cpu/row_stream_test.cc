// Streams of rows give the bytes of tiles, take the planned memory, and end when asked to.
#include "engine/backends/row_stream.h"

#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/base/int_math.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/run_tiles.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::RandomInt;

// A band of an image: its source rows, no more, and its result, at first random.
struct Band {
  Band(const Executable& executable, const Image& image, int y, int height, std::mt19937& random)
      : rows{0, y, image.spec().width_px, height},
        plan(std::make_shared<const TilePlan>(executable.Plan(rows, image.spec().size()))),
        source({plan->input.width, plan->input.height, image.spec().channels, image.spec().type}) {
    for (int row = 0; row < plan->input.height; ++row) {
      std::memcpy(source.mutable_view().row(row), image.view().row(plan->input.y + row),
                  source.spec().row_bytes());
    }
    const int scale = executable.network().scale;
    result = test::RandomImage({rows.width * scale, height * scale, 3, SampleType::kU16}, random);
  }

  TileTask Task(const RowSlice& slice, const Cancellation* cancellation = nullptr) {
    return {.plan = plan,
            .src = source.view(),
            .src_rect = plan->input,
            .dst = result.mutable_view(),
            .cancellation = cancellation,
            .slice = slice};
  }

  Rect rows;
  std::shared_ptr<const TilePlan> plan;
  Image source;
  Image result;
};

// The result in bands of up to `band_rows`, or one of all rows, and slices of up to `max_cost`.
Image RunRows(Backend& backend, const Executable& executable, const Image& image, int band_rows,
              int64_t max_cost, std::mt19937& random) {
  const ImageSpec spec = image.spec();
  const int scale = executable.network().scale;
  Image result({spec.width_px * scale, spec.height_px * scale, 3, SampleType::kU16});
  const auto rows = executable.CreateRowStream(spec.size());
  const std::unique_ptr<Stream> streams[] = {backend.CreateStream(), backend.CreateStream()};
  std::uniform_int_distribution<int64_t> costs(1, max_cost);
  for (int y = 0; y < spec.height_px;) {
    const int multiples = RandomInt(random, 1, CeilDiv(band_rows, RowStream::kBandMultiple));
    const int most = band_rows == spec.height_px ? band_rows : RowStream::kBandMultiple * multiples;
    const int height = std::min(most, spec.height_px - y);
    Band band(executable, image, y, height, random);
    y += height;
    while (const int64_t cost = rows->PlanSlice(scale * y, costs(random))) {
      const TileTask task = band.Task({.stream = rows.get(), .cost = cost});
      const absl::Status status = streams[RandomInt(random, 0, 1)]->Run(executable, {&task, 1});
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return result;
    }
    const Rect place = Scale(band.rows, scale);
    for (int row = 0; row < place.height; ++row) {
      std::memcpy(result.mutable_view().row(place.y + row), band.result.view().row(row),
                  result.spec().row_bytes());
    }
  }
  return result;
}

// Bands of an image, and the computed parts of each.
struct CutBand {
  int y, height;
  std::vector<std::shared_ptr<const TilePlan>> parts;
};

// Up to three parts a band, side by side.
std::vector<CutBand> CutAtRandom(const Executable& executable, Size image, bool in_one,
                                 std::mt19937& random) {
  std::vector<CutBand> bands;
  for (int y = 0; y < image.height;) {
    const int most = RowStream::kBandMultiple * RandomInt(random, 1, 6);
    CutBand& band = bands.emplace_back(
        CutBand{y, in_one ? image.height : std::min(most, image.height - y), {}});
    y += band.height;
    const int columns = RandomInt(random, 1, 3);
    for (int i = 0; i < columns; ++i) {
      const int begin = image.width * i / columns, end = image.width * (i + 1) / columns;
      const int x = RandomInt(random, begin, end), top = RandomInt(random, 0, band.height);
      const Rect part{x, band.y + top, RandomInt(random, 0, end - x),
                      RandomInt(random, 0, band.height - top)};
      if (part.empty()) continue;
      band.parts.push_back(std::make_shared<const TilePlan>(executable.Plan(part, image)));
    }
  }
  return bands;
}

// Parts from band number `first` on, with `known` bands known.
RowParts PartsOf(const Executable& executable, Size image, std::span<const CutBand> bands,
                 size_t first, size_t known) {
  RowParts parts;
  for (const CutBand& band : bands.subspan(first, known - first))
    parts.tiles.insert(parts.tiles.end(), band.parts.begin(), band.parts.end());
  if (known < bands.size()) {
    const int y = bands[known].y;
    parts.unknown = std::make_shared<const TilePlan>(
        executable.Plan({0, y, image.width, image.height - y}, image));
  }
  return parts;
}

class RowStreamBytesTest : public ::testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (GetParam() == Precision::kFast && !cpu::HasVnni(cpu::ListIsas().front())) {
      GTEST_SKIP() << "no AVX512_VNNI here";
    }
  }
  Network RandomNetwork(std::mt19937& random) const {
    const bool attends = GetParam() == Precision::kExact && RandomInt(random, 0, 3) == 0;
    if (attends) return test::RandomAttentionNetwork(random);
    return GetParam() == Precision::kFast ? test::RandomFastNetwork(random)
                                          : test::RandomNetwork(random);
  }
  // Random weights may leave a layer next to nothing, which 16-bit floats cannot hold.
  bool IsTooFaint(const absl::Status& status) const {
    return GetParam() == Precision::kFast && absl::IsUnimplemented(status);
  }
};

TEST_P(RowStreamBytesTest, GivesTheBytesOfTiles) {
  std::mt19937 random = test::FreshRandom();
  int streams = 0;
  for (int i = 0; i < 60; ++i) {
    const auto backend =
        CreateCpuBackend({.threads = 2, .always_stages = i % 4 == 3, .poisons_memory = true});
    ASSERT_TRUE(backend.ok()) << backend.status();
    const Network network = RandomNetwork(random);
    SCOPED_TRACE(test::Describe(network));
    const auto executable = (*backend)->Compile(network, GetParam());
    if (IsTooFaint(executable.status())) continue;
    ASSERT_TRUE(executable.ok()) << executable.status();
    const Size size{RandomInt(random, 1, 90), RandomInt(random, 1, 90)};
    const auto need = (*executable)->PlanRowStream(size);
    EXPECT_EQ(need.has_value(), (*executable)->CreateRowStream(size) != nullptr);
    if (!need) continue;
    ++streams;
    const Image image = test::RandomImage(
        {size.width, size.height, RandomInt(random, 3, 4), SampleType::kU8}, random);
    const Image expected = test::RunTiles(**backend, **executable, image, size, SampleType::kU16);
    const int band_rows = need->sees_all ? size.height : RandomInt(random, 1, 40);
    const int64_t max_cost = RandomInt(random, 1, 1000) * int64_t{100'000};
    const Image rows = RunRows(**backend, **executable, image, band_rows, max_cost, random);
    EXPECT_TRUE(test::SameImages(rows.view(), expected.view()))
        << size.width << "x" << size.height << ", bands of " << band_rows;
    if (HasFailure()) return;
  }
  EXPECT_GT(streams, 0);
}

// Parts have the bytes of tiles, though the rest is not computed, and cost less.
TEST_P(RowStreamBytesTest, PartsHaveTheBytesOfTiles) {
  std::mt19937 random = test::FreshRandom();
  int64_t spent = 0, whole = 0;
  for (int i = 0; i < 60; ++i) {
    const auto backend =
        CreateCpuBackend({.threads = 2, .always_stages = i % 4 == 3, .poisons_memory = true});
    ASSERT_TRUE(backend.ok()) << backend.status();
    const Network network = RandomNetwork(random);
    SCOPED_TRACE(test::Describe(network));
    const auto made = (*backend)->Compile(network, GetParam());
    if (IsTooFaint(made.status())) continue;
    ASSERT_TRUE(made.ok()) << made.status();
    const Executable& executable = **made;
    const Size size{RandomInt(random, 1, 120), RandomInt(random, 1, 120)};
    const auto need = executable.PlanRowStream(size);
    if (!need) continue;
    const Image image = test::RandomImage(
        {size.width, size.height, RandomInt(random, 3, 4), SampleType::kU8}, random);
    const Image expected = test::RunTiles(**backend, executable, image, size, SampleType::kU16);
    const std::vector<CutBand> bands = CutAtRandom(executable, size, need->sees_all, random);
    const int scale = executable.network().scale;
    const auto rows = executable.CreateRowStream(size);
    const auto stream = (*backend)->CreateStream();
    size_t known = 0;
    for (size_t b = 0; b < bands.size(); ++b) {
      known = std::min(bands.size(), std::max(known, b + RandomInt(random, 1, 9)));
      const RowParts parts = PartsOf(executable, size, bands, b, known);
      Band band(executable, image, bands[b].y, bands[b].height, random);
      const int bottom = scale * (bands[b].y + bands[b].height);
      while (const int64_t cost =
                 rows->PlanSlice(bottom, RandomInt(random, 1, 100'000'000), &parts)) {
        spent += cost;
        const TileTask task = band.Task({.stream = rows.get(), .cost = cost});
        const absl::Status status = stream->Run(executable, {&task, 1});
        ASSERT_TRUE(status.ok()) << status;
      }
      for (const auto& part : bands[b].parts) {
        const Rect place = Scale(part->tile, scale);
        const Rect in_band = Shift(place, 0, -scale * bands[b].y);
        ASSERT_TRUE(test::SameImages(band.result.view().Crop(in_band), expected.view().Crop(place)))
            << size.width << "x" << size.height << ", " << place.width << "x" << place.height
            << " at " << place.x << ", " << place.y;
      }
    }
    whole += executable.CreateRowStream(size)->PlanSlice(scale * size.height, INT64_MAX);
  }
  EXPECT_LT(spent, whole);
}

INSTANTIATE_TEST_SUITE_P(Precisions, RowStreamBytesTest,
                         ::testing::Values(Precision::kExact, Precision::kFast),
                         [](const auto& info) { return std::string(PrecisionName(info.param)); });

// 12 layers. Each reads a row beyond its own.
Network Chain() {
  Network network = test::InputAlone();
  for (int i = 0; i < 12; ++i) test::AppendConv(network, 32, 3);
  test::AppendConv(network, 3, 3);
  return network;
}

TEST(RowStreamMemoryTest, IsAsPlanned) {
  std::mt19937 random = test::FreshRandom();
  const auto backend = CreateCpuBackend({.threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executable = (*backend)->Compile(Chain(), Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Size size{800, 300};
  const Image image = test::RandomImage({size.width, size.height, 3, SampleType::kU8}, random);
  const auto need = (*executable)->PlanRowStream(size);
  ASSERT_TRUE(need.has_value());
  Band band(**executable, image, 0, 48, random);
  const auto stream = (*backend)->CreateStream();
  const auto allocated = [] {
    const auto info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const size_t before = allocated();
  const auto rows = (*executable)->CreateRowStream(size);
  const TileTask task = band.Task({.stream = rows.get(), .cost = rows->PlanSlice(48, INT64_MAX)});
  ASSERT_TRUE(stream->Run(**executable, {&task, 1}).ok());
  constexpr size_t kAlignment = size_t{2} << 20;  // addresses, not memory
  EXPECT_LE(allocated(), before + need->bytes + need->scratch_bytes + kAlignment);
  // A ring of some ten rows a layer, not its rows all.
  EXPECT_LT(need->bytes, size_t{12} * 16 * size.width * 32 * sizeof(float) + (4 << 20));
}

TEST(RowStreamTest, EndsBeforeAStepWhereItIsCancelled) {
  std::mt19937 random = test::FreshRandom();
  const auto backend = CreateCpuBackend({.threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executable = (*backend)->Compile(Chain(), Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Image image = test::RandomImage({60, 60, 3, SampleType::kU8}, random);
  Band band(**executable, image, 0, 48, random);
  const uint8_t* const first = band.result.view().row(0);
  const std::vector<uint8_t> before(first, first + band.result.bytes());
  const auto rows = (*executable)->CreateRowStream(image.spec().size());
  const int64_t cost = rows->PlanSlice(48, INT64_MAX);
  Cancellation cancellation;
  cancellation.Cancel(absl::CancelledError("gone"));
  const TileTask task = band.Task({.stream = rows.get(), .cost = cost}, &cancellation);
  EXPECT_TRUE((*backend)->CreateStream()->Run(**executable, {&task, 1}).ok());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), first));
  EXPECT_EQ(rows->PlanSlice(48, INT64_MAX), cost) << "no step has run";
}

TEST(RowStreamTest, SlicesKeepToTheirCost) {
  const auto backend = CreateCpuBackend({.threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executable = (*backend)->Compile(Chain(), Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Size size{100, 100};
  const auto rows = (*executable)->CreateRowStream(size);
  const int64_t all = rows->PlanSlice(size.height, INT64_MAX);
  const int64_t plan = (*executable)->Plan({0, 0, 100, 100}, size).Cost(/*cached=*/false);
  EXPECT_LE(all, plan);
  EXPECT_GT(all, plan - plan / 50);
  EXPECT_LE(rows->PlanSlice(size.height, plan / 100), plan / 100);
  EXPECT_GE(rows->PlanSlice(size.height, 0), 1) << "one step at least";
}

TEST(RowStreamTest, GoesOnWhereItWasMadeAlone) {
  std::mt19937 random = test::FreshRandom();
  const auto backend = CreateCpuBackend({.threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto made = (*backend)->Compile(Chain(), Precision::kExact);
  const auto other = (*backend)->Compile(Chain(), Precision::kExact);
  ASSERT_TRUE(made.ok() && other.ok()) << made.status() << other.status();
  const Image image = test::RandomImage({20, 20, 3, SampleType::kU8}, random);
  Band band(**other, image, 0, 20, random);
  const auto rows = (*made)->CreateRowStream(image.spec().size());
  const TileTask task = band.Task({.stream = rows.get(), .cost = rows->PlanSlice(20, INT64_MAX)});
  EXPECT_EQ((*backend)->CreateStream()->Run(**other, {&task, 1}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(RowStreamTest, BandsEndWhereStepsDo) {
  std::mt19937 random = test::FreshRandom();
  const auto backend = CreateCpuBackend({.threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executable = (*backend)->Compile(Chain(), Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Image image = test::RandomImage({20, 20, 3, SampleType::kU8}, random);
  const auto rows = (*executable)->CreateRowStream(image.spec().size());
  const RowSlice slice{.stream = rows.get(), .cost = rows->PlanSlice(7, INT64_MAX)};
  Band band(**executable, image, 0, 7, random);
  const TileTask task = band.Task(slice);
  EXPECT_EQ(
      (*backend)->CreateStream()->Run(**executable, {&task, 1}),
      absl::InvalidArgumentError("a band ends at row 7 of the result, must at a multiple of 4"));
}

}  // namespace
}  // namespace upscaled
