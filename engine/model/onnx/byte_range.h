// Networks whose pixels are 0..255, outside of their own arithmetic.
#pragma once

#include "engine/model/onnx/schema.pb.h"

namespace upscaled::onnx {

// Removes a division of the input by 255 that stands first, and a multiplication of the result by
// 255 that stands last or before the last clip: pixels are 0..1 here. Exports for web pages have
// them.
void RemoveByteRange(GraphProto& graph);

}  // namespace upscaled::onnx
