// Attention in windows, which exporters spell with some hundred nodes, as one node each.
#pragma once

#include "engine/model/onnx/schema.pb.h"

namespace upscaled::onnx {

// An operator of our own, which gives attention in windows of planes whose channels are last:
// queries, keys and values, a third each. Input 1 is the bias [heads][pixel][pixel], with any axes
// of one position before. Attributes: heads; `window` and `roll`, both of rows and then of columns,
// the latter how far the planes are rolled up and left before they are cut into windows; `scale`,
// of the queries; `rolls_alone`, whether an axis of one window is rolled, too.
inline constexpr char kWindowAttention[] = "upscaled.WindowAttention";

// Replaces attention as torchvision's Swin Transformer and as SwinIR compute it: planes are padded
// with zeros to whole windows, or laid out of pixels in a row, then rolled, cut into windows,
// projected to queries, keys and values, attended, masked where the roll joins what does not belong
// together, projected, and put back. The projections become such of planes. Shapes, cuts, pads and
// the mask must be the published ones, and no other node may read a value in between. Nodes that
// only these read are taken out. The graph gives the same as before where planes have two windows
// at least and need no padding.
void RecogniseAttention(GraphProto& graph);

}  // namespace upscaled::onnx
