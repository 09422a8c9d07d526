#include "engine/pipeline/stages.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/image/alpha.h"
#include "engine/image/bilateral.h"
#include "engine/image/convert.h"
#include "engine/image/crop.h"
#include "engine/image/resample.h"
#include "engine/image/wrap.h"
#include "engine/pipeline/alpha_pass.h"
#include "engine/pipeline/corrected_pass.h"
#include "engine/pipeline/network_pass.h"

namespace upscaled {
namespace {

class StageList {
 public:
  explicit StageList(const ImageSpec& source) : spec_(source) {}

  // The rows of the stages so far.
  const ImageSpec& spec() const { return spec_; }

  void Add(Stage stage) {
    spec_ = stage.result;
    stages_.push_back(std::move(stage));
  }
  void Add(RowStage stage) {
    Add(Stage{stage,
              [make = std::move(stage.make)](RowSource& rows, TileRun&) { return make(rows); }});
  }

  std::vector<Stage> Take() { return std::move(stages_); }

 private:
  ImageSpec spec_;
  std::vector<Stage> stages_;
};

// Cuts off the margins of a seamless image after the resize has seen them.
void AddUnwrapping(const UpscalePlan& plan, StageList& stages) {
  const Size wrapped = stages.spec().size();
  const int scale = wrapped.width / (plan.source.width_px + 2 * plan.wrap_px);
  const int margin = plan.wrap_px * scale;
  const Rect inner = {margin, margin, wrapped.width - 2 * margin, wrapped.height - 2 * margin};
  if (inner.size() == plan.result.size()) {
    stages.Add(PlanCrop(stages.spec(), inner));
  } else {
    stages.Add(PlanResizeOfPart(stages.spec(), inner, plan.result.size(), Filter::kLanczos3,
                                plan.options.alpha_colour));
  }
}

}  // namespace

std::vector<Stage> PlanStages(const UpscalePlan& plan) {
  StageList stages(plan.source);
  if (plan.wrap_px > 0) stages.Add(PlanWrap(stages.spec(), plan.wrap_px));
  if (plan.options.prefilter) stages.Add(PlanBilateral(stages.spec(), *plan.options.prefilter));
  if (!plan.passes.empty()) {
    const PassSpec& first = plan.passes.front();
    if (stages.spec() != first.source) stages.Add(PlanConversion(stages.spec(), first.source));
    // The resize weighs colours by their alpha; networks do not.
    if (first.source.has_alpha() && plan.options.alpha_colour == AlphaColour::kBleed) {
      const int bleed_px = std::min(ColourBorderPx(first), kMaxBleedPx);
      stages.Add(PlanAlphaBleed(stages.spec(), bleed_px));
    }
  }
  for (const PassSpec& pass : plan.passes) {
    stages.Add(!pass.corrects        ? PlanPass(pass)
               : pass.computes_alpha ? PlanAlphaPass(pass)
                                     : PlanCorrectedPass(pass));
  }
  if (plan.wrap_px > 0) {
    AddUnwrapping(plan, stages);
  } else if (stages.spec().size() != plan.result.size()) {
    stages.Add(PlanResize(stages.spec(), plan.result.size(), Filter::kLanczos3,
                          plan.options.alpha_colour));
  }
  if (stages.spec() != plan.result) stages.Add(PlanConversion(stages.spec(), plan.result));
  return stages.Take();
}

}  // namespace upscaled
