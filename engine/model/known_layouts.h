// Models without a card: folders whose file names say what they hold, as well-known projects
// publish them, and files of weights whose tensors do.
#pragma once

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/bare_files.h"
#include "engine/model/repository.h"

namespace upscaled {

// The cards that the folder's file names amount to; none when no name is known. Known are
//   waifu2x's: scale2.0x_model, noise1_scale2.0x_model, noise1_model (.param with .bin, or .json);
//   realcugan's: up2x-conservative, up3x-denoise2x, up2x-no-denoise (.param with .bin);
//   realesrgan's: realesr-animevideov3-x2 and -x3, -x4, realesrgan-x4plus, realesrgan-x4plus-anime
//   and others of that pattern (.param with .bin).
// The files of the first two are variants of one model, named as the folder; realesrgan keeps all
// its models in one folder, each named as its files.
absl::StatusOr<std::vector<ModelCard>> RecogniseFolder(const std::filesystem::path& folder);

// Whether files with such a name are whole models.
bool IsBareModel(const std::filesystem::path& file);

// The card of a file that is a whole model (.onnx) or weights alone (.pth, .pt, .ckpt,
// .safetensors), named as the file without that, with what a card beside it says (ReadCardBeside);
// none for other files. What was read of it is kept in the card (ModelVariant::read_ahead); `known`
// spares reading it where it was, and is told. Errors of that card and of LoadNetworkFile.
absl::StatusOr<std::vector<ModelCard>> RecogniseFile(const std::filesystem::path& file,
                                                     BareFiles& known);

}  // namespace upscaled
