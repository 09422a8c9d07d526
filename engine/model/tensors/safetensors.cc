#include "engine/model/tensors/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_json.h"
#include "engine/model/json_shape.h"
#include "engine/model/limits.h"
#include "engine/model/quote.h"
#include "nlohmann/json.hpp"

namespace upscaled {
namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr char kMetadata[] = "__metadata__";

TensorType TypeOf(std::string_view name) {
  if (name == "F32") return TensorType::kF32;
  if (name == "F16") return TensorType::kF16;
  if (name == "BF16") return TensorType::kBF16;
  return TensorType::kOther;
}

// Where a tensor's values lie behind the header.
struct Place {
  uint64_t begin = 0, end = 0;
};

class Safetensors final : public TensorFile {
 public:
  Safetensors(std::string bytes, size_t header_bytes)
      : bytes_(std::move(bytes)), data_offset_(kLengthBytes + header_bytes) {}

  absl::Status AddAll(const Json& header) {
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadata) continue;
      const absl::Status status = AddEntry(name, entry);
      if (!status.ok()) {
        return absl::Status(status.code(),
                            absl::StrCat("tensor ", Quote(name), ": ", status.message()));
      }
    }
    RETURN_IF_ERROR(CheckFilled());
    DropWrappers();
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<std::vector<uint64_t>> Numbers(const Json& entry, const char* key) {
    const auto field = entry.find(key);
    const bool numbers = field != entry.end() && field->is_array() &&
                         std::all_of(field->begin(), field->end(),
                                     [](const Json& v) { return v.is_number_unsigned(); });
    if (numbers) return field->get<std::vector<uint64_t>>();
    return absl::InvalidArgumentError(absl::StrCat("needs whole numbers '", key, "'"));
  }

  absl::Status AddEntry(const std::string& name, const Json& entry) {
    const bool complete = entry.is_object() && entry.size() == 3 && entry.contains("dtype") &&
                          entry["dtype"].is_string();
    if (!complete) {
      return absl::InvalidArgumentError(
          "must have a string 'dtype', a 'shape', 'data_offsets' and no more");
    }
    TensorInfo info{.type_name = entry["dtype"].get<std::string>(), .source = places_.size()};
    info.type = TypeOf(info.type_name);
    ASSIGN_OR_RETURN(const std::vector<uint64_t> shape, Numbers(entry, "shape"));
    for (const uint64_t side : shape) {  // one beyond the limit is refused, whatever it becomes
      info.shape.push_back(static_cast<int64_t>(std::min<uint64_t>(side, INT64_MAX)));
    }
    ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets, Numbers(entry, "data_offsets"));
    const uint64_t data_bytes = bytes_.size() - data_offset_;
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("lies at ", List(offsets),
                                                     ", must be two offsets within ", data_bytes,
                                                     " bytes of values"));
    }
    ASSIGN_OR_RETURN(const int64_t count, CountValues(info.shape));
    const uint64_t expected = static_cast<uint64_t>(count) * BytesPerValue(info.type);
    if (info.type != TensorType::kOther && offsets[1] - offsets[0] != expected) {
      return absl::InvalidArgumentError(absl::StrCat("of ", DescribeShape(info.shape), " in ",
                                                     info.type_name, " needs ", expected,
                                                     " bytes, has ", offsets[1] - offsets[0]));
    }
    places_.push_back({offsets[0], offsets[1]});
    return Add(name, std::move(info));
  }

  absl::Status CheckFilled() const {
    std::vector<Place> places = places_;
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    places.push_back({bytes_.size() - data_offset_, 0});  // behind the last one
    uint64_t filled = 0;
    for (const Place& place : places) {
      if (place.begin != filled) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensors ", place.begin < filled ? "overlap" : "leave a gap",
                         " between the bytes ", std::min(filled, place.begin), " and ",
                         std::max(filled, place.begin), " of the values"));
      }
      filled = place.end;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<float>> ReadValues(const TensorInfo& info) const override {
    const Place& place = places_[info.source];
    const std::string_view data = std::string_view(bytes_).substr(data_offset_);
    return ToFloats(data.substr(place.begin, place.end - place.begin), info.type);
  }

  const std::string bytes_;
  const size_t data_offset_;
  std::vector<Place> places_;  // index: TensorInfo::source
};

absl::StatusOr<Json> ParseHeader(std::string_view text) {
  RETURN_IF_ERROR(CheckJsonShape(text));
  UniqueJson header = ParseUniqueJson(text);
  if (!header.document.is_object()) {
    return absl::InvalidArgumentError("the header is no JSON object");
  }
  if (!header.repeated_key) return std::move(header.document);
  return absl::InvalidArgumentError(
      absl::StrCat("the header has ", Quote(*header.repeated_key), " twice"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorFile>> ParseSafetensors(std::string bytes) {
  uint64_t header_bytes = 0;
  if (bytes.size() < kLengthBytes) return absl::InvalidArgumentError("is cut short");
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  const uint64_t most = std::min<uint64_t>(bytes.size() - kLengthBytes, kMaxSafetensorsHeaderBytes);
  if (header_bytes > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("has a header of ", header_bytes, " bytes, at most ", most, " are possible"));
  }
  ASSIGN_OR_RETURN(const Json header,
                   ParseHeader(std::string_view(bytes).substr(kLengthBytes, header_bytes)));
  auto file = std::make_unique<Safetensors>(std::move(bytes), header_bytes);
  RETURN_IF_ERROR(file->AddAll(header));
  return file;
}

bool LooksLikeSafetensors(std::string_view head) {
  return head.size() > kLengthBytes + 1 && head[kLengthBytes] == '{' &&
         std::string_view("\" }\n").find(head[kLengthBytes + 1]) != std::string_view::npos;
}

}  // namespace upscaled
