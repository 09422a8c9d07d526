// The table of operations: all facts about one except its computation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "engine/model/network.h"

namespace upscaled {

// Positions along one axis, both ends included.
struct PixelRange {
  int first = 0;
  int last = 0;
};

// An operation's row. The functions take a layer of the operation; functions of sizes and ranges
// take one with checked parameters. Defaults are for operations of each pixel from one pixel of one
// input.
struct Operation {
  std::string_view name;  // human-readable
  size_t min_inputs = 1, max_inputs = 1;
  bool equal_channels = false;    // of all inputs
  bool only_per_image = false;    // takes values that hold for the whole image (see IsPerImage)
  bool scales_per_image = false;  // its second input may be such values, one for each channel
  bool takes_moments = false;     // its second input is such values: see `moments`
  bool exact_only = false;        // see IsExactOnly
  bool second_as_first =
      false;                    // the second input's pixels lie as the first's, not as the result's
  bool resizes_second = false;  // the second input may have any size, and all of it is read
  bool pointwise = false;       // each pixel follows from the one at its place in the first input

  // INVALID_ARGUMENT: a parameter is out of range.
  absl::Status (*check)(const Layer&) = [](const Layer&) { return absl::OkStatus(); };
  // INVALID_ARGUMENT: the input has too many channels or too few for the operation.
  absl::Status (*check_channels)(const Layer&) = [](const Layer&) { return absl::OkStatus(); };
  // The channels made of the parameters and the inputs, with this many channels in all; 0 when they
  // are the layer's choice.
  int (*channels)(const Layer&, int given) = [](const Layer& layer, int) {
    return layer.in_channels;
  };
  // The second input's required channels; 0: any.
  int64_t (*second_channels)(const Layer&) = [](const Layer&) { return int64_t{0}; };
  // The second input's required values for the whole image.
  int64_t (*moments)(const Layer&) = [](const Layer&) { return int64_t{0}; };
  int64_t (*weights)(const Layer&) = [](const Layer&) { return int64_t{0}; };
  int64_t (*biases)(const Layer&) = [](const Layer&) { return int64_t{0}; };

  // One side of the output for the same side of the first input, both in pixels.
  int64_t (*output_side)(const Layer&, int side) = [](const Layer&, int side) -> int64_t {
    return side;
  };
  // Output pixels for each pixel of the first input, in the limit of a large one; 0: one value per
  // channel for the whole image.
  double (*density)(const Layer&) = [](const Layer&) { return 1.0; };
  // See InputRange of engine/graph/tile_geometry.h; of the first input.
  PixelRange (*input_range)(const Layer&, Axis, PixelRange out, int in_side) =
      [](const Layer&, Axis, PixelRange out, int) { return out; };
  // Whether any pixel of the first input may be read, so tiles need all of it.
  bool (*reads_anywhere)(const Layer&) = [](const Layer&) { return false; };
  // Multiply-adds of the direct algorithm for this many output pixels.
  double (*multiply_adds)(const Layer&, double pixels) = [](const Layer&, double) { return 0.0; };
};

const Operation& OperationOf(Op op);

// Whether the layer is neither exported, nor computed by GPUs or in halves.
bool IsExactOnly(const Layer& layer);

// Whether a layer may read any pixel of its input: then tiles of an image would each need all of
// it.
bool ReadsAnywhere(const Network& network);

}  // namespace upscaled
