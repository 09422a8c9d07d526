#include "engine/autotune/tuning_table.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "nlohmann/json.hpp"

namespace upscaled {
namespace {

using Json = nlohmann::json;

absl::Status BadTable(const std::filesystem::path& file, std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(file.string(), " is no tuning table: ", ToAbsl(why)));
}

// {"choice": "direct", "gflops": {"direct": 170.5}}
bool ReadEntry(const Json& json, TuningEntry& entry) {
  if (!json.is_object() || !json.contains("choice") || !json["choice"].is_string()) return false;
  entry.choice = json["choice"];
  const Json gflops = json.value("gflops", Json::object());
  if (!gflops.is_object()) return false;
  for (const auto& [name, speed] : gflops.items()) {
    if (!speed.is_number()) return false;
    entry.gflops[name] = speed;
  }
  return true;
}

}  // namespace

std::string_view EngineVersion() { return UPSCALED_VERSION; }

std::string TuningKey(const Layer& layer, Precision precision) {
  return absl::StrCat(ToAbsl(PrecisionName(precision)), " ", ToAbsl(OpName(layer.op)), " ",
                      layer.in_channels, "-", layer.out_channels, " ", layer.kernel_px, "x",
                      layer.kernel_px, "/", layer.stride_px);
}

absl::StatusOr<TuningTable> TuningTable::Load(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kMaxBytes));
  const Json json = Json::parse(text, /*callback=*/nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return BadTable(file, "not a JSON object");
  const Json format = json.value("tuning_table", Json());
  if (format.is_number_unsigned() && format > 0 && format < kFormat) {
    return absl::FailedPreconditionError(absl::StrCat(
        file.string(), " is of the older format ", format.dump(), ", this engine has ", kFormat));
  }
  if (format != kFormat) {
    return BadTable(file, absl::StrCat("its 'tuning_table' must be ", kFormat));
  }
  const Json devices = json.value("devices", Json());
  if (!devices.is_object()) return BadTable(file, "it has no object 'devices'");
  TuningTable table;
  for (const auto& [device, entries] : devices.items()) {
    if (!entries.is_object()) return BadTable(file, absl::StrCat("'", device, "' is no object"));
    for (const auto& [key, entry] : entries.items()) {
      if (!ReadEntry(entry, table.devices_[device][key])) {
        return BadTable(file, absl::StrCat("'", key, "' is no object with a 'choice'"));
      }
    }
  }
  const Json engine = json.value("engine", Json());
  if (engine != EngineVersion()) {
    return absl::FailedPreconditionError(absl::StrCat(file.string(), " was measured by engine ",
                                                      engine.dump(), ", this is '",
                                                      ToAbsl(EngineVersion()), "'"));
  }
  return table;
}

absl::Status TuningTable::Save(const std::filesystem::path& file) const {
  nlohmann::ordered_json json = {{"tuning_table", kFormat}, {"engine", EngineVersion()}};
  json["devices"] = nlohmann::ordered_json::object();
  for (const auto& [device, entries] : devices_) {
    for (const auto& [key, entry] : entries) {
      auto& written = json["devices"][device][key] = {{"choice", entry.choice}};
      for (const auto& [name, speed] : entry.gflops) {
        written["gflops"][name] = std::round(speed * 10) / 10;
      }
    }
  }
  const std::string text =
      json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  return ReplaceFile(file, {text, "\n"}, {.mode = 0644, .sync = true});
}

const TuningEntry* TuningTable::Find(const std::string& device, const std::string& key) const {
  const auto entries = devices_.find(device);
  if (entries == devices_.end()) return nullptr;
  const auto entry = entries->second.find(key);
  return entry == entries->second.end() ? nullptr : &entry->second;
}

std::string TuningTable::Choices() const {
  std::string lines;
  for (const auto& [device, entries] : devices_) {
    for (const auto& [key, entry] : entries) {
      absl::StrAppend(&lines, device, "\t", key, "\t", entry.choice, "\n");
    }
  }
  return lines;
}

void TuningTable::Set(const std::string& device, const std::string& key, TuningEntry entry) {
  devices_[device][key] = std::move(entry);
}

}  // namespace upscaled
