#include "server/proof/kernel_proofs.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/files.h"
#include "nlohmann/json.hpp"

namespace upscaled::server {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr char kUnproven[] = "unproven";
constexpr char kFailed[] = "failed";
constexpr size_t kMaxBytes = size_t{1} << 20;

KernelVerdict VerdictOf(const Json& json) {
  KernelVerdict verdict;
  if (!json.is_object()) return verdict;
  const auto text = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
  };
  verdict.verdict = text("verdict");
  verdict.reason = text("reason");
  if (json.contains("speed") && json["speed"].is_number()) verdict.speed = json["speed"];
  return verdict;
}

}  // namespace

KernelProofs::KernelProofs(KernelProofOptions options, Prove prove, Logger& logger)
    : options_(std::move(options)), prove_(std::move(prove)), logger_(logger) {
  Load();
}

void KernelProofs::Load() {
  std::error_code ignored;
  if (options_.file.empty() || !std::filesystem::exists(options_.file, ignored)) return;
  const absl::StatusOr<std::string> text = ReadFile(options_.file, kMaxBytes);
  const Json json = text.ok() ? Json::parse(*text, nullptr, /*allow_exceptions=*/false) : Json();
  if (!json.is_object() || json.value("kernel_proofs", Json()) != kFormat ||
      !json.value("devices", Json()).is_object()) {
    const std::string file = options_.file.string();
    const LogField fields[] = {{"file", file}};
    logger_.Log(LogLevel::kWarning, "no record of proven kernels, only those shipped as seen serve",
                fields);
    no_file_ =
        absl::StrCat(file, " is no record of kernels; remove it, or name another --tune-file");
    options_.file.clear();
    return;
  }
  absl::MutexLock lock(&proving_);
  for (const auto& [key, kernels] : json["devices"].items()) {
    if (!kernels.is_object()) continue;
    for (const auto& [kernel, verdict] : kernels.items()) known_[key][kernel] = VerdictOf(verdict);
  }
}

bool KernelProofs::Save() {
  Json json = {{"kernel_proofs", kFormat}, {"devices", Json::object()}};
  for (const auto& [key, verdicts] : known_) {
    for (const auto& [kernel, verdict] : verdicts) {
      if (verdict.verdict == kFailed) continue;
      json["devices"][key][kernel] = {
          {"verdict", verdict.verdict}, {"reason", verdict.reason}, {"speed", verdict.speed}};
    }
  }
  const absl::Status written = ReplaceFile(options_.file, {json.dump(2), "\n"});
  if (written.ok()) return true;
  const std::string error(written.message());
  const LogField fields[] = {{"error", error}};
  logger_.Log(LogLevel::kWarning, "the record of proven kernels is not kept, they do not serve",
              fields);
  return false;
}

KernelVerdict KernelProofs::Judge(const std::string& key, const std::string& device,
                                  const std::string& kernel) {
  const auto known = known_[key].find(kernel);
  if (known != known_[key].end()) return known->second;
  if (options_.file.empty()) return {kUnproven, no_file_};
  if (!options_.prove) return {kUnproven, "the record lacks it, and --tune=load proves nothing"};
  const KernelVerdict verdict = prove_(device, kernel);
  known_[key][kernel] = verdict;
  if (verdict.verdict == kFailed || Save()) return verdict;
  known_[key].erase(kernel);
  return {kUnproven, absl::StrCat(options_.file.string(), " cannot be written")};
}

std::vector<std::string> KernelProofs::ProvenOn(const std::string& device,
                                                const std::string& description,
                                                const std::string& build,
                                                const std::vector<std::string>& kernels) {
  const std::string key = absl::StrCat(description, ", driver ", NvidiaDriver(), ", build ",
                                       options_.build, ", plugin ", build);
  std::vector<std::string> proven;
  Verdicts verdicts;
  absl::MutexLock one_at_a_time(&proving_);
  for (const std::string& kernel : kernels) {
    const KernelVerdict& verdict = verdicts[kernel] = Judge(key, device, kernel);
    Log(device, kernel, verdict);
    if (verdict.proven()) proven.push_back(kernel);
  }
  absl::MutexLock lock(&mutex_);
  on_device_[device] = std::move(verdicts);
  return proven;
}

KernelProofs::Verdicts KernelProofs::VerdictsOn(const std::string& device) const {
  absl::MutexLock lock(&mutex_);
  const auto found = on_device_.find(device);
  return found == on_device_.end() ? Verdicts() : found->second;
}

void KernelProofs::Log(const std::string& device, const std::string& kernel,
                       const KernelVerdict& verdict) {
  const std::string speed = absl::StrCat(verdict.speed);
  const LogField fields[] = {{"device", device},
                             {"kernel", kernel},
                             {"verdict", verdict.verdict},
                             {"times_as_fast", speed},
                             {"reason", verdict.reason}};
  const bool unproven = verdict.verdict == kUnproven;
  logger_.Log(verdict.proven() || unproven ? LogLevel::kInfo : LogLevel::kWarning,
              verdict.proven() ? "a kernel has proven itself"
              : unproven       ? "a kernel has not proven itself and does not serve"
                               : "a kernel is struck off",
              fields);
}

std::string NvidiaDriver() {
  const absl::StatusOr<std::string> text = ReadFile("/proc/driver/nvidia/version", size_t{1} << 16);
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

}  // namespace upscaled::server
