// Single files with a whole model, or with the look of one.
#pragma once

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/bare_files.h"
#include "engine/model/repository.h"

namespace upscaled {

// Returns whether files with such a name are whole models: .pth, .pt, .ckpt, .safetensors, .onnx,
// and .param with its .bin, in either case.
bool IsBareModel(const std::filesystem::path& file);

// Returns the card of a file that is a whole model (.onnx, an ncnn .param with its .bin, a waifu2x
// .json) or only weights (.pth, .pt, .ckpt, .safetensors, a .bin without a .param), named as the
// file without its ending, with the fields of a card next to it (ReadCardBeside); no card for other
// files. The card keeps the network (ModelVariant::read_ahead); `known` spares reading a file that
// has not changed, and is told.
//
// UNIMPLEMENTED for models in the formats of other programs. Errors of the card next to it and of
// LoadNetworkFile.
absl::StatusOr<std::vector<ModelCard>> RecogniseFile(const std::filesystem::path& file,
                                                     BareFiles& known);

}  // namespace upscaled
