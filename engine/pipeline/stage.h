// A stage of the pipeline; the form follows libjxl's RenderPipelineStage.
#pragma once

#include <functional>
#include <memory>

#include "engine/image/row_source.h"
#include "engine/image/row_stage.h"

namespace upscaled {

class TileRun;

struct Stage : StageSpec {
  // The result's rows. `rows` (its spec is `source`) and `run` must outlive them, and the tiles in
  // flight must be over (TileRun::AwaitAll) before they are destroyed.
  std::function<std::unique_ptr<RowSource>(RowSource& rows, TileRun& run)> make;
};

}  // namespace upscaled
