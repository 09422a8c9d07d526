// The common parts of networks of windowed attention: Swin's block and its relatives.
// Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

inline constexpr float kLayerNormEpsilon = 1e-5f;  // of PyTorch's LayerNorm

// Returns a side of the windows of a module with a table of biases
// (NAME.relative_position_bias_table, one row for each distance of two pixels, one column for each
// head); 0 after an error.
int WindowSide(NetworkBuilder& builder, const std::string& name);
// The same, by the name of the table itself.
int SideOfTable(NetworkBuilder& builder, const std::string& table);

// Returns whether `channels` can be shared among the heads of tensor or module NAME, and a network
// may have a bias for each of `pairs` of a query and a key, for each head; fails otherwise.
bool AcceptHeads(NetworkBuilder& builder, const std::string& name, int64_t heads, int channels,
                 int64_t pairs);

// Returns the bias of each query of a window for each key: [head][query][key]. `table`: one row for
// each distance of two pixels, row by row, with a column for each head.
std::vector<float> ExpandBias(const std::vector<float>& table, int heads, int window_width_px,
                              int window_height_px);

// Scales the first third of a convolution's results: the queries, by their length.
void ScaleQueries(Layer& qkv, int heads);

// Appends NAME.qkv, the attention in windows of `window_px`, as WindowSide gives it, and NAME.proj.
// `rolled_px`: how far the published code rolls the image to the left and up before it is cut into
// windows; windows begin as many pixels right of the corner and below it.
int AttendInWindows(NetworkBuilder& builder, int input, const std::string& name, int window_px,
                    int rolled_px);

// Where the windows of an axis begin if the published code rolls the image by `rolled_px`.
inline WindowAxis RolledWindows(int window_px, int rolled_px) {
  return {window_px, rolled_px == 0 ? 0 : window_px - rolled_px};
}

// Appends the two layers of a multilayer perceptron, with GELU in between.
int Mlp(NetworkBuilder& builder, int input, const std::string& first, const std::string& second);

// How the layers of a perceptron are called in SwinIR and its relatives, and in torchvision.
struct MlpNames {
  std::string_view first, second;
};
inline constexpr MlpNames kSwinMlp = {"mlp.fc1", "mlp.fc2"};
inline constexpr MlpNames kTorchvisionMlp = {"mlp.0", "mlp.3"};

// Appends a block of Swin: attention and a perceptron, each behind a LayerNorm if the file has it,
// and added to its input. `block`: the name with a dot behind it.
int AddSwinBlock(NetworkBuilder& builder, int input, const std::string& block, int window_px,
                 int rolled_px, const MlpNames& mlp = kSwinMlp);

// Appends NAME as LayerNorm if the file has it.
int AddNormIfThere(NetworkBuilder& builder, int input, const std::string& name);

}  // namespace upscaled
