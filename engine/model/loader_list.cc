#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/limits.h"
#include "engine/model/loader.h"
#include "engine/model/ncnn_loader.h"
#include "engine/model/ncnn_param.h"
#include "engine/model/of_file.h"
#include "engine/model/onnx/loader.h"
#include "engine/model/pytorch/loader.h"
#include "engine/model/tensors/safetensors.h"
#include "engine/model/tensors/tensor_file.h"
#include "engine/model/waifu2x_json_loader.h"

namespace upscaled {
namespace {

using std::filesystem::path;

constexpr size_t kHeadBytes = 16;
constexpr size_t kMaxParamBytes = size_t{4} << 20;
constexpr size_t kMaxBinBytes = size_t{512} << 20;
constexpr size_t kMaxJsonBytes = size_t{64} << 20;

absl::StatusOr<Network> LoadNcnn(const path& param_path) {
  ASSIGN_OR_RETURN(const std::string param, ReadFile(param_path, kMaxParamBytes));
  ASSIGN_OR_RETURN(const std::string bin, ReadFile(BinOf(param_path), kMaxBinBytes));
  return OfFile(param_path, ParseNcnn(param, bin));
}

absl::StatusOr<Network> LoadWaifu2xJson(const path& json_path) {
  ASSIGN_OR_RETURN(const std::string json, ReadFile(json_path, kMaxJsonBytes));
  // vgg_7 is one network for both uses: its training's purpose stands only in the name.
  const bool enlarges = json_path.filename().string().find("scale2.0x") != std::string::npos;
  return OfFile(json_path, ParseWaifu2xJson(json, enlarges));
}

absl::StatusOr<Network> LoadOnnx(const path& onnx_path) {
  ASSIGN_OR_RETURN(const std::string onnx, ReadFile(onnx_path, kMaxOnnxBytes));
  return OfFile(onnx_path, ParseOnnx(onnx));
}

// Files of networks.
struct NetworkFormat {
  const char* name;
  bool (*recognises)(std::string_view head);
  absl::StatusOr<Network> (*load)(const path& file);
};

constexpr NetworkFormat kNetworkFormats[] = {
    {"ncnn .param", [](std::string_view head) { return head.starts_with(kNcnnMagic); }, LoadNcnn},
    {"waifu2x .json", [](std::string_view head) { return head.starts_with("["); }, LoadWaifu2xJson},
    {"ONNX", LooksLikeOnnx, LoadOnnx},
};

// Files of weights only.
struct WeightsFormat {
  const char* name;
  bool (*recognises)(std::string_view head);
  absl::StatusOr<std::unique_ptr<TensorFile>> (*parse)(std::string bytes);
};

constexpr WeightsFormat kWeightsFormats[] = {
    {".safetensors", LooksLikeSafetensors, ParseSafetensors},
    {"PyTorch .pth", LooksLikePytorch, ParsePytorch},
};

absl::StatusOr<std::string> ReadHead(const path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return absl::NotFoundError(absl::StrCat(file.string(), ": cannot be opened"));
  std::string head(kHeadBytes, '\0');
  stream.read(head.data(), kHeadBytes);
  head.resize(stream.gcount());
  return head;
}

template <typename Formats>
auto* FindFormat(const Formats& formats, std::string_view head) {
  const auto found = std::find_if(std::begin(formats), std::end(formats),
                                  [head](const auto& format) { return format.recognises(head); });
  return found == std::end(formats) ? nullptr : &*found;
}

absl::Status UnknownFormat(const path& file) {
  std::vector<std::string> known;
  for (const NetworkFormat& format : kNetworkFormats) known.emplace_back(format.name);
  for (const WeightsFormat& format : kWeightsFormats) known.emplace_back(format.name);
  return absl::UnimplementedError(absl::StrCat(
      file.string(), ": is in no known format, there are: ", absl::StrJoin(known, ", ")));
}

absl::StatusOr<std::unique_ptr<TensorFile>> OpenWeights(const path& file,
                                                        const WeightsFormat& format) {
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(file, kMaxTensorFileBytes));
  return OfFile(file, format.parse(std::move(bytes)));
}

}  // namespace

std::string ExtensionOf(const path& file) {
  return absl::AsciiStrToLower(file.extension().string());
}

path BinOf(const path& param) {
  path upper = path(param).replace_extension(".BIN");
  std::error_code error;
  if (std::filesystem::exists(upper, error)) return upper;
  return path(param).replace_extension(".bin");
}

absl::StatusOr<bool> IsNetworkFile(const path& file) {
  ASSIGN_OR_RETURN(const std::string head, ReadHead(file));
  return FindFormat(kNetworkFormats, head) != nullptr;
}

absl::StatusOr<Network> LoadNetworkFile(const path& file, std::string_view architecture) {
  ASSIGN_OR_RETURN(const std::string head, ReadHead(file));
  Network network;
  if (const WeightsFormat* weights = FindFormat(kWeightsFormats, head)) {
    ASSIGN_OR_RETURN(const std::unique_ptr<TensorFile> tensors, OpenWeights(file, *weights));
    ASSIGN_OR_RETURN(network, OfFile(file, BuildNetwork(*tensors, architecture)));
  } else if (const NetworkFormat* format = FindFormat(kNetworkFormats, head)) {
    ASSIGN_OR_RETURN(network, format->load(file));
  } else {
    return UnknownFormat(file);
  }
  network.name = file.stem().string();
  return network;
}

absl::StatusOr<std::unique_ptr<TensorFile>> OpenWeightsFile(const path& file) {
  ASSIGN_OR_RETURN(const std::string head, ReadHead(file));
  if (const WeightsFormat* format = FindFormat(kWeightsFormats, head)) {
    return OpenWeights(file, *format);
  }
  if (const NetworkFormat* format = FindFormat(kNetworkFormats, head)) {
    return absl::UnimplementedError(
        absl::StrCat(file.string(), ": is no file of weights alone but ", format->name));
  }
  return UnknownFormat(file);
}

absl::StatusOr<WeightsDescription> DescribeWeights(const TensorFile& tensors,
                                                   std::string_view architecture) {
  ASSIGN_OR_RETURN(const Architecture* known, FindArchitecture(tensors, architecture));
  ASSIGN_OR_RETURN(const int scale, known->scale(tensors));
  return WeightsDescription{std::string(known->name), scale, tensors.tensors().size()};
}

}  // namespace upscaled
