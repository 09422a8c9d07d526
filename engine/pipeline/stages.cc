#include "engine/pipeline/stages.h"

#include <algorithm>
#include <utility>

#include "engine/image/alpha.h"
#include "engine/image/convert.h"
#include "engine/image/resample.h"

namespace upscaled {
namespace {

// Enough for every network that is local; those that see the whole image need no more either.
constexpr int kMaxBleedPx = 32;
constexpr size_t kOverheadBytes = 16384;  // everything small

}  // namespace

Stages DescribeStages(const UpscalePlan& plan) {
  Stages stages;
  stages.source = stages.filtered = plan.source;
  stages.prefilter = plan.options.prefilter;
  if (stages.prefilter) stages.filtered.type = SampleType::kU16;
  stages.input = stages.filtered;
  if (!plan.passes.empty()) stages.input.channels = plan.source.has_alpha() ? 4 : 3;
  stages.result = plan.result;

  stages.computed = stages.input;
  for (size_t i = 0; i < plan.passes.size(); ++i) {
    PassSpec pass;
    pass.executable = plan.passes[i];
    pass.source = stages.computed;
    pass.result_type = SampleType::kU16;
    pass.tta = plan.options.tta;
    pass.halo_px = HaloPx(*pass.executable);
    if (i < plan.pass_tile.size()) pass.tile = plan.pass_tile[i];
    if (i < plan.pass_bands.size()) pass.bands = plan.pass_bands[i];
    if (i < plan.pass_cached_tiles.size()) pass.cached_tiles = plan.pass_cached_tiles[i];
    stages.computed = PassResult(pass);
    stages.passes.push_back(std::move(pass));
  }
  const bool resize = stages.computed.size() != plan.result.size();
  if (!stages.passes.empty() && !resize && stages.computed.channels == plan.result.channels) {
    stages.passes.back().result_type = stages.computed.type = plan.result.type;
  }

  stages.resized = stages.computed;
  stages.resized.width_px = plan.result.width_px;
  stages.resized.height_px = plan.result.height_px;
  // The resize alone weighs colours by their alpha.
  if (plan.source.has_alpha() && !stages.passes.empty()) {
    stages.bleed_px = std::min(stages.passes.front().halo_px, kMaxBleedPx);
  }
  return stages;
}

size_t StagesBytes(const Stages& stages) {
  size_t bytes = 0;
  if (stages.prefilter) bytes += BilateralBytes(stages.source, *stages.prefilter);
  if (stages.input != stages.filtered) bytes += ConverterBytes(stages.filtered);
  if (stages.bleed_px > 0) bytes += AlphaBleedBytes(stages.input, stages.bleed_px);
  for (const PassSpec& pass : stages.passes) bytes += PassBytes(pass);
  if (stages.resized != stages.computed) {
    bytes += ResizerBytes(stages.computed, stages.resized.size(), Filter::kLanczos3);
  }
  if (stages.result != stages.resized) bytes += ConverterBytes(stages.resized);
  return bytes + kOverheadBytes;
}

}  // namespace upscaled
