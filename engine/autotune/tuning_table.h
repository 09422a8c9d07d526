// The fastest kernel of each layer on a device, and the fastest tiles of each network: the results
// of tuning, as in a file. A device has its backend's words (model and instruction set of a CPU,
// name and driver of a GPU):
//
//   {"tuning_table": 2, "engine": "0.1.0", "devices": {"cpu, Intel(R) Xeon(R) ..., avx512_fp16": {
//     "exact conv 64-128 3x3/1": {"choice": "winograd_f6", "gflops": {"winograd_f6": 626.7, ...}},
//     "exact tiles of 7 layers, 31968 multiply-adds a pixel": {"choice": "240x540", ...}}}}
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled {

struct TuningEntry {
  std::string choice;                    // a kernel or a tile
  std::map<std::string, double> gflops;  // all that were measured and right, for who reads it
};

// "exact conv 64-128 3x3/1": everything with an effect on a kernel's speed.
std::string TuningKey(const Layer& layer, Precision precision);

class TuningTable {
 public:
  static constexpr int kFormat = 2;
  static constexpr size_t kMaxBytes = size_t{4} << 20;

  // NOT_FOUND: no such file. INVALID_ARGUMENT: not a table, or of a format to come.
  // RESOURCE_EXHAUSTED: above kMaxBytes.
  // FAILED_PRECONDITION: a table of an older format, or a sound one measured by another version of
  // the engine; its kernels need not be as fast as ours. All name the file.
  static absl::StatusOr<TuningTable> Load(const std::filesystem::path& file);

  // Puts the whole table in place of the file at once: a reader sees the old or the new one.
  absl::Status Save(const std::filesystem::path& file) const;

  // null: not tuned.
  const TuningEntry* Find(const std::string& device, const std::string& key) const;
  // All choices, a line each, without the speeds: tables with equal ones choose alike.
  std::string Choices() const;
  void Set(const std::string& device, const std::string& key, TuningEntry entry);

 private:
  std::map<std::string, std::map<std::string, TuningEntry>> devices_;  // device, key
};

// The engine's version of written tables.
std::string_view EngineVersion();

}  // namespace upscaled
