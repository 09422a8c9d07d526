// Curves and normalisations as one node each. Exporters spell them with many operators.
#pragma once

#include "engine/model/onnx/schema.pb.h"

namespace upscaled::onnx {

// An operator of our own: the input to a mean square of 1 along `axes`, around its mean there if
// `centred`; `epsilon` is added to the mean square.
inline constexpr char kNormalize[] = "upscaled.Normalize";

// Replaces the last node of each found one: x * tanh(softplus(x)) by Mish, x * sigmoid(x) by Swish,
// the two forms of GELU by Gelu, and (x - mean) / sqrt(variance + epsilon) by kNormalize. Takes out
// nodes without other readers. The graph gives the same as before.
void RecognisePatterns(GraphProto& graph);

}  // namespace upscaled::onnx
