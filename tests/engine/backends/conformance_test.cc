// The promises of every device, over random networks: the reference's values, bit-exact results for
// every tiling, and no write outside a tile's destination.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/backends/backend_list.h"
#include "engine/backends/layer_profile.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/tested_devices.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::CreateTestedBackend;
using test::Describe;
using test::FreshRandom;
using test::RandomAttentionNetwork;
using test::RandomImage;
using test::RandomInt;
using test::RandomNetwork;
using test::RandomPooledNetwork;
using test::RunImage;
using test::WholeTask;

// fp32 against the reference's double sums; Winograd kernels lose about two digits. Relative to the
// largest value of the result, at least to 1.
constexpr float kTolerance = 1e-4f;
constexpr uint8_t kPoison = 0xA5;

constexpr SampleType kTypes[] = {SampleType::kU8, SampleType::kU16, SampleType::kF32};

// An image inside a larger poisoned block, to find writes outside it.
class GuardedImage {
 public:
  explicit GuardedImage(const ImageSpec& spec)
      : spec_(spec),
        stride_bytes_(spec.row_bytes() + 2 * kMarginBytes),
        bytes_((spec.height_px + 2) * stride_bytes_, kPoison) {}

  MutableImageView view() {
    return {bytes_.data() + stride_bytes_ + kMarginBytes, spec_,
            static_cast<ptrdiff_t>(stride_bytes_)};
  }

  // Every byte outside the image, and its fourth channel, are still poison.
  ::testing::AssertionResult OnlyColourWritten() const {
    const size_t sample_bytes = SampleBytes(spec_.type);
    for (size_t i = 0; i < bytes_.size(); ++i) {
      const size_t row = i / stride_bytes_, column = i % stride_bytes_;
      const bool inside = row >= 1 && row <= static_cast<size_t>(spec_.height_px) &&
                          column >= kMarginBytes && column < kMarginBytes + spec_.row_bytes();
      const bool colour =
          inside && (column - kMarginBytes) / sample_bytes % spec_.channels < size_t{3};
      if (!colour && bytes_[i] != kPoison) {
        return ::testing::AssertionFailure()
               << "byte " << column << " of row " << row << " was written";
      }
    }
    return ::testing::AssertionSuccess();
  }

  bool operator==(const GuardedImage& other) const { return bytes_ == other.bytes_; }

 private:
  static constexpr size_t kMarginBytes = 64;  // keeps float rows aligned

  ImageSpec spec_;
  size_t stride_bytes_;
  std::vector<uint8_t> bytes_;
};

ImageSpec ResultSpec(const Network& network, Size image, int channels, SampleType type) {
  return {image.width * network.scale, image.height * network.scale, channels, type};
}

float SampleAt(const ImageView& view, int x, int y, int c) {
  const int i = x * view.spec.channels + c;
  switch (view.spec.type) {
    case SampleType::kU8:
      return view.row(y)[i] / 255.0f;
    case SampleType::kU16:
      return view.row_as<uint16_t>(y)[i] / 65535.0f;
    case SampleType::kF32:
      return view.row_as<float>(y)[i];
  }
  return 0;
}

// `actual` of any type against float `expected`, each within tolerance plus its type's rounding.
void ExpectNear(const ImageView& actual, const ImageView& expected) {
  const SampleType type = actual.spec.type;
  const float rounding = type == SampleType::kF32  ? 0
                         : type == SampleType::kU8 ? 0.5f / 255
                                                   : 0.5f / 65535;
  float largest = 1;
  for (int y = 0; y < expected.height_px(); ++y) {
    for (int i = 0; i < 3 * expected.width_px(); ++i) {
      largest = std::max(largest, std::abs(expected.row_as<float>(y)[i]));
    }
  }
  for (int y = 0; y < actual.height_px(); ++y) {
    for (int x = 0; x < actual.width_px(); ++x) {
      for (int c = 0; c < 3; ++c) {
        float wanted = SampleAt(expected, x, y, c);
        if (type != SampleType::kF32) wanted = std::clamp(wanted, 0.0f, 1.0f);
        ASSERT_NEAR(SampleAt(actual, x, y, c), wanted, kTolerance * largest + rounding)
            << "at " << x << ", " << y << " channel " << c;
      }
    }
  }
}

class ConformanceTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto backend = CreateTestedBackend(GetParam());
    if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    auto reference = CreateBackend("reference", {});
    ASSERT_TRUE(reference.ok()) << reference.status();
    reference_ = *std::move(reference);
  }

  // A random network, compiled by the backend; fails the test if it takes too few.
  std::shared_ptr<const Executable> RandomExecutable() {
    const int first = RandomInt(random_, 0, 3);
    for (int attempt = 0; attempt < 20; ++attempt) {
      network_ =
          attempt % 4 == first % 4 ? RandomAttentionNetwork(random_) : RandomNetwork(random_);
      auto executable = backend_->Compile(network_, Precision::kExact);
      if (executable.ok()) return *executable;
      EXPECT_EQ(executable.status().code(), absl::StatusCode::kUnimplemented)
          << executable.status() << "\n"
          << Describe(network_);
    }
    ADD_FAILURE() << "refuses twenty networks running, the last being\n" << Describe(network_);
    return nullptr;
  }

  void RunWhole(Backend& backend, const Executable& executable, ImageView source,
                MutableImageView dst) {
    const absl::Status status =
        RunImage(*backend.CreateStream(), executable, {WholeTask(executable, source, dst)});
    ASSERT_TRUE(status.ok()) << status;
  }

  Image WholeResult(Backend& backend, const Executable& executable, ImageView source,
                    SampleType type = SampleType::kF32) {
    Image result(ResultSpec(executable.network(), source.spec.size(), 3, type));
    RunWhole(backend, executable, source, result.mutable_view());
    return result;
  }

  Image ReferenceResult(ImageView source) {
    const auto executable = reference_->Compile(network_, Precision::kExact);
    EXPECT_TRUE(executable.ok()) << executable.status();
    return WholeResult(*reference_, **executable, source);
  }

  std::mt19937 random_ = FreshRandom();
  std::unique_ptr<Backend> backend_, reference_;
  Network network_;
};

TEST_P(ConformanceTest, AgreesWithTheReferenceForEveryTypeAndLeavesTheRestAlone) {
  for (int i = 0; i < 40; ++i) {
    const auto executable = RandomExecutable();
    ASSERT_NE(executable, nullptr);
    SCOPED_TRACE(Describe(network_));
    const ImageSpec spec{RandomInt(random_, 1, 45), RandomInt(random_, 1, 45),
                         RandomInt(random_, 3, 4), kTypes[RandomInt(random_, 0, 2)]};
    const Image source = RandomImage(spec, random_);
    const Image expected = ReferenceResult(source.view());
    for (const SampleType type : kTypes) {
      GuardedImage dst(ResultSpec(network_, spec.size(), RandomInt(random_, 3, 4), type));
      RunWhole(*backend_, *executable, source.view(), dst.view());
      EXPECT_TRUE(dst.OnlyColourWritten());
      ExpectNear(dst.view(), expected.view());
      if (HasFatalFailure() || HasFailure()) return;
    }
  }
}

TEST_P(ConformanceTest, IntegerResultsAreTheFloatOnesRoundedHalfUp) {
  for (int i = 0; i < 10; ++i) {
    const auto executable = RandomExecutable();
    ASSERT_NE(executable, nullptr);
    SCOPED_TRACE(Describe(network_));
    const ImageSpec spec{RandomInt(random_, 1, 40), RandomInt(random_, 1, 40), 3, SampleType::kU8};
    const Image source = RandomImage(spec, random_);
    const Image floats = WholeResult(*backend_, *executable, source.view());
    const Image levels = WholeResult(*backend_, *executable, source.view(), SampleType::kU8);
    for (int y = 0; y < levels.spec().height_px; ++y) {
      for (int x = 0; x < 3 * levels.spec().width_px; ++x) {
        const double exact = std::clamp(255.0 * floats.view().row_as<float>(y)[x], 0.0, 255.0);
        // One float of leeway where the product is a tie.
        const int level = levels.view().row(y)[x];
        ASSERT_LE(level - 0.5, exact + 1e-4) << "level " << level << " of " << exact;
        ASSERT_GT(level + 0.5, exact - 1e-4) << "level " << level << " of " << exact;
      }
    }
  }
}

TEST_P(ConformanceTest, MemoryIsPlannedAsItIsTaken) {
  for (int i = 0; i < 10; ++i) {
    const auto executable = RandomExecutable();
    ASSERT_NE(executable, nullptr);
    SCOPED_TRACE(Describe(network_));
    const auto need = backend_->PlanMemory(network_, Precision::kExact);
    if (absl::IsUnimplemented(need.status())) GTEST_SKIP() << need.status();
    ASSERT_TRUE(need.ok()) << need.status();
    EXPECT_EQ(need->weight_bytes, executable->WeightBytes());
    EXPECT_EQ(need->workspace_bytes, executable->WorkspaceBytes(executable->PreferredTile()));
  }
}

TEST_P(ConformanceTest, AProfiledRunGivesTheSameAndNamesEveryLayer) {
  for (int i = 0; i < 5; ++i) {
    const auto executable = RandomExecutable();
    ASSERT_NE(executable, nullptr);
    if (!ListPoolings(network_).empty()) continue;
    SCOPED_TRACE(Describe(network_));
    const ImageSpec spec{RandomInt(random_, 1, 40), RandomInt(random_, 1, 40), 3, SampleType::kU8};
    const Image source = RandomImage(spec, random_);
    const Image expected = WholeResult(*backend_, *executable, source.view());
    Image result(expected.spec());
    const auto layers = backend_->CreateStream()->Profile(
        *executable, WholeTask(*executable, source.view(), result.mutable_view()));
    ASSERT_TRUE(layers.ok()) << layers.status();
    EXPECT_TRUE(test::SameImages(result.view(), expected.view()));
    // A backend may split layers, and may join them: "conv+sum".
    std::set<std::string> named;
    double seconds = 0;
    for (const LayerProfile& layer : *layers) {
      EXPECT_FALSE(layer.layer.empty());
      for (const absl::string_view name : absl::StrSplit(layer.layer, '+')) named.emplace(name);
      EXPECT_FALSE(layer.kernel.empty()) << layer.layer;
      EXPECT_GE(layer.seconds, 0) << layer.layer;
      seconds += layer.seconds;
    }
    EXPECT_GT(seconds, 0);
    for (const Layer& layer : network_.layers)
      EXPECT_TRUE(named.contains(layer.name)) << layer.name;
    const LayerProfile& last = layers->back();
    EXPECT_GT(last.bytes, 3.0 * static_cast<double>(result.spec().size().Area()));
  }
}

// The image cut into tiles of this size; each may see more of the source than it needs.
std::vector<TileTask> CutIntoTiles(const Executable& executable, ImageView source, Size tile_size,
                                   MutableImageView dst, std::mt19937& random) {
  const Size image = source.spec.size();
  const Rect whole{0, 0, image.width, image.height};
  std::vector<TileTask> tasks;
  for (int y = 0; y < image.height; y += tile_size.height) {
    for (int x = 0; x < image.width; x += tile_size.width) {
      const Rect tile = Intersect({x, y, tile_size.width, tile_size.height}, whole);
      const Rect needed = executable.Plan(tile, image).input;
      const Rect given = Intersect(Expand(needed, RandomInt(random, 0, 3)), whole);
      tasks.push_back(test::MakeTask(executable, source, tile, dst, given));
    }
  }
  std::shuffle(tasks.begin(), tasks.end(), random);
  return tasks;
}

TEST_P(ConformanceTest, EveryTilingGivesTheSameBytes) {
  const int networks = test::DevicesAreEmulated() ? 3 : 15;
  for (int i = 0; i < networks; ++i) {
    const auto executable = RandomExecutable();
    ASSERT_NE(executable, nullptr);
    SCOPED_TRACE(Describe(network_));
    const ImageSpec spec{RandomInt(random_, 1, 110), RandomInt(random_, 1, 110), 3,
                         SampleType::kU8};
    const Image source = RandomImage(spec, random_);
    const ImageSpec result = ResultSpec(network_, spec.size(), 3, kTypes[RandomInt(random_, 0, 2)]);
    GuardedImage whole(result);
    RunWhole(*backend_, *executable, source.view(), whole.view());
    const std::unique_ptr<Stream> stream = backend_->CreateStream();
    for (int tiling = 0; tiling < 3; ++tiling) {
      const Size tile{RandomInt(random_, 32, std::max(32, spec.width_px)),
                      RandomInt(random_, 32, std::max(32, spec.height_px))};
      GuardedImage tiled(result);
      const auto tasks = CutIntoTiles(*executable, source.view(), tile, tiled.view(), random_);
      const absl::Status status = RunImage(*stream, *executable, tasks, RandomInt(random_, 0, 1));
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_TRUE(tiled == whole) << "image " << spec << ", tiles of " << tile.width << "x"
                                  << tile.height;
      if (HasFailure()) return;
    }
  }
}

TEST_P(ConformanceTest, TilesThatMoveBetweenStreamsGiveTheSameBytes) {
  constexpr double kMaxMacsPerPx = 10e3;
  for (int i = 0; i < 3; ++i) {
    network_ = RandomPooledNetwork(random_, kMaxMacsPerPx);
    SCOPED_TRACE(Describe(network_));
    const auto executable = backend_->Compile(network_, Precision::kExact);
    ASSERT_TRUE(executable.ok()) << executable.status();
    const ImageSpec spec{RandomInt(random_, 1, 60), RandomInt(random_, 1, 60), 3, SampleType::kU8};
    const Image source = RandomImage(spec, random_);
    const ImageSpec result = ResultSpec(network_, spec.size(), 3, SampleType::kF32);
    GuardedImage whole(result), tiled(result);
    RunWhole(*backend_, **executable, source.view(), whole.view());

    const Size tile{RandomInt(random_, 8, 40), RandomInt(random_, 8, 40)};
    auto tasks = CutIntoTiles(**executable, source.view(), tile, tiled.view(), random_);
    const std::unique_ptr<Stream> streams[] = {backend_->CreateStream(), backend_->CreateStream()};
    int turn = 0;
    const auto run = [&](std::span<const TileTask> tiles) {
      absl::Status status;
      for (size_t t = 0; t < tiles.size(); ++t) {
        status.Update(streams[(turn + t) % 2]->Run(**executable, tiles.subspan(t, 1)));
      }
      ++turn;
      return status;
    };
    const int64_t cached_tiles = std::ssize(tasks);
    const absl::Status status = ImageRun(**executable, std::move(tasks), cached_tiles).Run(run);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(tiled == whole) << "image " << spec << ", tiles of " << tile.width << "x"
                                << tile.height;
  }
}

TEST_P(ConformanceTest, TinyTilesGiveTheSameBytes) {
  for (int i = 0; i < 5; ++i) {
    const auto executable = RandomExecutable();
    ASSERT_NE(executable, nullptr);
    SCOPED_TRACE(Describe(network_));
    const ImageSpec spec{RandomInt(random_, 1, 13), RandomInt(random_, 1, 13), 3, SampleType::kU8};
    const Image source = RandomImage(spec, random_);
    const ImageSpec result = ResultSpec(network_, spec.size(), 3, SampleType::kF32);
    GuardedImage whole(result), tiled(result);
    RunWhole(*backend_, *executable, source.view(), whole.view());
    const Size tile{RandomInt(random_, 1, 5), RandomInt(random_, 1, 5)};
    const auto tasks = CutIntoTiles(*executable, source.view(), tile, tiled.view(), random_);
    const absl::Status status =
        RunImage(*backend_->CreateStream(), *executable, tasks, RandomInt(random_, 0, 1));
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(tiled == whole) << "image " << spec << ", tiles of " << tile.width << "x"
                                << tile.height;
  }
}

TEST_P(ConformanceTest, StreamsSideBySideGiveTheSameBytes) {
  const auto executable = RandomExecutable();
  ASSERT_NE(executable, nullptr);
  SCOPED_TRACE(Describe(network_));
  const Image source = RandomImage({70, 50, 3, SampleType::kU8}, random_);
  const ImageSpec result = ResultSpec(network_, {70, 50}, 3, SampleType::kF32);
  GuardedImage whole(result);
  RunWhole(*backend_, *executable, source.view(), whole.view());

  constexpr int kThreads = 4;
  std::vector<GuardedImage> results(kThreads, GuardedImage(result));
  std::vector<absl::Status> statuses(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    auto tasks = CutIntoTiles(*executable, source.view(), {32, 32}, results[t].view(), random_);
    threads.emplace_back([&, t, tasks = std::move(tasks)] {
      statuses[t] = RunImage(*backend_->CreateStream(), *executable, tasks);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) {
    EXPECT_TRUE(statuses[t].ok()) << statuses[t];
    EXPECT_TRUE(results[t] == whole) << "thread " << t;
  }
}

TEST_P(ConformanceTest, RefusesContradictoryTasks) {
  std::shared_ptr<const Executable> executable;
  do {  // one run is enough
    executable = RandomExecutable();
    ASSERT_NE(executable, nullptr);
  } while (!ListPoolings(network_).empty());
  const Image source = RandomImage({40, 40, 3, SampleType::kU8}, random_);
  Image dst(ResultSpec(network_, {40, 40}, 3, SampleType::kU8));
  const TileTask good = WholeTask(*executable, source.view(), dst.mutable_view());
  const auto run = [&](const TileTask& task) {
    return backend_->CreateStream()->Run(*executable, {&task, 1});
  };
  ASSERT_TRUE(run(good).ok());

  TileTask outside = good;
  TilePlan outside_plan = *good.plan;
  outside_plan.tile.x = 1;
  outside.plan = std::make_shared<const TilePlan>(outside_plan);
  EXPECT_EQ(run(outside).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(run(outside).message().find("outside its image of 40x40"), std::string::npos);

  TileTask foreign = good;
  TilePlan foreign_plan = *good.plan;
  foreign_plan.maker = &foreign;
  foreign.plan = std::make_shared<const TilePlan>(foreign_plan);
  EXPECT_EQ(run(foreign).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(run(foreign).message(), "tile was not planned by the executable that runs it");
  foreign.plan = nullptr;
  EXPECT_EQ(run(foreign).code(), absl::StatusCode::kInvalidArgument);

  TileTask too_little = good;
  too_little.src_rect = {0, 0, 39, 40};
  too_little.src = source.view().Crop(too_little.src_rect);
  EXPECT_EQ(run(too_little).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(run(too_little).message().find("must cover 40x40 at (0, 0)"), std::string::npos);

  TileTask small_dst = good;
  small_dst.dst = dst.mutable_view().Crop({0, 0, 1, 1});
  EXPECT_EQ(run(small_dst).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(run(small_dst).message().find("destination is 1x1 pixels"), std::string::npos);

  TileTask gray = good;
  gray.src.spec.channels = 1;
  EXPECT_EQ(run(gray).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(run(gray).message().find("1 channels, must have 3 or 4"), std::string::npos);
}

// The image times its means, pooled `poolings` times.
Network TimesMeans(int poolings) {
  Network network;
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3}};
  for (int i = 0; i < poolings; ++i) {
    network.layers.push_back({.op = Op::kGlobalAveragePool,
                              .name = absl::StrCat("pool", i),
                              .inputs = {i},
                              .out_channels = 3,
                              .in_channels = 3});
  }
  network.layers.push_back({.op = Op::kMul,
                            .name = "mul",
                            .inputs = {0, poolings},
                            .out_channels = 3,
                            .in_channels = 3});
  return network;
}

TEST_P(ConformanceTest, TheMeanOfMeansIsTheMean) {
  const Image source = RandomImage({20, 10, 3, SampleType::kU8}, random_);
  const auto once = backend_->Compile(TimesMeans(1), Precision::kExact);
  const auto twice = backend_->Compile(TimesMeans(2), Precision::kExact);
  ASSERT_TRUE(once.ok() && twice.ok()) << once.status() << ", " << twice.status();
  ExpectNear(WholeResult(*backend_, **twice, source.view()).view(),
             WholeResult(*backend_, **once, source.view()).view());
}

TEST_P(ConformanceTest, EveryLayerCanBePooled) {
  for (Network& network : test::PooledLayerNetworks(random_)) {
    network_ = std::move(network);
    SCOPED_TRACE(Describe(network_));
    const auto executable = backend_->Compile(network_, Precision::kExact);
    ASSERT_TRUE(executable.ok()) << executable.status();
    const ImageSpec spec{RandomInt(random_, 1, 40), RandomInt(random_, 1, 40), 3, SampleType::kU8};
    const Image source = RandomImage(spec, random_);
    const Image whole = WholeResult(*backend_, **executable, source.view());
    ExpectNear(whole.view(), ReferenceResult(source.view()).view());
    for (const bool keep : {false, true}) {
      Image tiled(whole.spec());
      const auto tasks =
          CutIntoTiles(**executable, source.view(), {16, 16}, tiled.mutable_view(), random_);
      const absl::Status status = RunImage(*backend_->CreateStream(), **executable, tasks, keep);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_TRUE(test::SameImages(tiled.view(), whole.view())) << (keep ? "cached" : "");
    }
  }
}

TEST_P(ConformanceTest, RefusesMeansThatDoNotFitTheRun) {
  const auto executable = backend_->Compile(TimesMeans(1), Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Image source = RandomImage({4, 4, 3, SampleType::kU8}, random_);
  Image dst({4, 4, 3, SampleType::kU8});
  const auto error = [&](std::span<const ChannelMeans> means, ChannelSums* sums) {
    const PoolingPass pass{.means = means, .partial_sums = sums};
    TileTask task = WholeTask(**executable, source.view(), dst.mutable_view());
    task.pooling = &pass;
    const absl::Status status = backend_->CreateStream()->Run(**executable, {&task, 1});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  ChannelSums sums;
  const ChannelMeans good(3), bad(2);
  EXPECT_EQ(error({}, nullptr),
            "tile has the means of 0 global poolings, must have 1 to compute the result");
  EXPECT_EQ(error({&good, 1}, &sums),
            "tile has the means of 1 global poolings, must have less than 1 to gather those of "
            "another");
  EXPECT_EQ(error({&bad, 1}, nullptr), "tile has 2 means of global pooling 0, must have 3");
}

TEST_P(ConformanceTest, ReportsItsNeeds) {
  const auto executable = RandomExecutable();
  ASSERT_NE(executable, nullptr);
  EXPECT_EQ(executable->precision(), Precision::kExact);
  EXPECT_EQ(executable->network().scale, network_.scale);
  EXPECT_GE(executable->WeightBytes(), network_.WeightCount() * sizeof(float) / 2);
  EXPECT_GT(executable->PreferredTile().Area(), 0);
  EXPECT_GT(executable->HostWorkspaceBytes({32, 32}), 0u);
  const Size preferred = executable->PreferredTile();
  EXPECT_GE(executable->WorkspaceBytes(preferred), executable->HostWorkspaceBytes(preferred));
  EXPECT_GE(executable->WorkspaceBytes({256, 256}), executable->WorkspaceBytes({32, 32}));
  EXPECT_GE(backend_->StreamCount(), 1);
  EXPECT_FALSE(backend_->description().empty());
}

TEST_P(ConformanceTest, RefusesNetworksThatDoNotValidate) {
  Network broken = RandomNetwork(random_);
  broken.scale += 1;
  EXPECT_EQ(backend_->Compile(broken, Precision::kExact).status().code(),
            absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Devices, ConformanceTest, ::testing::ValuesIn(test::TestedDevices()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace upscaled
