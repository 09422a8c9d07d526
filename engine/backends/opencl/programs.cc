#include "engine/backends/opencl/programs.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/opencl/cl_status.h"
#include "engine/backends/opencl/sources.h"
#include "engine/base/status_macros.h"

namespace upscaled::opencl {
namespace {

constexpr char kLanguage[] = "-cl-std=CL1.2 ";
constexpr size_t kMaxLogBytes = 2000;

}  // namespace

Programs::Programs(Device device, cl::Context context, std::optional<ProgramCache> cache)
    : device_(std::move(device)), context_(std::move(context)), cache_(std::move(cache)) {}

Programs::Origins Programs::origins() const {
  absl::MutexLock lock(&mutex_);
  return origins_;
}

// Compiles outside the lock: two threads that ask for a new program at once both compile it, and
// the first one's is kept.
absl::StatusOr<cl::Program> Programs::Get(std::string_view source, const std::string& options) {
  const ProgramId id{source.data(), options};
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = programs_.find(id); found != programs_.end()) return found->second;
  }
  ASSIGN_OR_RETURN(cl::Program program, Make(source, options));
  absl::MutexLock lock(&mutex_);
  return programs_.emplace(id, std::move(program)).first->second;
}

absl::StatusOr<cl::Program> Programs::Make(std::string_view source, const std::string& options) {
  const std::string text = std::string(kCommonSource).append(source);
  const std::string all_options = kLanguage + options;
  const std::string_view parts[] = {text,           all_options,      device_.model,
                                    device_.vendor, device_.platform, device_.driver};
  const std::string key = ProgramCache::Key(parts);
  std::optional<cl::Program> cached = FromCache(key, all_options);
  if (!cached.has_value()) {
    ASSIGN_OR_RETURN(cached, FromSource(text, all_options));
    Store(key, *cached);
    absl::MutexLock lock(&mutex_);
    ++origins_.source;
  } else {
    absl::MutexLock lock(&mutex_);
    ++origins_.cache;
  }
  return *std::move(cached);
}

std::optional<cl::Program> Programs::FromCache(const std::string& key, const std::string& options) {
  if (!cache_.has_value()) return std::nullopt;
  const auto binary = cache_->Load(key);
  if (!binary.has_value()) return std::nullopt;
  cl_int error = CL_SUCCESS;
  cl::Program program(context_, {device_.handle}, {*binary}, nullptr, &error);
  if (error != CL_SUCCESS) return std::nullopt;
  if (program.build({device_.handle}, options.c_str()) != CL_SUCCESS) return std::nullopt;
  return program;
}

absl::StatusOr<cl::Program> Programs::FromSource(const std::string& text,
                                                 const std::string& options) {
  cl_int error = CL_SUCCESS;
  cl::Program program(context_, text, false, &error);
  RETURN_IF_ERROR(ToStatus(error, "clCreateProgramWithSource"));
  error = program.build({device_.handle}, options.c_str());
  if (error == CL_SUCCESS) return program;
  const absl::Status status = ToStatus(error, "clBuildProgram");
  const std::string log = program.getBuildInfo<CL_PROGRAM_BUILD_LOG>(device_.handle);
  return absl::Status(status.code(), absl::StrCat(status.message(), " on ", device_.name, " with '",
                                                  options, "': ", log.substr(0, kMaxLogBytes)));
}

void Programs::Store(const std::string& key, const cl::Program& program) const {
  if (!cache_.has_value()) return;
  cl_int error = CL_SUCCESS;
  const auto binaries = program.getInfo<CL_PROGRAM_BINARIES>(&error);
  if (error != CL_SUCCESS || binaries.size() != 1 || binaries[0].empty()) return;
  cache_->Store(key, binaries[0]).IgnoreError();  // the next start compiles again
}

}  // namespace upscaled::opencl
