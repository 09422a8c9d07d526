// Attention in windows as one node each. Exporters spell one with some hundred nodes.
#pragma once

#include "engine/model/onnx/schema.pb.h"

namespace upscaled::onnx {

// An operator of our own: attention in windows of planes with the channels last: queries, keys and
// values, a third each. Input 1 is the bias [heads][pixel][pixel], with any axes of one position
// before. Attributes: heads; `window` and `roll`, both of rows and then of columns, the latter how
// far the planes are rolled up and left before they are cut into windows; `scale`, of the queries;
// `sharpness`, one for each head if scores are cosines of queries and keys, times this;
// `rolls_alone`, whether an axis of one window is rolled, too.
inline constexpr char kWindowAttention[] = "upscaled.WindowAttention";

// Replaces attention as torchvision's Swin Transformer, SwinIR and Swin2SR compute it: planes are
// padded with zeros to whole windows, or laid out of pixels in a row, then rolled, cut into
// windows, projected to queries, keys and values, attended, masked where the roll joins unrelated
// pixels, projected, and put back. The projections become such of planes. Shapes, cuts, pads and
// the mask must be the published ones, and no other node may read a value in between. Takes out
// nodes without other readers. The graph gives the same as before where planes have two windows at
// least and need no padding.
void RecogniseAttention(GraphProto& graph);

}  // namespace upscaled::onnx
