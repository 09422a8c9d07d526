// Promise 2: a request's allocations are known before and do not grow with the image's height.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/upscaler.h"
#include "tests/engine/pipeline/fakes.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using Passes = std::vector<std::shared_ptr<const Executable>>;

size_t BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Remembers the most that was in use; thread safe.
class Peak {
 public:
  void Sample() {
    const size_t now = BytesInUse();
    absl::MutexLock lock(&mutex_);
    most_ = std::max(most_, now);
  }
  size_t most() const {
    absl::MutexLock lock(&mutex_);
    return most_;
  }

 private:
  mutable absl::Mutex mutex_;
  size_t most_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Rows of zeros.
class BlackSource final : public RowSource {
 public:
  explicit BlackSource(const ImageSpec& spec) : spec_(spec) {}
  const ImageSpec& spec() const override { return spec_; }
  absl::Status ReadRows(MutableImageView rows) override {
    for (int y = 0; y < rows.height_px(); ++y) {
      std::fill_n(rows.row(y), rows.spec.row_bytes(), uint8_t{0});
    }
    return absl::OkStatus();
  }

 private:
  ImageSpec spec_;
};

struct Case {
  const char* name;
  int channels;
  SampleType type;
  int passes;
  double scale;
  bool tta;
  std::optional<BilateralOptions> prefilter = {};
};

UpscalePlan PlanFor(const Case& c, Size size, size_t budget) {
  Passes passes(c.passes, std::make_shared<test::FakeExecutable>(2, Size{200, 200}));
  UpscaleOptions options;
  options.tta = c.tta;
  options.prefilter = c.prefilter;
  options.concurrency = 2;
  options.result_type = c.type;
  const Size result{static_cast<int>(size.width * c.scale),
                    static_cast<int>(size.height * c.scale)};
  return *PlanUpscale({size.width, size.height, c.channels, c.type}, result, passes, options,
                      budget);
}

const Case kCases[] = {
    {"rgb", 3, SampleType::kU8, 1, 2, false},
    {"gray16", 1, SampleType::kU16, 1, 2, false},
    {"alpha", 4, SampleType::kU8, 1, 2, false},
    {"gray and alpha, resized", 2, SampleType::kU8, 1, 1.5, false},
    {"x4", 3, SampleType::kU8, 2, 4, false},
    {"tta", 3, SampleType::kU8, 1, 2, true},
    {"prefilter", 3, SampleType::kU8, 1, 2, false, BilateralOptions{8, 20}},
    {"prefilter alone", 4, SampleType::kU16, 0, 1, false, BilateralOptions{8, 20}},
    {"resize alone", 3, SampleType::kU8, 0, 0.4, false},
};

TEST(UpscalerMemory, StaysWithinThePlan) {
  if (BytesInUse() == 0) GTEST_SKIP() << "the allocator keeps no account (sanitizers)";
  for (const Case& c : kCases) {
    const UpscalePlan plan = PlanFor(c, {300, 500}, size_t{1} << 20);
    Peak peak;
    test::FakeBackend backend(2, [&peak](const TileTask&) {
      peak.Sample();
      return absl::OkStatus();
    });
    const auto executor = MakeLocalExecutor(backend);
    BlackSource source(plan.source);
    ImageSpec portion = plan.result;
    portion.height_px = 10;
    Image rows(portion);
    const size_t before = BytesInUse();
    const auto upscaler = MakeUpscaler(plan, source, *executor, nullptr);
    for (int y = 0; y < plan.result.height_px; y += portion.height_px) {
      ASSERT_TRUE(upscaler->ReadRows(rows.mutable_view()).ok());
      peak.Sample();
    }
    const size_t used = peak.most() - before;
    // The two streams' workspaces are not the plan's; the passes share them, as streams do.
    size_t workspace = 0;
    for (const PassSpec& pass : plan.passes) {
      workspace = std::max(workspace, pass.executable->WorkspaceBytes(pass.tile));
    }
    EXPECT_LE(used, plan.memory_bytes + 2 * workspace) << c.name;
    EXPECT_GE(used, plan.memory_bytes / 2) << c.name << ": the bound is too loose to be useful";
  }
}

TEST(UpscalerMemory, DoesNotGrowWithTheHeight) {
  for (const Case& c : kCases) {
    const size_t low = PlanFor(c, {1000, 10000}, size_t{64} << 20).memory_bytes;
    const size_t high = PlanFor(c, {1000, 40000}, size_t{64} << 20).memory_bytes;
    // The final resize keeps a few weights for every row.
    const size_t weights = c.scale * 30000 * 200;
    EXPECT_LE(high, low + low / 8 + weights) << c.name;
  }
}

TEST(UpscalerMemory, KeepsAPassWithinTheBudgetWhereTheWidthAllowsIt) {
  for (const int width : {500, 3000, 12000}) {
    for (const bool tta : {false, true}) {
      const Case c{"", 3, SampleType::kU8, 1, 2, tta};
      for (const size_t budget : {size_t{64} << 20, size_t{256} << 20}) {
        const UpscalePlan plan = PlanFor(c, {width, 10000}, budget);
        if (plan.passes[0].tile.height > 32 || plan.passes[0].bands > 2) {
          EXPECT_LE(plan.memory_bytes, budget + budget / 8) << width << ", tta " << tta;
        } else {
          EXPECT_TRUE(tta && width == 12000) << width;
        }
      }
    }
  }
}

}  // namespace
}  // namespace upscaled
