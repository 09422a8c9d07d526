// A line with the format's name, the settings' line, numbers, then vectors of one length.
#include "engine/train/checkpoint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"

namespace upscaled::train {
namespace {

constexpr std::string_view kFormat = "upscale-train checkpoint 1\n";
constexpr size_t kMaxSettingsBytes = 1 << 16;

struct Numbers {
  int64_t steps, total_steps;
  double start_psnr_db, best_psnr_db;
};

// The vectors of a checkpoint, in the file's order.
template <typename AnyCheckpoint>
auto VectorsOf(AnyCheckpoint& checkpoint) {
  auto& learned = checkpoint.learned;
  return std::array{&learned.parameters, &learned.average, &learned.mean, &learned.mean_square,
                    &checkpoint.best};
}

std::string_view BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

absl::Status WriteCheckpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  const Numbers numbers{checkpoint.learned.steps, checkpoint.total_steps, checkpoint.start_psnr_db,
                        checkpoint.best_psnr_db};
  const auto vectors = VectorsOf(checkpoint);
  return ReplaceFile(path,
                     {kFormat, checkpoint.settings, "\n",
                      std::string_view(reinterpret_cast<const char*>(&numbers), sizeof(numbers)),
                      BytesOf(*vectors[0]), BytesOf(*vectors[1]), BytesOf(*vectors[2]),
                      BytesOf(*vectors[3]), BytesOf(*vectors[4])},
                     {.mode = 0644, .sync = true});
}

absl::StatusOr<Checkpoint> ReadCheckpoint(const std::filesystem::path& path,
                                          size_t parameter_count) {
  Checkpoint checkpoint{.learned = Learned(std::vector<float>(parameter_count)),
                        .best = std::vector<float>(parameter_count)};
  const auto vectors = VectorsOf(checkpoint);
  const size_t vector_bytes = parameter_count * sizeof(float);
  const size_t numbers_bytes = sizeof(Numbers) + vectors.size() * vector_bytes;
  const auto bad = [&] {
    return absl::InvalidArgumentError(absl::StrCat(
        path.string(), ": is no checkpoint of a network of ", parameter_count, " parameters"));
  };
  absl::StatusOr<std::string> read = ReadFile(path, numbers_bytes + kMaxSettingsBytes);
  if (absl::IsResourceExhausted(read.status())) return bad();  // longer than any such
  ASSIGN_OR_RETURN(const std::string bytes, std::move(read));
  const size_t settings_end = bytes.find('\n', kFormat.size());
  if (!bytes.starts_with(kFormat) || settings_end == bytes.npos ||
      bytes.size() - settings_end - 1 != numbers_bytes) {
    return bad();
  }
  checkpoint.settings = bytes.substr(kFormat.size(), settings_end - kFormat.size());
  const char* next = bytes.data() + settings_end + 1;
  Numbers numbers;
  std::memcpy(&numbers, next, sizeof(numbers));
  next += sizeof(numbers);
  for (std::vector<float>* vector : vectors) {
    std::memcpy(vector->data(), next, vector_bytes);
    next += vector_bytes;
  }
  const auto finite = [](const std::vector<float>* vector) {
    return std::all_of(vector->begin(), vector->end(), [](float x) { return std::isfinite(x); });
  };
  if (numbers.steps < 0 || numbers.total_steps < 1 || numbers.steps > numbers.total_steps ||
      !std::all_of(vectors.begin(), vectors.end(), finite)) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": is damaged"));
  }
  checkpoint.learned.steps = numbers.steps;
  checkpoint.total_steps = numbers.total_steps;
  checkpoint.start_psnr_db = numbers.start_psnr_db;
  checkpoint.best_psnr_db = numbers.best_psnr_db;
  return checkpoint;
}

}  // namespace upscaled::train
