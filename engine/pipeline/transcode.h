// An encoded image in, the upscaled and encoded image out: decoder, upscaler and encoder as one
// call on the calling thread, with tiles running on the executor meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/cancellation.h"
#include "engine/base/clock.h"
#include "engine/base/geometry.h"
#include "engine/base/interval.h"
#include "engine/image/byte_stream.h"
#include "engine/image/codec.h"
#include "engine/image/row_stage.h"
#include "engine/pipeline/tile_executor.h"
#include "engine/pipeline/upscaler.h"

namespace upscaled {

struct TranscodePlan {
  RowStage crop;  // from the decoder's rows to those that are enlarged
  UpscalePlan upscale;
  EncodeOptions encode;
  RowStage convert;         // from the result's rows to those that the format holds
  size_t memory_bytes = 0;  // bound on what TranscodeImage allocates for the pixels of the image:
                            // stages, the rows before the encoder, decoder, encoder and metadata;
                            // executors' workspaces are not in it
  // Sentences about all dropped or changed parts, as far as the header tells.
  std::vector<std::string> warnings;

  // Frames for `upscale`, one after the other.
  int frames() const { return encode.animation.value_or(Animation()).frames; }
};

// Plans to enlarge `part` of the image. upscale.source has the part's size. INVALID_ARGUMENT if the
// result does not fit the format as CheckEncodable says. A result with alpha or 16 bits becomes the
// nearest of the format (OutputSpecFor), without alpha if need be. UNIMPLEMENTED for samples of
// high dynamic range in a format without a field for it.
absl::StatusOr<TranscodePlan> PlanTranscode(const ImageHeader& header, const Rect& part,
                                            UpscalePlan upscale, const EncodeOptions& encode);
// All of the image.
absl::StatusOr<TranscodePlan> PlanTranscode(const ImageHeader& header, UpscalePlan upscale,
                                            const EncodeOptions& encode);

// Called once, when the header of the image is known and before anything is allocated for its
// pixels: the place to plan, to reserve memory and to announce the result. An error ends
// the call with it.
using TranscodePlanFn = std::function<absl::StatusOr<TranscodePlan>(const ImageHeader&)>;

// The borrowed objects of a call; all must outlive it.
struct TranscodeRequest {
  ByteSource& input;
  ByteSink& output;
  TileExecutor& executor;
  Cancellation* cancellation = nullptr;  // may be null; input and output must heed it themselves
  DecodeLimits limits;
  const ImageHeader* header = nullptr;  // of the input; null: read from it
  UpscaleProgress progress;
  std::function<void()> on_rows = nullptr;  // by the calling thread, after some of the result each
  // By the calling thread, before (true) and after (false) it waits for input or output.
  std::function<void(bool waits)> on_wait = nullptr;
  ImageOpener open;  // null: OpenImageDecoder
  const Clock& clock = Clock::Real();
};

// Where the call's time went. The five durations do not overlap. Planning, and the search for the
// header in the read bytes, are in none of them.
struct TranscodeStats {
  absl::Duration read;    // waiting for encoded input
  absl::Duration decode;  // decoding
  absl::Duration infer;   // waiting for tiles, and the stages around them
  absl::Duration encode;  // encoding
  absl::Duration write;   // waiting for the output to take bytes
  int64_t result_bytes = 0;
  // Source pixels of an animation with the result of the frame before, and frames equal to the one
  // before.
  int64_t unchanged_px = 0;
  int unchanged_frames = 0;
  // As TranscodePlan::warnings: those known from the pixels only.
  std::vector<std::string> warnings;
  // From the first decoded row to the last one, and the same for encoding; waits are in them.
  Interval decoding, encoding;
};

// Returns when the whole result has been written. Errors are those of codecs, plan, source, sink,
// tiles and the cancellation's reason; the output is then incomplete.
absl::StatusOr<TranscodeStats> TranscodeImage(const TranscodeRequest& request,
                                              const TranscodePlanFn& plan);

}  // namespace upscaled
