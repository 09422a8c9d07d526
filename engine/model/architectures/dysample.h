// DySample, an ending of several networks: it enlarges by samples between pixels, at places
// computed from the image.
// Liu et al., "Learning to Upsample by Learning to Sample", 2023
#pragma once

#include <string>

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

// Returns whether NAME is a DySample.
bool HasDySample(const TensorFile& file, const std::string& name);

// Returns NAME's factor, from the places of its samples before the image moves them.
// INVALID_ARGUMENT: they lie as those of no factor.
absl::StatusOr<int> DySampleScale(const TensorFile& file, const std::string& name);

// Appends NAME, and the convolution behind it if there is one.
int AddDySample(NetworkBuilder& builder, int input, const std::string& name);

}  // namespace upscaled
