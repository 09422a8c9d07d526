// Images through random networks under random settings: the bytes follow from image, network and
// precision only, for any way to cut, hold, batch and share the image among threads. A few rounds;
// UPSCALED_TEST_FULL=1 asks for hundreds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/pipeline/stages.h"
#include "engine/pipeline/upscaler.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/tested_devices.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::RandomInt;

// Runs tiles in random order, several of them at once, on a thread for each stream.
class BatchingExecutor final : public TileExecutor {
 public:
  BatchingExecutor(Backend& backend, size_t most_at_once, uint32_t seed)
      : most_at_once_(most_at_once), random_(seed) {
    for (int i = 0; i < backend.StreamCount(); ++i) {
      threads_.emplace_back([this, stream = std::shared_ptr(backend.CreateStream())] {
        while (RunBatch(*stream)) {
        }
      });
    }
  }
  ~BatchingExecutor() override {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
  }

  void Submit(std::shared_ptr<const Executable> executable, std::vector<TileTask> tiles,
              Cancellation* /*cancellation*/, TileDone done) override {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < tiles.size(); ++i) {
      queue_.push_back({executable, std::move(tiles[i]),
                        [done, i](const absl::Status& status) { done(i, status); }});
    }
  }
  int concurrency() const override { return static_cast<int>(threads_.size()); }

 private:
  struct Tile {
    std::shared_ptr<const Executable> executable;
    TileTask task;
    std::function<void(const absl::Status&)> done;
  };

  // Whether there may be more.
  bool RunBatch(Stream& stream) {
    std::vector<Tile> batch;
    {
      absl::MutexLock lock(&mutex_);
      const auto wake = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !queue_.empty();
      };
      mutex_.Await(absl::Condition(&wake));
      if (queue_.empty()) return false;
      const size_t wanted = 1 + random_() % most_at_once_;
      std::shuffle(queue_.begin(), queue_.end(), random_);
      while (batch.size() < wanted && !queue_.empty()) {
        if (!batch.empty() && queue_.back().executable != batch.front().executable) break;
        batch.push_back(std::move(queue_.back()));
        queue_.pop_back();
      }
    }
    std::vector<TileTask> tasks;
    for (const Tile& tile : batch) tasks.push_back(tile.task);
    const absl::Status status = stream.Run(*batch.front().executable, tasks);
    for (const Tile& tile : batch) tile.done(status);
    return true;
  }

  const size_t most_at_once_;
  absl::Mutex mutex_;
  std::mt19937 random_ ABSL_GUARDED_BY(mutex_);
  std::vector<Tile> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// The settings that must not change a byte.
struct Settings {
  int threads = 1;
  size_t most_at_once = 1;
  size_t band_bytes = size_t{64} << 20;
  UpscaleOptions options;

  std::string Text() const {
    return absl::StrCat(threads, " threads, up to ", most_at_once, " tiles at once, tile_px ",
                        options.tile_px, ", bands of ", band_bytes, " bytes, caches of ",
                        options.activation_cache_bytes, ", concurrency ", options.concurrency,
                        ", spares flat areas: ", options.spare_flat_areas);
  }
};

Settings RandomSettings(std::mt19937& random) {
  Settings settings{.threads = RandomInt(random, 1, 3),
                    .most_at_once = static_cast<size_t>(RandomInt(random, 1, 5)),
                    .band_bytes = size_t{1} << RandomInt(random, 10, 26)};
  settings.options.tile_px = RandomInt(random, 0, 1) * RandomInt(random, 5, 120);
  settings.options.activation_cache_bytes = RandomInt(random, 0, 1) * (size_t{1} << 20);
  settings.options.concurrency = RandomInt(random, 1, 4);
  settings.options.spare_flat_areas = RandomInt(random, 0, 1) == 1;
  return settings;
}

Image AnyImage(const ImageSpec& spec, std::mt19937& random) {
  switch (RandomInt(random, 0, 3)) {
    case 0:
      return test::PhotoImage(spec, random);
    case 1:
      return test::ArtImage(spec, random);
    case 2:
      return test::PlainGroundImage(spec, random);
    default:
      return test::RandomImage(spec, random);
  }
}

class SettingsTest : public ::testing::TestWithParam<std::string> {
 protected:
  // UNIMPLEMENTED: the device has no such network.
  absl::StatusOr<Image> Upscale(const Network& network, Precision precision, const Image& image,
                                const Settings& settings) {
    const auto backend = test::CreateTestedBackend(GetParam(), {.threads = settings.threads});
    if (!backend.ok()) return backend.status();
    const auto executable = (*backend)->Compile(network, precision);
    if (!executable.ok()) return executable.status();
    const ImageSpec& spec = image.spec();
    const auto plan =
        PlanUpscale(spec, {network.scale * spec.width_px, network.scale * spec.height_px},
                    {*executable}, settings.options, settings.band_bytes);
    if (!plan.ok()) return plan.status();
    if (plan->cost > kMaxCost) return absl::OutOfRangeError("takes too long");
    BatchingExecutor executor(**backend, settings.most_at_once, random_());
    test::ViewRows source(image.view());
    const auto upscaler = MakeUpscaler(*plan, source, executor, nullptr);
    return test::ReadAllInPortions(*upscaler, random_);
  }

  static constexpr int64_t kMaxCost = 4'000'000'000;
  std::mt19937 random_ = test::FreshRandom();
};

TEST_P(SettingsTest, ChangeNoByte) {
  const bool full = std::getenv("UPSCALED_TEST_FULL") != nullptr;
  const int images = full ? 700 : 12;
  for (int round = 0; round < images;) {
    Network network = round % 3 == 0   ? test::RandomPooledNetwork(random_, 10'000)
                      : round % 4 == 2 ? test::RandomAttentionNetwork(random_)
                                       : test::RandomFastNetwork(random_);
    const Precision precision = round % 2 == 0 ? Precision::kExact : Precision::kFast;
    SCOPED_TRACE(test::Describe(network));
    const ImageSpec spec{RandomInt(random_, 1, 150), RandomInt(random_, 1, 150),
                         RandomInt(random_, 3, 4),
                         RandomInt(random_, 0, 1) == 0 ? SampleType::kU8 : SampleType::kU16};
    const Image image = AnyImage(spec, random_);
    Settings plain;
    plain.options.result_type = spec.type;
    plain.options.tta = round % 11 == 10;
    plain.options.spare_flat_areas = false;
    // Some of them in cells.
    network.cell_px = 64;
    plain.options.max_whole_bytes = round % 2 == 0 ? kMaxWholeBytes : 0;
    const auto expected = Upscale(network, precision, image, plain);
    if (absl::IsUnavailable(expected.status())) GTEST_SKIP() << expected.status();
    if (absl::IsOutOfRange(expected.status())) continue;
    ++round;
    if (absl::IsUnimplemented(expected.status())) continue;
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (int i = full ? RandomInt(random_, 4, 9) : 3; i > 0; --i) {
      Settings settings = RandomSettings(random_);
      settings.options.result_type = plain.options.result_type;
      settings.options.tta = plain.options.tta;
      settings.options.max_whole_bytes = plain.options.max_whole_bytes;
      SCOPED_TRACE(::testing::Message() << spec << ", " << settings.Text());
      const auto result = Upscale(network, precision, image, settings);
      if (absl::IsOutOfRange(result.status())) continue;
      ASSERT_TRUE(result.ok()) << result.status();
      ASSERT_TRUE(test::SameImages(result->view(), expected->view()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SettingsTest, ::testing::ValuesIn(test::TestedDevices()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace upscaled
