// ncnn's .param + .bin: https://github.com/Tencent/ncnn/wiki/operators
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/network.h"

namespace upscaled {

// A network of the two files' contents, its scale and border inferred from the layers; validated.
// INVALID_ARGUMENT for a broken file, UNIMPLEMENTED for a layer or parameter outside our
// operations; both name the layer.
absl::StatusOr<Network> ParseNcnn(std::string_view param, std::string_view bin);

}  // namespace upscaled
