#include "engine/model/tensors/safetensors_writer.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace upscaled {

static_assert(std::endian::native == std::endian::little, "values are written as they are");

absl::StatusOr<std::string> WriteSafetensors(const TensorFile& tensors) {
  constexpr size_t kAlignment = 8;
  nlohmann::json header = nlohmann::json::object();
  std::string values;
  for (const auto& [name, info] : tensors.tensors()) {
    ASSIGN_OR_RETURN(const std::vector<float> tensor, tensors.Read(name));
    const size_t begin = values.size();
    values.append(reinterpret_cast<const char*>(tensor.data()), tensor.size() * sizeof(float));
    header[name] = {
        {"dtype", "F32"}, {"shape", info.shape}, {"data_offsets", {begin, values.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t header_bytes = text.size();
  std::string file(sizeof header_bytes, '\0');
  std::memcpy(file.data(), &header_bytes, sizeof header_bytes);
  return file + text + values;
}

}  // namespace upscaled
