// The nodes around a network whose padded image must have sides that are multiples of something:
// they work out, for an image of any size, how much to add to it and to cut off the result.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/model/onnx/schema.pb.h"

namespace upscaled::onnx {

struct Alignment {
  int64_t pad_px = 0;  // as Network has the three
  int64_t align_px = 1;
  int64_t scale = 1;
};

inline constexpr const char* kBeforeAligned[] = {"Shape", "Slice",  "Sub", "Mod",
                                                 "Add",   "Concat", "Pad"};
inline constexpr const char* kBehindAligned[] = {"Mul", "Slice"};

// Takes the nodes that ExportOnnx writes for this out of the graph, which then has no border.
// Nothing, and the graph as it is, where they are not there just as it writes them.
std::optional<Alignment> TakeAlignment(GraphProto& graph);

}  // namespace upscaled::onnx
