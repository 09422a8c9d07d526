// Networks, images and executors for the tests of the pipeline.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/backend.h"
#include "engine/image/image.h"
#include "engine/pipeline/tile_executor.h"
#include "engine/pipeline/upscaler.h"

namespace upscaled::test {

// A network that catches every mistake in rectangles: a lopsided 3x3 kernel over the source with a
// replicated border, plus a term of the pixel's place in the image and the image's size.
// Halo 1. The place counts modulo 31, which its plans' regions show as blocks of that size.
class FakeExecutable final : public Executable {
 public:
  explicit FakeExecutable(int scale, Size preferred_tile = {64, 64});
  // One with a layer that reads any pixel, although its tiles ask for no more than others.
  static std::shared_ptr<const FakeExecutable> ThatReadsAnywhere(int scale);

  const Network& network() const override { return network_; }
  Precision precision() const override { return Precision::kExact; }
  size_t WorkspaceBytes(Size tile) const override;
  size_t WeightBytes() const override { return 0; }
  Size PreferredTile() const override { return preferred_tile_; }

  int64_t plan_calls() const { return plan_calls_; }

  // Checks the task and computes it.
  absl::Status Run(const TileTask& task) const;

 private:
  TilePlan MakePlan(const Rect& tile, Size image) const override;

  Network network_;
  Size preferred_tile_;
  mutable std::atomic<int64_t> plan_calls_ = 0;
};

// Runs FakeExecutables; `before` (may be null) is called first for every tile and may block or
// fail.
class FakeBackend final : public Backend {
 public:
  using Hook = std::function<absl::Status(const TileTask&)>;
  explicit FakeBackend(int streams, Hook before = nullptr)
      : streams_(streams), before_(std::move(before)) {}

  std::string_view name() const override { return "fake"; }
  std::string description() const override { return "fake"; }
  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network&, Precision) override {
    return absl::UnimplementedError("fake");
  }
  std::unique_ptr<Stream> CreateStream() override;
  int StreamCount() const override { return streams_; }

 private:
  const int streams_;
  const Hook before_;
};

// Runs the tiles that are queued in random order on several threads.
class ShufflingExecutor final : public TileExecutor {
 public:
  ShufflingExecutor(int threads, uint32_t seed);
  ~ShufflingExecutor() override;
  void Submit(std::shared_ptr<const Executable> executable, std::vector<TileTask> tiles,
              Cancellation* cancellation, TileDone done) override;
  int concurrency() const override { return static_cast<int>(threads_.size()); }

 private:
  void Run();

  absl::Mutex mutex_;
  std::mt19937 random_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// The network's result for the whole image's colour at once, with and without TTA. The fourth
// channel of the result, if any, is 0.
Image ComputeWhole(const FakeExecutable& executable, const Image& image, SampleType type);
Image ComputeWholeTta(const FakeExecutable& executable, const Image& image, SampleType type);

// The same as a pass of the pipeline gives it: alpha enlarged, and set right by its source
// (KeptColours, GrayAreas, FlatAlpha), all over the whole image at once.
Image ComputePass(const FakeExecutable& executable, const Image& image,
                  const UpscaleOptions& options, SampleType type);

// Sample as a number.
double SampleAt(const ImageView& image, int x, int y, int channel);

}  // namespace upscaled::test
