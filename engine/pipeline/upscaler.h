// One image from pixels to pixels: network passes over tiles, alpha, TTA and the final resize, as a
// stream of rows. Its memory grows with the image's width and a band's height. Of the image's
// height it holds nothing but the final resize's weights, some 80 bytes a row. Before a network
// with global poolings it holds the whole image, unless the image is computed in cells.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/base/cancellation.h"
#include "engine/base/geometry.h"
#include "engine/image/alpha.h"
#include "engine/image/bilateral.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/pipeline/cells.h"
#include "engine/pipeline/pass_spec.h"
#include "engine/pipeline/stage.h"
#include "engine/pipeline/tile_executor.h"

namespace upscaled {

// How an image fits into a width and a height; `fit=` of CSS's object-fit.
enum class Fit : uint8_t {
  kContain,  // keeps the aspect ratio and all of the image: one side may be shorter
  kCover,    // keeps the aspect ratio, fills both sides, cuts off both ends of the image equally
  kStretch,  // fills both sides, distorts the image
};

// How large the result shall be: by a scale, by a width and a height, by the short or by the long
// side. At most one of the four; none means the model's own scale. 0: not given.
struct TargetSize {
  double scale = 0;  // multiplies both sides, rounded half up
  int width_px = 0;  // alone, or the height alone: the other side keeps the aspect ratio
  int height_px = 0;
  int short_side_px = 0;
  int long_side_px = 0;
  Fit fit = Fit::kContain;  // where both width and height are given
  // Limits on the above: they make the result smaller in proportion.
  int64_t max_pixels = 0;   // of the result; 0: none
  bool no_enlarge = false;  // no side becomes longer than the source's
};

struct ResolvedTarget {
  Rect source;  // the part of the source that the result shows: all of it, but for Fit::kCover
  Size result;
};

// INVALID_ARGUMENT for a contradictory target, one too large, or one below one pixel.
absl::StatusOr<ResolvedTarget> ResolveTarget(const TargetSize& target, Size source,
                                             int model_scale);

struct UpscaleOptions {
  std::optional<BilateralOptions> prefilter;  // smooths the source
  bool tta = false;          // mean of the eight flips and rotations; eight times the work
  bool seamless = false;     // a texture's borders go on at the opposite ones (PlanWrap)
  bool keep_colours = true;  // carries the source's low frequencies over (KeptColours)
  bool corrects = true;  // false: results are the networks' own, for parts of frames (NetworkPart)
  AlphaMethod alpha = AlphaMethod::kNetwork;
  AlphaColour alpha_colour = AlphaColour::kBleed;
  int tile_px = 0;  // largest tile side in source pixels of its pass; 0 = the device's choice
  SampleType result_type = SampleType::kU8;  // kU8 or kU16
  // Limit on all ActivationCaches of networks with global poolings, except for an image computed
  // whole in one tile (Executable::ComputesWhole); never changes the result.
  size_t activation_cache_bytes = size_t{1} << 30;
  // Limit on the memory of a stream of rows (Executable::PlanRowStream). Above it an image is cut
  // into tiles if the executable has any; never changes the result.
  size_t row_stream_bytes = std::numeric_limits<size_t>::max();
  // Limit on the memory of an animation's kept frames. Above it each is computed whole
  // (FrameUpscaler); never changes the result.
  size_t kept_frame_bytes = std::numeric_limits<size_t>::max();
  // Networks with sums over the image compute larger images than this in cells (cells.h). Changes
  // the result: for tests.
  size_t max_whole_bytes = kMaxWholeBytes;
  // Whether flat areas are computed once and copied; never changes the result.
  bool spare_flat_areas = true;
  int concurrency =
      1;  // the executor's: how many tiles to have in flight; never changes the result
};

// All facts from before the first pixel.
struct UpscalePlan {
  ImageSpec source;
  ImageSpec result;  // result.channels == source.channels
  UpscaleOptions options;
  int wrap_px = 0;               // margins of a seamless source, which the result has not
  std::vector<PassSpec> passes;  // the networks and how each is cut
  std::vector<Stage> stages;     // from the source's rows to the result's, the passes among them
  int64_t tile_count = 0;  // runs of tiles, of all passes: with TTA every tile takes eight times
                           // as many, and global poolings one each
  // The work of the networks in multiply-adds, all halos included (TilePlan::Cost).
  int64_t cost = 0;
  size_t memory_bytes = 0;  // bound on what the stages allocate, without codec and workspaces
};

// `band_budget_bytes` bounds the pixels in flight of one pass, if the width allows it.
absl::StatusOr<UpscalePlan> PlanUpscale(const ImageSpec& source, Size result,
                                        std::vector<std::shared_ptr<const Executable>> passes,
                                        const UpscaleOptions& options,
                                        size_t band_budget_bytes = size_t{64} << 20);

// A request's reports to its caller while it runs.
struct UpscaleProgress {
  // Called on any thread, once per finished tile, with tiles done and plan.tile_count.
  std::function<void(int64_t done, int64_t total)> on_tile;
  // Called on the consumer's thread: this many more pixels of a pass's source are in flat areas,
  // with their result copied instead of computed.
  std::function<void(int64_t source_px)> on_spared;
};

// The result's rows. `source` (spec == plan.source), `executor` and `cancellation` (may be null)
// must outlive it. A failed tile fails the request: its other tiles are dropped. Destroying it
// before its end has the same effect, and waits for the running tiles.
std::unique_ptr<RowSource> MakeUpscaler(const UpscalePlan& plan, RowSource& source,
                                        TileExecutor& executor, Cancellation* cancellation,
                                        UpscaleProgress progress = {});

}  // namespace upscaled
