// A network as an ONNX file, for other engines.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/model/network.h"

namespace upscaled {

// From "image", float in 0..1 of [1, 3, height, width], to "result" of [1, 3, scale * height, scale
// * width], not clipped: the border for the layers (Network::pad_px) is a part of the graph.
// Weights are written in fp32, operators as in set 13 (every engine of today reads it), or as in
// the first set with all of them. UNIMPLEMENTED names a layer not yet written to a file of ours.
absl::StatusOr<std::string> ExportOnnx(const Network& network);

}  // namespace upscaled
