// A network as an ONNX file, for other engines.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/model/network.h"

namespace upscaled {

// From "image", float in 0..1 of [1, 3, height, width], to "result" of [1, 3, scale * height,
// scale * width], not clipped: the border that the layers need (Network::pad_px) is a part of the
// graph. Weights are written in fp32, operators as set 13 has them, which every engine of today
// reads, or as the first set that has all of them. UNIMPLEMENTED names a layer that no file of ours
// has been written of.
absl::StatusOr<std::string> ExportOnnx(const Network& network);

}  // namespace upscaled
