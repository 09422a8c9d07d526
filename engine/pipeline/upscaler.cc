#include "engine/pipeline/upscaler.h"

#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/image/alpha.h"
#include "engine/image/bilateral.h"
#include "engine/image/convert.h"
#include "engine/image/resample.h"
#include "engine/pipeline/stages.h"
#include "engine/pipeline/tile_run.h"

namespace upscaled {
namespace {

class Upscaler final : public RowSource {
 public:
  Upscaler(const UpscalePlan& plan, RowSource& source, TileExecutor& executor, uint64_t request,
           Cancellation* cancellation, UpscaleProgress progress)
      : spec_(plan.result),
        run_(executor, request, cancellation, std::move(progress), plan.tile_count) {
    UPSCALED_CHECK(source.spec() == plan.source);
    const Stages stages = DescribeStages(plan);
    rows_ = &source;
    if (stages.prefilter) Add(MakeBilateral(*rows_, *stages.prefilter));
    if (stages.input != stages.filtered) Add(ConvertRows(*rows_, stages.input));
    if (stages.bleed_px > 0) Add(MakeAlphaBleed(*rows_, stages.bleed_px));
    for (const PassSpec& pass : stages.passes) {
      Add(std::make_unique<NetworkPass>(pass, *rows_, run_));
    }
    if (stages.resized != stages.computed) {
      Add(MakeResizer(*rows_, plan.result.size(), Filter::kLanczos3));
    }
    if (stages.result != stages.resized) Add(ConvertRows(*rows_, stages.result));
  }

  ~Upscaler() override {
    run_.Stop(absl::CancelledError("the result was abandoned"));
    run_.AwaitAll();
  }

  const ImageSpec& spec() const override { return spec_; }

  absl::Status ReadRows(MutableImageView rows) override {
    RETURN_IF_ERROR(run_.status());
    return rows_->ReadRows(rows);
  }

 private:
  void Add(std::unique_ptr<RowSource> stage) {
    rows_ = stage.get();
    stages_.push_back(std::move(stage));
  }

  const ImageSpec spec_;
  TileRun run_;
  std::vector<std::unique_ptr<RowSource>> stages_;
  RowSource* rows_ = nullptr;  // the last stage
};

}  // namespace

std::unique_ptr<RowSource> MakeUpscaler(const UpscalePlan& plan, RowSource& source,
                                        TileExecutor& executor, uint64_t request,
                                        Cancellation* cancellation, UpscaleProgress progress) {
  return std::make_unique<Upscaler>(plan, source, executor, request, cancellation,
                                    std::move(progress));
}

}  // namespace upscaled
