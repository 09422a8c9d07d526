// The rows of a network's result over an image that flows by in rows.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "engine/image/row_source.h"
#include "engine/pipeline/pass_spec.h"
#include "engine/pipeline/tile_run.h"

namespace upscaled {

class PassRows : public RowSource {
 public:
  // Submits the tiles allowed in flight; ReadRows does so by itself.
  virtual absl::Status SubmitBandsAhead() = 0;
};

// `source` and `run` must outlive it, and the tiles in flight must be over (TileRun::AwaitAll)
// before it is destroyed.
std::unique_ptr<PassRows> MakePass(const PassSpec& pass, RowSource& source, TileRun& run);

}  // namespace upscaled
