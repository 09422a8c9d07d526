#include <fstream>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/loader.h"
#include "engine/model/ncnn_loader.h"
#include "engine/model/ncnn_param.h"
#include "engine/model/onnx/loader.h"
#include "engine/model/waifu2x_json_loader.h"

namespace upscaled {
namespace {

using std::filesystem::path;

constexpr size_t kHeadBytes = 16;
constexpr size_t kMaxParamBytes = size_t{4} << 20;
constexpr size_t kMaxBinBytes = size_t{512} << 20;
constexpr size_t kMaxJsonBytes = size_t{64} << 20;

// Says of which file an error is; what reads files does so itself.
absl::StatusOr<Network> OfFile(const path& file, absl::StatusOr<Network> network) {
  if (network.ok()) return network;
  return absl::Status(network.status().code(),
                      absl::StrCat(file.string(), ": ", network.status().message()));
}

absl::StatusOr<Network> LoadNcnn(const path& param_path) {
  ASSIGN_OR_RETURN(const std::string param, ReadFile(param_path, kMaxParamBytes));
  path bin_path = param_path;
  ASSIGN_OR_RETURN(const std::string bin,
                   ReadFile(bin_path.replace_extension(".bin"), kMaxBinBytes));
  return OfFile(param_path, ParseNcnn(param, bin));
}

absl::StatusOr<Network> LoadWaifu2xJson(const path& json_path) {
  ASSIGN_OR_RETURN(const std::string json, ReadFile(json_path, kMaxJsonBytes));
  // vgg_7 is one network for both uses: what it was trained for stands in the name alone.
  const bool enlarges = json_path.filename().string().find("scale2.0x") != std::string::npos;
  return OfFile(json_path, ParseWaifu2xJson(json, enlarges));
}

absl::StatusOr<Network> LoadOnnx(const path& onnx_path) {
  ASSIGN_OR_RETURN(const std::string onnx, ReadFile(onnx_path, kMaxOnnxBytes));
  return OfFile(onnx_path, ParseOnnx(onnx));
}

struct Format {
  const char* name;
  bool (*recognises)(std::string_view head);
  absl::StatusOr<Network> (*load)(const path& file);
};

constexpr Format kFormats[] = {
    {"ncnn .param", [](std::string_view head) { return head.starts_with(kNcnnMagic); }, LoadNcnn},
    {"waifu2x .json", [](std::string_view head) { return head.starts_with("["); }, LoadWaifu2xJson},
    {"ONNX", LooksLikeOnnx, LoadOnnx},
};

absl::StatusOr<std::string> ReadHead(const path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return absl::NotFoundError(absl::StrCat(file.string(), ": cannot be opened"));
  std::string head(kHeadBytes, '\0');
  stream.read(head.data(), kHeadBytes);
  head.resize(stream.gcount());
  return head;
}

}  // namespace

absl::StatusOr<Network> LoadNetworkFile(const path& file) {
  ASSIGN_OR_RETURN(const std::string head, ReadHead(file));
  std::string known;
  for (const Format& format : kFormats) {
    if (format.recognises(head)) {
      ASSIGN_OR_RETURN(Network network, format.load(file));
      network.name = file.stem().string();
      return network;
    }
    absl::StrAppend(&known, known.empty() ? "" : ", ", format.name);
  }
  return absl::UnimplementedError(
      absl::StrCat(file.string(), ": is in no known format, there are: ", known));
}

}  // namespace upscaled
