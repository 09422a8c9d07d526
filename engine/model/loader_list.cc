#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/file_kind.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
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

constexpr size_t kMaxParamBytes = size_t{4} << 20;
constexpr size_t kMaxBinBytes = size_t{512} << 20;
constexpr size_t kMaxJsonBytes = size_t{64} << 20;

// How to come to a model from a file of another kind (RecognizeFileKind).
struct Advice {
  std::string_view kind, advice;
};

constexpr Advice kAdvice[] = {
    {"an HTML page", "download the file that the page offers"},
    {"a pointer of Git LFS", "fetch the file itself (git lfs pull)"},
    {"gzip", "decompress it"},
    {"zstd", "decompress it"},
    {"bzip2", "decompress it"},
    {"xz", "decompress it"},
    {"a 7z archive", "unpack it"},
    {"a RAR archive", "unpack it"},
    {"JSON", "look whether it says why the file itself did not come"},
    {"text", "look whether it says why the file itself did not come"},
};

// Returns "is an HTML page: download ..."; "" for a beginning of no known kind.
std::string DescribeOtherKind(std::string_view head) {
  const std::optional<FileKind> kind =
      RecognizeFileKind({reinterpret_cast<const uint8_t*>(head.data()), head.size()});
  if (!kind) return "";
  const auto* const known = std::ranges::find(kAdvice, kind->name, &Advice::kind);
  const std::string is = absl::StrCat("is ", ToAbsl(kind->name));
  return known == std::end(kAdvice) ? is : absl::StrCat(is, ": ", ToAbsl(known->advice));
}

// UNIMPLEMENTED: a download gave a text instead, which weights do not begin as.
absl::Status CheckIsNoText(const path& file, std::string_view bytes) {
  if (!bytes.starts_with('<') && !bytes.starts_with("version ")) return absl::OkStatus();
  const std::string other = DescribeOtherKind(bytes);
  if (other.empty()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(file.string(), ": ", other));
}

absl::StatusOr<Network> LoadNcnn(const path& param_path) {
  ASSIGN_OR_RETURN(const std::string param, ReadFile(param_path, kMaxParamBytes));
  const path bin_path = BinOf(param_path);
  ASSIGN_OR_RETURN(const std::string bin, ReadFile(bin_path, kMaxBinBytes));
  RETURN_IF_ERROR(CheckIsNoText(bin_path, bin));
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
  std::string head(kFileKindBytes, '\0');
  stream.read(head.data(), kFileKindBytes);
  head.resize(stream.gcount());
  return head;
}

template <typename Formats>
auto* FindFormat(const Formats& formats, std::string_view head) {
  const auto found = std::find_if(std::begin(formats), std::end(formats),
                                  [head](const auto& format) { return format.recognises(head); });
  return found == std::end(formats) ? nullptr : &*found;
}

absl::Status UnknownFormat(const path& file, std::string_view head) {
  const std::string other = DescribeOtherKind(head);
  std::vector<std::string> known;
  for (const NetworkFormat& format : kNetworkFormats) known.emplace_back(format.name);
  for (const WeightsFormat& format : kWeightsFormats) known.emplace_back(format.name);
  return absl::UnimplementedError(absl::StrCat(
      file.string(), ": is in no known format, there are: ", absl::StrJoin(known, ", "),
      other.empty() ? "" : absl::StrCat("; it ", other)));
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
    return UnknownFormat(file, head);
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
        absl::StrCat(file.string(), ": is no file of weights only: it holds ", format->name,
                     "; give it an ending of that format"));
  }
  return UnknownFormat(file, head);
}

absl::StatusOr<WeightsDescription> DescribeWeights(const TensorFile& tensors,
                                                   std::string_view architecture) {
  ASSIGN_OR_RETURN(const Architecture* known, FindArchitecture(tensors, architecture));
  ASSIGN_OR_RETURN(const int scale, known->scale(tensors));
  return WeightsDescription{std::string(known->name), scale, tensors.tensors().size()};
}

}  // namespace upscaled
