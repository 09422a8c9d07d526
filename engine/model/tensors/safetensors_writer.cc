#include "engine/model/tensors/safetensors_writer.h"

#include <bit>
#include <cstring>

#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace upscaled {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they are");

constexpr size_t kAlignment = 8;

class SafetensorsWriter {
 public:
  void Add(const std::string& name, const std::vector<int64_t>& shape,
           const std::vector<float>& values) {
    const size_t begin = values_.size();
    values_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    header_[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, values_.size()}}};
  }

  std::string Finish() const {
    std::string text = header_.dump();
    text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
    const uint64_t header_bytes = text.size();
    std::string file(sizeof header_bytes, '\0');
    std::memcpy(file.data(), &header_bytes, sizeof header_bytes);
    return file + text + values_;
  }

 private:
  nlohmann::json header_ = nlohmann::json::object();
  std::string values_;
};

}  // namespace

std::string WriteSafetensors(std::span<const NamedTensor> tensors) {
  SafetensorsWriter writer;
  for (const NamedTensor& tensor : tensors) writer.Add(tensor.name, tensor.shape, tensor.values);
  return writer.Finish();
}

absl::StatusOr<std::string> WriteSafetensors(const TensorFile& tensors) {
  SafetensorsWriter writer;
  for (const auto& [name, info] : tensors.tensors()) {
    ASSIGN_OR_RETURN(const std::vector<float> values, tensors.Read(name));
    writer.Add(name, info.shape, values);
  }
  return writer.Finish();
}

}  // namespace upscaled
