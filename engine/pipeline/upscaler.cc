#include "engine/pipeline/upscaler.h"

#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/tile_run.h"

namespace upscaled {
namespace {

class Upscaler final : public RowSource {
 public:
  Upscaler(const UpscalePlan& plan, RowSource& source, TileExecutor& executor,
           Cancellation* cancellation, UpscaleProgress progress)
      : spec_(plan.result), run_(executor, cancellation, std::move(progress), plan.tile_count) {
    UPSCALED_CHECK(source.spec() == plan.source);
    rows_ = &source;
    for (const Stage& stage : plan.stages) {
      stages_.push_back(stage.make(*rows_, run_));
      rows_ = stages_.back().get();
      UPSCALED_CHECK(rows_->spec() == stage.result);
    }
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
  const ImageSpec spec_;
  TileRun run_;
  std::vector<std::unique_ptr<RowSource>> stages_;
  RowSource* rows_ = nullptr;  // the last stage
};

}  // namespace

std::unique_ptr<RowSource> MakeUpscaler(const UpscalePlan& plan, RowSource& source,
                                        TileExecutor& executor, Cancellation* cancellation,
                                        UpscaleProgress progress) {
  return std::make_unique<Upscaler>(plan, source, executor, cancellation, std::move(progress));
}

}  // namespace upscaled
