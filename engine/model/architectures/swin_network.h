// The common frame of SwinIR and its relatives: a convolution, groups of blocks of attention, a
// convolution, and a way to enlarge.
#pragma once

#include <functional>
#include <string>

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

// Whether the file has the tensors of the frame.
bool HasSwinFrame(const TensorFile& file);

// Result pixels per source pixel along an axis, by the ending. INVALID_ARGUMENT: no such ending.
absl::StatusOr<int> SwinFrameScale(const TensorFile& file);

struct SwinFrame {
  std::string first_projection;                 // a convolution of the first features; empty: none
  std::string first_norm = "patch_embed.norm";  // of the first features, if the file has it
  int align_px = 1;  // the image's sides are mirrored up to multiples of it
  float range = 1;   // of the values that the network sees
  // Appends group number `group`; the file has `group_mark` of each group.
  std::function<int(NetworkBuilder& builder, int input, int group)> add_group;
  // The name of a tensor of each group.
  std::function<std::string(int group)> group_mark;
};

// Appends all layers.
void BuildSwinFrame(NetworkBuilder& builder, const SwinFrame& frame);

// Appends NAME, one convolution or three with LeakyReLU in between.
int AddConvOrThree(NetworkBuilder& builder, int input, const std::string& name);

// "layers.GROUP."
std::string SwinGroup(int group);

}  // namespace upscaled
